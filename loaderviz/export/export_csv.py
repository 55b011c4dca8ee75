"""The tables of a trace as CSV: times in seconds as in the tables, the unknown left empty."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loaderviz.errors import LoaderVizError
from loaderviz.trace.atomic_file import replacing

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

TABLES: Final = ("batches", "samples", "workers", "spans")
ROWS_AT_ONCE: Final = 1 << 16
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "'")


def write(trace: Trace, folder: str | os.PathLike[str]) -> list[Path]:
    """Write ``batches.csv``, ``samples.csv``, ``workers.csv`` and ``spans.csv`` into a folder.

    The folder is made where it is missing. Each file replaces the one that is there, once it is
    complete. Keys and names are written as text; one that a spreadsheet would take for a formula,
    as it begins with = + - @, a tab or a carriage return, gets a quote (') before it, as do those
    that begin with such a quote. Numbers stay numbers. Returns the paths of the files.

    Raises:
        LoaderVizError: where the folder cannot be made or a file cannot be written.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoaderVizError(
            f"cannot make the folder {str(folder)!r} ({error}); name one for the CSV files"
        ) from error
    paths = [target / f"{name}.csv" for name in TABLES]
    for name, path in zip(TABLES, paths, strict=True):
        _write(trace.sample_parts() if name == "samples" else [getattr(trace, name)], path)
    return paths


def _write(parts: Iterable[Any], path: Path) -> None:
    """Write one table, whose parts have the same columns."""
    import pyarrow as pa
    import pyarrow.csv

    remaining = iter(parts)
    first = next(remaining)
    types = {"i": pa.int64(), "f": pa.float64()}
    layout = pa.schema({c: types.get(first[c].dtype.kind, pa.string()) for c in first.columns})
    with replacing(path, "export") as file, pyarrow.csv.CSVWriter(file, layout) as writer:
        for part in itertools.chain([first], remaining):
            columns = [part[column].to_numpy() for column in first.columns]
            for start in range(0, len(part), ROWS_AT_ONCE):
                rows = [_column(values[start : start + ROWS_AT_ONCE]) for values in columns]
                writer.write_table(pa.table(rows, schema=layout))


def _column(values: Any) -> Any:
    import pyarrow as pa

    if values.dtype == object:
        texts = [None if value is None else _cell(value) for value in values.tolist()]
        return pa.array(texts, pa.string())
    return pa.array(values, from_pandas=True)


def _cell(value: Any) -> str:
    """A key or a name as text that no spreadsheet calculates."""
    text = str(value).encode("utf-8", "replace").decode()
    is_number = isinstance(value, int | float)
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not is_number else text
