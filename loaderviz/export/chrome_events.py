"""Events of the Chrome trace format as text, thousands at a time.

The format is that of chrome://tracing ("Trace Event Format"), which Perfetto and torch.profiler
share: JSON objects with times in microseconds. All numbers are written exactly, to the nanosecond.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

ROWS_PER_PIECE: Final = 1 << 16  # a piece is tens of MB of text at most
SEPARATOR: Final = ",\n"  # between two events


def slice_events(
    names: Any,
    location: Any,
    start_ns: Any,
    end_ns: Any,
    args: Mapping[str, Any],
    extra: Any = "",
) -> Iterator[Any]:
    """Complete events, one per row: each lasts from a start to an end.

    Yields bytes, ``ROWS_PER_PIECE`` events at a time. A column is an array of one value per row, or
    a single text that stands in every row.

    Args:
        names: a column of JSON texts, each with its quotes.
        location: a column of JSON members that say which process and lane.
        start_ns: int64 array.
        end_ns: int64 array.
        args: what a viewer shows with a slice: for each name an array of one value per row.
        extra: a column of further JSON members, each with a comma before it.
    """
    for rows in _row_ranges(len(start_ns)):
        start, end = start_ns[rows], end_ns[rows]
        members = [
            part
            for name, values in args.items()
            for part in (f',"{name}":', _json_values(values[rows]))
        ]
        if members:
            members = [f"{{{members[0][1:]}", *members[1:], "}"]
        yield _joined_lines(
            '{"ph":"X","name":', _part_of(names, rows), ",", _part_of(location, rows),
            ',"ts":', microseconds(start), ',"dur":', microseconds(end - start),
            _part_of(extra, rows), *([',"args":', *members] if members else []), "}",
        )  # fmt: skip


def counter_events(name: str, location: Any, at_ns: Any, unit: str, values: Any) -> Iterator[Any]:
    """Counter events: the value that a number has from each moment on.

    Yields bytes, as ``slice_events`` does. ``location``: JSON members that say which process;
    ``at_ns``: int64 array; ``values``: one number per moment, shown under the name ``unit``.
    """
    begin = f'{{"ph":"C","name":{json_text(name)},'
    for rows in _row_ranges(len(at_ns)):
        yield _joined_lines(
            begin, _part_of(location, rows), ',"ts":', microseconds(at_ns[rows]),
            f',"args":{{{json_text(unit)}:', _json_values(values[rows]), "}}",
        )  # fmt: skip


def metadata_event(kind: str, location: str, **argument: Any) -> bytes:
    """A metadata event with one argument: the name of a process, say."""
    (name, value) = next(iter(argument.items()))
    value = json_text(value) if isinstance(value, str) else value
    return (
        f'{{"ph":"M","name":"{kind}",{location},"args":{{"{name}":{value}}}}}{SEPARATOR}'.encode()
    )


def microseconds(ns: Any) -> Any:
    """Whole nanoseconds (int64 array) as a pyarrow array of decimal texts in microseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    magnitude = np.abs(ns)
    whole = pa.array(magnitude // 1000).cast(pa.string())
    decimals = pc.utf8_lpad(pa.array(magnitude % 1000).cast(pa.string()), 3, "0")
    sign = np.array(["", "-"])[(ns < 0).astype(int)] if (ns < 0).any() else ""
    parts = (pa.array(sign) if len(sign) else "", whole, ".", decimals, "")
    return pc.binary_join_element_wise(*parts)


def numbered_names(name: str, numbers: Any) -> Any:
    """For each number a JSON text: the name, a blank and the number."""
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(f'"{name} ', _json_values(numbers), '"', "")


def json_text(text: str) -> str:
    """A text as JSON, with its quotes and in ASCII.

    Half a surrogate pair hangs Perfetto, and a NUL ends the text there: each becomes "?".
    """
    return json.dumps(text.encode("utf-8", "replace").decode().replace("\0", "?"))


def _row_ranges(n: int) -> Iterator[slice]:
    return (slice(start, start + ROWS_PER_PIECE) for start in range(0, n, ROWS_PER_PIECE))


def _part_of(column: Any, rows: slice) -> Any:
    return column if isinstance(column, str) else column[rows]


def _joined_lines(*columns: Any) -> Any:
    """The bytes of one line per row: the columns side by side, a text the same in each line."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = tuple(
        pa.array(column) if isinstance(column, np.ndarray) else column for column in columns
    )
    joined = pc.binary_join_element_wise(
        *columns, SEPARATOR, "", null_handling="replace", null_replacement="null"
    ).cast(pa.large_string())
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int64)[joined.offset :]
    return memoryview(data)[ends[0] : ends[len(joined)]]


def _json_values(column: Any) -> Any:
    """The JSON of each value of a column: whole numbers, floats (NaN: null), texts or keys."""
    import pyarrow as pa

    if column.dtype == object:
        return pa.array([_json_key(key) for key in column.tolist()], pa.string())
    return pa.array(column, from_pandas=True).cast(pa.string())


def _json_key(key: Any) -> str:
    """A key as JSON that every reader takes.

    Text, int64, finite floats, booleans and None stay what they are; any other key becomes its
    ``repr``.
    """
    if type(key) is int and -(2**63) <= key < 2**63:
        return str(key)
    if key is None or type(key) is bool or (type(key) is float and math.isfinite(key)):
        return json.dumps(key)
    return json_text(key if isinstance(key, str) else repr(key))
