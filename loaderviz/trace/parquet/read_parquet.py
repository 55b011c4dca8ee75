"""Opens what ``loaderviz.trace.parquet.write_parquet`` wrote: all of it, or all but the samples.

The file may come from a stranger: its seal, its layout and its sizes are checked before its rows
are read. Arrow's dataset engine is not used: it starts threads even with ``use_threads=False``, and
loaders fork.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.regular_file import open_regular
from loaderviz.trace.check_trace import TABLES, check, check_samples
from loaderviz.trace.columns_of_rows import Table
from loaderviz.trace.parquet.columns import JSON, from_arrow, stored_name
from loaderviz.trace.parquet.seal import check_seal, damaged, not_a_trace
from loaderviz.trace.parquet.unpacked_size import check_rows, check_unpacked
from loaderviz.trace.parquet.write_parquet import (
    ADDED,
    FORMAT,
    FORMAT_KEY,
    META_KEY,
    ROWS_PER_GROUP,
    WORDS,
    layout_of,
)
from loaderviz.trace.trace import Trace
from loaderviz.trace.windows import may_be_incidents

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

# What reading can raise, beside pyarrow's own errors, if a file is sealed but not by save().
_NONSENSE = (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class TraceButSamples:
    """A recorded trace without its samples, which stay in their file or folder.

    Attributes:
        tables: by name, all but the samples.
        meta: that of the trace.
        n_sample_rows: how many rows the samples have.
        int_keys: whether all keys of the samples are int64.
    """

    tables: dict[str, Table]
    meta: dict[str, Any]
    n_sample_rows: int
    int_keys: bool


def read(path: Path) -> Trace:
    """The trace that ``save`` wrote.

    Raises:
        LoaderVizError: where the file cannot be read, is none that ``save`` wrote, or is damaged.
    """

    def read_trace(file: _File) -> Trace:
        return Trace(**{name: frame(file.columns(name)) for name in TABLES}, meta=file.meta)

    return _read_file(path, read_trace, may_lead_out=True)


def read_but_samples(path: Path) -> TraceButSamples:
    """The trace that ``save`` wrote, its samples only counted; raises as ``read`` does."""

    def read_trace(file: _File) -> TraceButSamples:
        tables = {name: file.columns(name) for name in TABLES if name != "samples"}
        check(tables, file.meta)
        return TraceButSamples(tables, file.meta, file.n_rows("samples"), file.int_keys)

    return _read_file(path, read_trace)


def read_samples(path: Path) -> Table:
    """The samples of the trace that ``save`` wrote; raises as ``read`` does."""

    def read_table(file: _File) -> Table:
        samples = file.columns("samples")
        check_samples(samples, file.columns("batches"))
        return samples

    return _read_file(path, read_table)


def frame(columns: Table) -> pd.DataFrame:
    """A table of these columns, which are not copied; texts stay Python objects."""
    import pandas as pd

    series = {
        name: pd.Series(values, dtype=values.dtype, copy=False) for name, values in columns.items()
    }
    return pd.DataFrame(series, copy=False)


def _read_file(path: Path, read_from: Callable[[_File], T], *, may_lead_out: bool = False) -> T:
    import pyarrow as pa

    try:
        with open_regular(path, may_lead_out=may_lead_out) as file:
            check_seal(file, path)
            try:
                return read_from(_File(file, path))
            except MemoryError as error:
                raise LoaderVizError(f"{str(path)!r} needs more memory than there is") from error
            except (*_NONSENSE, pa.ArrowException) as error:
                raise damaged(path, error) from error
    except OSError as error:
        raise LoaderVizError(f"cannot read {str(path)!r}: {error}") from error


class _File:
    """An open file whose layout is that of a trace."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        about = pq.read_metadata(file)
        metadata = about.metadata or {}
        if FORMAT_KEY not in metadata:
            raise not_a_trace(path)
        check_unpacked(file, about)
        lacking = _lacking_columns(metadata[FORMAT_KEY], path)
        parquet = pq.ParquetFile(
            file,
            metadata=about,
            # So that no text takes more memory than in the file.
            read_dictionary=[name for name in (*WORDS, *JSON) if name not in lacking],
            pre_buffer=False,
            page_checksum_verification=True,
        )
        self._parquet, self._lacking = parquet, lacking
        self.meta = json.loads(metadata[META_KEY].decode())
        if not isinstance(self.meta, dict):
            raise ValueError("its meta is not a dict")
        incidents = self.meta.get("incidents")
        for about in incidents if incidents and may_be_incidents(incidents) else ():
            there = Path("incidents", path.stem, str(about["incident"]))
            told = about["path"]  # as of the working folder, or of that of this file
            saved = [path.parent / there, *([path.parent / told, Path(told)] if told else [])]
            about["path"] = next((str(each) for each in saved if each.exists()), None)
        layout = parquet.metadata.schema.to_arrow_schema()
        key_types = (pa.int64(), pa.string())
        if not any(layout.equals(layout_of(kind, self._lacking)) for kind in key_types):
            raise ValueError("its columns are not those of a trace")
        self._groups: dict[str, list[int]] = {name: [] for name in TABLES}
        for i in range(parquet.num_row_groups):
            group = parquet.metadata.row_group(i)
            if not 0 < group.num_rows <= ROWS_PER_GROUP or group.num_columns != len(layout):
                raise ValueError(f"row group {i} is not one of a trace")
            (name,) = _read_group(parquet, i, ["table"])["table"].unique().to_pylist()
            self._groups[name].append(i)
        check_rows(file, {name: self.n_rows(name) for name in TABLES})

    @property
    def int_keys(self) -> bool:
        """Whether all keys of the samples are int64."""
        import pyarrow as pa

        return bool(self._parquet.schema_arrow.field("key").type == pa.int64())

    def n_rows(self, name: str) -> int:
        """How many rows a table has, without reading them."""
        return sum(self._parquet.metadata.row_group(i).num_rows for i in self._groups[name])

    def columns(self, name: str) -> Table:
        """One table. Each column is made once, at full length, so it takes little more memory."""
        n = self.n_rows(name)
        kinds = dict(TABLES[name])
        if name == "samples" and self.int_keys:
            kinds["key"] = "int64"
        data = {
            column: _unknown(n, kind) if column in self._lacking else np.empty(n, kind)
            for column, kind in kinds.items()
        }
        until_next = np.empty(n if name == "samples" else 0, bool)
        stored = {column: stored_name(column) for column in kinds if column not in self._lacking}
        names = [*stored.values(), *(["until_next"] if name == "samples" else [])]
        start = 0
        for i in self._groups[name]:
            group = _read_group(self._parquet, i, names)
            end = start + len(group)
            for column, its_name in stored.items():
                data[column][start:end] = from_arrow(column, group[its_name])
            if name == "samples":
                until_next[start:end] = from_arrow("until_next", group["until_next"])
            start = end
        if name == "samples":
            np.copyto(data["end_s"][:-1], data["start_s"][1:], where=until_next[:-1])
        return data


def _unknown(n: int, kind: str) -> Any:
    return np.full(n, None if kind == "object" else math.nan)


def _lacking_columns(file_format: bytes, path: Path) -> Collection[str]:
    """The columns of a trace that a file of this format does not have."""
    formats = ["1", *ADDED]
    if (its_format := file_format.decode(errors="replace")) in formats:
        later = formats[formats.index(its_format) + 1 :]
        return [column for each in later for column in ADDED[each]]
    raise LoaderVizError(
        f"the saved trace {str(path)!r} has the format {file_format!r}, and this version "
        f"of loaderviz reads up to {FORMAT!r}; update loaderviz"
    )


def _read_group(parquet: Any, number: int, columns: list[str]) -> Any:
    # pyarrow's threads would stay, and to fork with them, as loaders do, is not safe.
    return parquet.read_row_group(number, columns=columns, use_threads=False)
