"""A run of many ranks as one trace, whose samples stay in the files until they are asked for.

A thousand recordings of 100,000 samples are some million batches, which fit in memory, and
a hundred million samples, which may not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from loaderviz import machine, schema
from loaderviz.errors import LoaderVizError
from loaderviz.text import size
from loaderviz.trace.analysis.steps import groups
from loaderviz.trace.merge.run_meta import meta_of_ranks
from loaderviz.trace.parquet import read_parquet
from loaderviz.trace.parquet.columns import NS_PER_S, whole_ns
from loaderviz.trace.parquet.read_parquet import Columns, frame
from loaderviz.trace.recording.read_recording import read_folder
from loaderviz.trace.trace import Trace, rows_of_ranks

if TYPE_CHECKING:
    import pandas as pd

BYTES_PER_ROW = 8 * len(schema.SAMPLES)
ROOM = 1.25  # times what the rows take: what is needed while they are put together


@dataclass(frozen=True)
class Source:
    """Where the samples of one recording lie, and what changes as they join the others'."""

    path: Path
    rank: int
    shift_s: float  # to be added to its times
    first_loader: int  # to be added to its loaders' numbers
    n_sample_rows: int
    int_keys: bool

    def joining(self, table: Columns) -> Columns:
        """The columns of one of its tables as those of the run."""
        columns = dict(table)
        for column in columns:
            if column.endswith("_s") and column not in schema.DURATIONS:
                columns[column] = whole_ns(columns[column] + self.shift_s) / NS_PER_S
        if "loader" in columns and self.first_loader:
            columns["loader"] = columns["loader"] + self.first_loader
        return columns

    def samples(self) -> Columns:
        """As they lie there; raises LoaderVizError where they do not any more."""
        path = self.path
        if path.is_dir():
            return columns_of(read_folder(path).samples)
        if path.suffix != ".parquet":  # a folder then, whose recording has ended since
            path = path.with_name(f"{path.name}.parquet")
        return read_parquet.read_samples(path)


class RunTrace(Trace):
    """A trace of many recordings. What it says of ``samples`` it knows without reading them."""

    _sources: tuple[Source, ...] = ()

    @classmethod
    def of(
        cls, tables: Mapping[str, pd.DataFrame], meta: Mapping[str, Any], sources: Iterable[Source]
    ) -> Self:
        """``tables``: all but the samples."""
        trace = cls.__new__(cls)
        for name, value in {**tables, "meta": meta, "_sources": tuple(sources)}.items():
            object.__setattr__(trace, name, value)
        return trace

    @cached_property
    def samples(self) -> pd.DataFrame:
        """One row per sample.

        Raises:
            LoaderVizError: where they take more memory than there is, or a file cannot be read.
        """
        needed = int(ROOM * BYTES_PER_ROW * self.n_sample_rows)
        if needed > machine.memory_available_bytes():
            raise LoaderVizError(
                f"the {self.n_sample_rows:,} samples of {len(self._sources):,} recordings take "
                f"{size(needed)} of memory, more than is free: open the recordings of "
                f"single ranks, as with load({str(self._sources[0].path)!r}), or go through "
                "trace.sample_parts()"
            )
        return joined(self._parts())

    @property
    def n_sample_rows(self) -> int:
        if "samples" in self.__dict__:
            return len(self.samples)
        return sum(source.n_sample_rows for source in self._sources)

    def sample_parts(self) -> Iterator[pd.DataFrame]:
        if "samples" in self.__dict__:
            yield self.samples
            return
        for part in self._parts():
            yield frame(part)

    def of_ranks(self, ranks: Collection[int]) -> Trace:
        if "samples" in self.__dict__:
            return super().of_ranks(ranks)
        picked = list(ranks)
        names = ("batches", "workers", "spans")
        tables = {name: rows_of_ranks(getattr(self, name), picked) for name in names}
        sources = [source for source in self._sources if source.rank in picked]
        return RunTrace.of(tables, meta_of_ranks(self.meta, picked), sources)

    def _parts(self) -> Iterator[Columns]:
        if not self._sources:
            yield columns_of(Trace.from_columns().samples)
        int_keys = all(source.int_keys for source in self._sources)
        for source in self._sources:
            part = source.joining(source.samples())
            if source.path.suffix != ".parquet":
                part = self._known(part, source)
            if not int_keys:
                part["key"] = part["key"].astype(object)
            yield part

    def _known(self, samples: Columns, source: Source) -> Columns:
        """Those of batches that are in this trace: a recording may have gone on since."""
        batches = self.batches[self.batches["rank"] == source.rank]
        pairs = (
            np.concatenate([batches[column].to_numpy(), samples[column]])
            for column in ("loader", "epoch", "batch")
        )
        batch, of_sample = np.split(groups(*pairs), [len(batches)])
        known = np.isin(of_sample, batch)
        return {column: values[known] for column, values in samples.items()}


def columns_of(table: pd.DataFrame) -> Columns:
    return {column: table[column].to_numpy() for column in table.columns}


def joined(parts: Iterable[Columns]) -> pd.DataFrame:
    """One table, a column after another: it takes one column more than the parts do."""
    every = [dict(part) for part in parts]
    filled = [part for part in every if len(part["rank"])] or every[:1]
    columns = list(filled[0])
    return frame({name: np.concatenate([part.pop(name) for part in filled]) for name in columns})
