"""The samples of a run of many ranks, which stay in the files until they are asked for.

A thousand recordings of 100,000 samples are some million batches, which fit in memory, and
a hundred million samples, which may not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from loaderviz import machine, schema
from loaderviz.errors import LoaderVizError
from loaderviz.text import size
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.parquet import read_parquet
from loaderviz.trace.parquet.columns import NS_PER_S, whole_ns
from loaderviz.trace.parquet.read_parquet import frame
from loaderviz.trace.recording.read_recording import read_folder
from loaderviz.trace.steps import groups
from loaderviz.trace.trace import Trace
from loaderviz.trace.unread_samples import UnreadSamples

if TYPE_CHECKING:
    import pandas as pd

BYTES_PER_ROW = 8 * len(schema.SAMPLES)
MEMORY_FACTOR = 1.25  # putting rows together takes this many times their own memory


@dataclass(frozen=True)
class SampleSource:
    """Where the samples of one recording are, and how its columns become those of the run.

    Attributes:
        path: the recording's file or folder.
        rank: the recording's.
        shift_s: to be added to its times.
        first_loader: to be added to its loaders' numbers.
        n_sample_rows: how many rows its samples have.
        int_keys: whether all keys of its samples are int64.
    """

    path: Path
    rank: int
    shift_s: float
    first_loader: int
    n_sample_rows: int
    int_keys: bool

    def to_run_columns(self, table: Table) -> Table:
        """The columns of one of the recording's tables as those of the run."""
        columns = dict(table)
        for column in columns:
            if column.endswith("_s") and column not in schema.DURATIONS:
                columns[column] = whole_ns(columns[column] + self.shift_s) / NS_PER_S
        if "loader" in columns and self.first_loader:
            columns["loader"] = columns["loader"] + self.first_loader
        return columns

    def samples(self) -> Table:
        """The samples as the recording has them.

        Raises:
            LoaderVizError: where they are not there any more, or cannot be read.
        """
        path = self.path
        if path.is_dir():
            return arrays(read_folder(path).samples)
        if path.suffix != ".parquet":  # a folder then, whose recording has ended since
            path = path.with_name(f"{path.name}.parquet")
        return read_parquet.read_samples(path)


@dataclass(frozen=True)
class RunSamples(UnreadSamples):
    """The samples of all recordings, in the order of ``sources``."""

    sources: tuple[SampleSource, ...]

    def __len__(self) -> int:
        return sum(source.n_sample_rows for source in self.sources)

    def read(self, batches: pd.DataFrame) -> pd.DataFrame:
        """All of them, as one table: one row per sample.

        Raises:
            LoaderVizError: where they take more memory than is free, or a file cannot be read.
        """
        needed = int(MEMORY_FACTOR * BYTES_PER_ROW * len(self))
        if needed > machine.memory_available_bytes():
            raise LoaderVizError(
                f"the {len(self):,} samples of {len(self.sources):,} recordings take "
                f"{size(needed)} of memory, more than is free: open the recordings of "
                f"single ranks, as with load({str(self.sources[0].path)!r}), or go through "
                "trace.sample_parts()"
            )
        return joined(self._parts(batches))

    def parts(self, batches: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """All of them, a recording at a time.

        Raises:
            LoaderVizError: where a file cannot be read.
        """
        return map(frame, self._parts(batches))

    def of_ranks(self, ranks: Collection[int]) -> Self:
        """The samples of these ranks."""
        picked = tuple(source for source in self.sources if source.rank in ranks)
        return replace(self, sources=picked)

    def _parts(self, batches: pd.DataFrame) -> Iterator[Table]:
        if not self.sources:
            yield arrays(Trace.from_columns().samples)
        int_keys = all(source.int_keys for source in self.sources)
        for source in self.sources:
            part = source.to_run_columns(source.samples())
            if source.path.suffix != ".parquet":
                part = _of_batches(part, batches[batches["rank"] == source.rank])
            if not int_keys:
                part["key"] = part["key"].astype(object)
            yield part


def _of_batches(samples: Table, batches: pd.DataFrame) -> Table:
    """The samples of batches that are in the trace: a recording may have gone on since."""
    columns = (
        np.concatenate([batches[column].to_numpy(), samples[column]])
        for column in ("loader", "epoch", "batch")
    )
    batch, of_sample = np.split(groups(*columns), [len(batches)])
    return where(samples, np.isin(of_sample, batch))


def joined(parts: Iterable[Table]) -> pd.DataFrame:
    """The parts as one table.

    Joins one column after another, so that it takes the memory of one column beyond the parts'.
    """
    tables = [dict(part) for part in parts]
    filled = [table for table in tables if len(table["rank"])] or tables[:1]
    names = list(filled[0])
    return frame({name: np.concatenate([table.pop(name) for table in filled]) for name in names})
