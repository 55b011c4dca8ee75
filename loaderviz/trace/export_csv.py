"""The tables of a trace as CSV: times in seconds as in the tables, what is not known left empty."""

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
ROWS: Final = 1 << 16


def write(trace: Trace, folder: str | os.PathLike[str]) -> list[Path]:
    """Write ``batches.csv``, ``samples.csv``, ``workers.csv`` and ``spans.csv`` into a folder.

    The folder is made where it is missing. Each file replaces the one that is there, once it is
    complete. Keys and names are written as text. Returns the files.

    Raises:
        LoaderVizError: where the folder cannot be made or a file cannot be written.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoaderVizError(
            f"cannot make the folder {str(folder)!r} ({error}); name one for the CSV files"
        ) from error
    paths = [place / f"{name}.csv" for name in TABLES]
    for name, path in zip(TABLES, paths, strict=True):
        _write(trace.sample_parts() if name == "samples" else [getattr(trace, name)], path)
    return paths


def _write(parts: Iterable[Any], path: Path) -> None:
    """One table, whose parts have the same columns."""
    import pyarrow as pa
    import pyarrow.csv

    rest = iter(parts)
    first = next(rest)
    kinds = {"i": pa.int64(), "f": pa.float64()}
    layout = pa.schema({c: kinds.get(first[c].dtype.kind, pa.string()) for c in first.columns})
    with replacing(path, "export") as file, pyarrow.csv.CSVWriter(file, layout) as writer:
        for part in itertools.chain([first], rest):
            columns = [part[column].to_numpy() for column in first.columns]
            for at in range(0, len(part), ROWS):
                rows = [_column(values[at : at + ROWS]) for values in columns]
                writer.write_table(pa.table(rows, schema=layout))


def _column(values: Any) -> Any:
    import pyarrow as pa

    if values.dtype == object:
        texts = [None if v is None else _text(str(v)) for v in values.tolist()]
        return pa.array(texts, pa.string())
    return pa.array(values, from_pandas=True)


def _text(words: str) -> str:
    return words.encode("utf-8", "replace").decode()
