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

ROWS: Final = 1 << 16  # a piece: tens of MB of text at most
END: Final = ",\n"  # between two events


def slices(
    name: Any, place: Any, start_ns: Any, end_ns: Any, args: Mapping[str, Any], more: Any = ""
) -> Iterator[Any]:
    """Complete events: what lasts from a start to an end. All but ``args`` are as for ``lines``.

    Args:
        name: JSON texts, each with its quotes.
        place: JSON members that say which lane.
        start_ns: int64.
        end_ns: int64.
        args: columns of what is told of each.
        more: JSON members, each with its comma before it.
    """
    for rows in pieces(len(start_ns)):
        start, end = start_ns[rows], end_ns[rows]
        told = [part for k, v in args.items() for part in (f',"{k}":', values(v[rows]))]
        if told:
            told = [f"{{{told[0][1:]}", *told[1:], "}"]
        yield lines(
            '{"ph":"X","name":', _cut(name, rows), ",", _cut(place, rows),
            ',"ts":', microseconds(start), ',"dur":', microseconds(end - start),
            _cut(more, rows), *([',"args":', *told] if told else []), "}",
        )  # fmt: skip


def counts(name: str, place: Any, at_ns: Any, unit: str, value: Any) -> Iterator[Any]:
    """Counter events: what a number is from each moment on."""
    begin = f'{{"ph":"C","name":{text(name)},'
    for rows in pieces(len(at_ns)):
        yield lines(
            begin, _cut(place, rows), ',"ts":', microseconds(at_ns[rows]),
            f',"args":{{{text(unit)}:', values(value[rows]), "}}",
        )  # fmt: skip


def about(kind: str, place: str, **value: Any) -> bytes:
    """A metadata event: the name of a process, say."""
    (key, what) = next(iter(value.items()))
    what = text(what) if isinstance(what, str) else what
    return f'{{"ph":"M","name":"{kind}",{place},"args":{{"{key}":{what}}}}}{END}'.encode()


def pieces(n: int) -> Iterator[slice]:
    return (slice(at, at + ROWS) for at in range(0, n, ROWS))


def lines(*parts: Any) -> Any:
    """The bytes of one line a row: the parts side by side, texts the same in each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = tuple(pa.array(part) if isinstance(part, np.ndarray) else part for part in parts)
    joined = pc.binary_join_element_wise(
        *parts, END, "", null_handling="replace", null_replacement="null"
    ).cast(pa.large_string())
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int64)[joined.offset :]
    return memoryview(data)[ends[0] : ends[len(joined)]]


def microseconds(ns: Any) -> Any:
    """Whole nanoseconds as decimals of microseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = np.abs(ns)
    whole = pa.array(size // 1000).cast(pa.string())
    part = pc.utf8_lpad(pa.array(size % 1000).cast(pa.string()), 3, "0")
    sign = np.array(["", "-"])[(ns < 0).astype(int)] if (ns < 0).any() else ""
    parts = (pa.array(sign) if len(sign) else "", whole, ".", part, "")
    return pc.binary_join_element_wise(*parts)


def values(column: Any) -> Any:
    """JSON values of a column of whole numbers, of floats (NaN: null), of texts, or of keys."""
    import pyarrow as pa

    if column.dtype == object:
        return pa.array([key_text(each) for each in column.tolist()], pa.string())
    return pa.array(column, from_pandas=True).cast(pa.string())


def key_text(key: Any) -> str:
    """JSON that every reader takes: what is no text, no whole and no finite number is its repr."""
    if type(key) is int and -(2**63) <= key < 2**63:
        return str(key)
    if key is None or type(key) is bool or (type(key) is float and math.isfinite(key)):
        return json.dumps(key)
    return text(key if isinstance(key, str) else repr(key))


def numbered(name: str, numbers: Any) -> Any:
    """JSON texts: the name and a number."""
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(f'"{name} ', values(numbers), '"', "")


def text(words: str) -> str:
    """JSON in ASCII. Half a surrogate pair hangs Perfetto, and a NUL ends its text: both go."""
    words = words.encode("utf-8", "replace").decode().replace("\0", "?")
    return json.dumps(words)


def _cut(part: Any, rows: slice) -> Any:
    return part if isinstance(part, str) else part[rows]
