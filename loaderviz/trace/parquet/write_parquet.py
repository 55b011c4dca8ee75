"""A trace in one Parquet file, readable with and without loaderviz. Nothing in it is pickled.

The rows of all four tables follow one another, in row groups of one table each, which the column
``table`` names. A row has the columns of all tables, null in those that its own table lacks.

- Columns are those of ``loaderviz.schema``, but times are whole nanoseconds: ``started_s`` is
  stored as the int64 ``started_ns``, and NaN as null.
- ``key`` is int64 where all keys of the trace are, else text: the JSON of each key. ``last_key``
  is always JSON. A tuple is ``{"tuple": [...]}``, NaN ``{"float": "nan"}``, None null, and a key of
  another kind its ``repr``.
- Most samples end when the next one starts. There ``until_next`` is true, ``end_ns`` is null, and
  the end is ``start_ns`` of the next row. With DuckDB, from the rows with ``table = 'samples'``:
  ``CASE WHEN until_next THEN lead(start_ns) OVER () ELSE end_ns END``.
- ``n_bytes``, ``read_bytes``, ``disk_bytes``, ``pickle_bytes`` and ``threads`` are int64, null
  where they are not known. Files of older formats lack the columns in ``ADDED``.
- The schema's metadata has ``loaderviz.format``, the version of this layout, and
  ``loaderviz.meta``, the JSON of ``Trace.meta``.
- A seal covers the whole file: see ``loaderviz.trace.parquet.seal``.

A row group has up to ROWS_PER_GROUP rows, and describing its columns takes some KB. So the size of
a file limits how many rows it can claim to have.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.plain_value import as_text
from loaderviz.trace.atomic_file import replacing
from loaderviz.trace.check_trace import LEFT_OUT, MOST_CHARACTERS, TABLES
from loaderviz.trace.parquet.columns import next_starts, stored_name, to_arrow, whole_ns
from loaderviz.trace.parquet.seal import seal
from loaderviz.trace.parquet.unpacked_size import check_rows, check_unpacked

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

FORMAT: Final = "7"
ADDED: Final = {  # by format, what files of those before lack: it is unknown
    "2": ("n_bytes",),
    "3": (
        *("drawing_s", "process_cpu_s", "queued_s", "throttled_s"),
        *("pickle_s", "pickle_bytes", "boot_s", "unpickle_s", "init_s"),
    ),
    "4": ("first_read_s",),
    "5": ("shapes",),
    "6": ("children_cpu_s", "asked_s", "dismissed_s", "gone_s"),
    "7": ("read_bytes", "disk_bytes", "cpus_allowed", "threads"),
}
ROWS_PER_GROUP: Final = 1 << 16
MOST_DICTIONARY_BYTES: Final = 4 * ROWS_PER_GROUP * MOST_CHARACTERS
FORMAT_KEY: Final = b"loaderviz.format"
META_KEY: Final = b"loaderviz.meta"

WORDS: Final = ("table", "state", "start_method", "exit", "name", "shapes", "cpus_allowed")


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """What ``Trace.save`` does."""
    import pyarrow.parquet as pq

    with replacing(path, "save()") as file:
        _write(trace, file)
        file.flush()
        n_rows = {name: len(getattr(trace, name)) for name in TABLES if name != "samples"}
        check_rows(file, {**n_rows, "samples": trace.n_sample_rows})  # what is saved can be opened
        check_unpacked(file, pq.read_metadata(file))
        seal(file)


def _write(trace: Trace, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = trace.sample_parts()
    samples = next(parts)  # all parts have the same columns, and keys of one kind
    tables = {name: iter([getattr(trace, name)]) for name in TABLES if name != "samples"}
    tables["samples"] = itertools.chain([samples], parts)
    layout = layout_of(pa.int64() if samples["key"].dtype == np.int64 else pa.string())
    metadata = {FORMAT_KEY: FORMAT, META_KEY: _meta_json(trace.meta)}
    with pq.ParquetWriter(
        file,
        layout,
        compression="zstd",
        use_dictionary=list(WORDS),
        dictionary_pagesize_limit=MOST_DICTIONARY_BYTES,  # else each row would hold its text
        column_encoding={
            field.name: "DELTA_BINARY_PACKED" for field in layout if field.type == pa.int64()
        },
        write_statistics=["table"],  # for other readers: they skip the tables not asked for
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata(metadata)
        for name in TABLES:
            for frame in tables[name]:
                for group in _row_groups(name, frame, layout):
                    writer.write_table(group, row_group_size=ROWS_PER_GROUP)


def layout_of(key_type: Any, lacking: Collection[str] = ()) -> Any:
    """The pyarrow schema of a file whose keys have this type, without the ``lacking`` columns."""
    import pyarrow as pa

    types = {"table": pa.string()}
    for columns in TABLES.values():
        for column, kind in columns.items():
            if column in lacking:
                continue
            types[stored_name(column)] = pa.string() if kind == "object" else pa.int64()
    return pa.schema({**types, "key": key_type, "until_next": pa.bool_()})


def _meta_json(meta: Mapping[str, Any]) -> str:
    """``meta`` as JSON; what that cannot hold is left out, with a word in its ``problems``."""
    members, words = {}, []
    for key, value in meta.items():
        try:
            members[str(key)] = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            words.append(f"{LEFT_OUT}meta[{key!r:.60}] cannot be written as JSON: {error}")
    if words:
        problems = [*(meta.get("problems") or ()), *words]
        members["problems"] = json.dumps([as_text(each) for each in problems])
    return "{" + ", ".join(f"{json.dumps(key)}: {text}" for key, text in members.items()) + "}"


def _row_groups(name: str, frame: Any, layout: Any) -> Iterator[Any]:
    """The rows of a table with all columns of the file, one row group at a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = {column: frame[column].to_numpy() for column in TABLES[name]}
    for start in range(0, len(frame), ROWS_PER_GROUP):
        size = min(ROWS_PER_GROUP, len(frame) - start)
        stored = {"table": pa.repeat(name, size)}
        for column, values in data.items():
            kind = layout.field(stored_name(column)).type
            try:
                stored[stored_name(column)] = to_arrow(column, values[start : start + size], kind)
            except (TypeError, ValueError, RecursionError, pa.ArrowException) as error:
                raise LoaderVizError(
                    f"cannot save the column {column!r} of {name} ({error}); "
                    "see loaderviz.schema for what it holds"
                ) from error
        if name == "samples":
            starts_below = next_starts(data["start_s"][start : start + size + 1], size)
            end_ns = whole_ns(data["end_s"][start : start + size])
            until_next = end_ns == whole_ns(starts_below)
            stored["until_next"] = pa.array(until_next)
            stored["end_ns"] = pc.if_else(stored["until_next"], None, stored["end_ns"])
        columns = [stored.get(field.name, pa.nulls(size, field.type)) for field in layout]
        yield pa.Table.from_arrays(columns, schema=layout)
