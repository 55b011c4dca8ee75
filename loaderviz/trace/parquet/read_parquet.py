"""Opening what ``loaderviz.trace.parquet.write_parquet`` wrote: all of it, or without its samples.

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
from loaderviz.trace.columns_of_rows import Table
from loaderviz.trace.parquet.columns import JSON, from_arrow, stored_name
from loaderviz.trace.parquet.seal import check_seal, damaged, not_a_trace
from loaderviz.trace.parquet.write_parquet import (
    ADDED,
    FORMAT,
    FORMAT_KEY,
    META_KEY,
    ROWS_PER_GROUP,
    TABLES,
    WORDS,
    layout_of,
)
from loaderviz.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

# What reading a sealed file can raise that save() did not write, beside pyarrow's own errors.
_NONSENSE = (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Opened:
    """A saved trace whose samples stay in the file."""

    tables: dict[str, Table]  # all but the samples
    meta: dict[str, Any]
    n_sample_rows: int  # that the file has
    int_keys: bool


def read(path: Path) -> Trace:
    """The trace that ``save`` wrote.

    Raises:
        LoaderVizError: where the file cannot be read, is none that ``save`` wrote, or is damaged.
    """

    def all_of(file: _File) -> Trace:
        return Trace(**{name: frame(file.columns(name)) for name in TABLES}, meta=file.meta)

    return _open(path, all_of)


def read_but_samples(path: Path) -> Opened:
    """As ``read``, but of the samples only how many there are."""

    def all_but_samples(file: _File) -> Opened:
        tables = {name: file.columns(name) for name in TABLES if name != "samples"}
        return Opened(tables, file.meta, file.n_rows("samples"), file.int_keys)

    return _open(path, all_but_samples)


def read_samples(path: Path) -> Table:
    """The samples of the trace that ``save`` wrote; raises as ``read`` does."""
    return _open(path, lambda file: file.columns("samples"))


def frame(columns: Table) -> pd.DataFrame:
    """A table of these columns, which are not copied; texts stay Python objects."""
    import pandas as pd

    series = {name: pd.Series(each, dtype=each.dtype, copy=False) for name, each in columns.items()}
    return pd.DataFrame(series, copy=False)


def _open(path: Path, look: Callable[[_File], T]) -> T:
    import pyarrow as pa

    try:
        with path.open("rb") as file:
            check_seal(file, path)
            try:
                return look(_File(file, path))
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

        parquet = pq.ParquetFile(
            file,
            read_dictionary=[*WORDS, *JSON],  # so that no text takes more memory than in the file
            pre_buffer=False,
            page_checksum_verification=True,
        )
        about = parquet.metadata.metadata or {}
        if FORMAT_KEY not in about:
            raise not_a_trace(path)
        self._parquet, self._lacking = parquet, _lacking(about[FORMAT_KEY], path)
        self.meta = json.loads(about[META_KEY].decode())
        if not isinstance(self.meta, dict):
            raise ValueError("its meta is no dict")
        layout = parquet.metadata.schema.to_arrow_schema()
        keys = (pa.int64(), pa.string())
        if not any(layout.equals(layout_of(key, self._lacking)) for key in keys):
            raise ValueError("its columns are not those of a trace")
        self._groups: dict[str, list[int]] = {name: [] for name in TABLES}
        for i in range(parquet.num_row_groups):
            group = parquet.metadata.row_group(i)
            if not 0 < group.num_rows <= ROWS_PER_GROUP or group.num_columns != len(layout):
                raise ValueError(f"row group {i} is not one of a trace")
            (name,) = _rows(parquet, i, ["table"])["table"].unique().to_pylist()
            self._groups[name].append(i)

    @property
    def int_keys(self) -> bool:
        import pyarrow as pa

        return bool(self._parquet.schema_arrow.field("key").type == pa.int64())

    def n_rows(self, name: str) -> int:
        return sum(self._parquet.metadata.row_group(i).num_rows for i in self._groups[name])

    def columns(self, name: str) -> Table:
        """One table. Each column is made once, at full length: it takes little more memory."""
        n = self.n_rows(name)
        kinds = dict(TABLES[name])
        if name == "samples" and self.int_keys:
            kinds["key"] = "int64"
        data = {
            column: np.full(n, math.nan) if column in self._lacking else np.empty(n, kind)
            for column, kind in kinds.items()
        }
        until_next = np.empty(n if name == "samples" else 0, bool)
        stored = {column: stored_name(column) for column in kinds if column not in self._lacking}
        wanted = [*stored.values(), *(["until_next"] if name == "samples" else [])]
        at = 0
        for i in self._groups[name]:
            rows = _rows(self._parquet, i, wanted)
            end = at + len(rows)
            for column, its_name in stored.items():
                data[column][at:end] = from_arrow(column, rows[its_name])
            if name == "samples":
                until_next[at:end] = from_arrow("until_next", rows["until_next"])
            at = end
        if name == "samples":
            np.copyto(data["end_s"][:-1], data["start_s"][1:], where=until_next[:-1])
        return data


def _lacking(found: bytes, path: Path) -> Collection[str]:
    """The columns of a trace that a file of this format does not have."""
    for known, lacking in {**ADDED, FORMAT: ()}.items():
        if found == known.encode():
            return lacking
    raise LoaderVizError(
        f"the saved trace {str(path)!r} has the format {found!r}, and this version "
        f"of loaderviz reads up to {FORMAT!r}; update loaderviz"
    )


def _rows(parquet: Any, group: int, columns: list[str]) -> Any:
    # Threads would stay, and loaders fork: with pyarrow's threads there, that is not safe.
    return parquet.read_row_group(group, columns=columns, use_threads=False)
