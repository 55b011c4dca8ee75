"""How the values of one column lie in a saved trace: pyarrow on one side, numpy on the other.

Values that cannot be stored, and nonsense that was, raise pyarrow's own errors, TypeError,
ValueError or RecursionError.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np

from loaderviz.sample_keys import from_json, to_json

NS_PER_S: Final = 1e9
JSON: Final = ("key", "last_key")  # the columns of any values: the JSON of each
COUNTS: Final = ("n_bytes",)  # of whole numbers, NaN where one is unknown
_encode = json.JSONEncoder(allow_nan=False).encode
Floats = np.ndarray[Any, np.dtype[np.float64]]


def stored_name(column: str) -> str:
    return column.removesuffix("_s") + "_ns" if column.endswith("_s") else column


def to_arrow(column: str, values: Any, kind: Any) -> Any:
    """The values as a pyarrow array of the type ``kind``."""
    import pyarrow as pa

    if column.endswith("_s"):
        values = whole_ns(values)
    elif column in JSON and kind == pa.string():
        values = [None if key is None else _encode(to_json(key)) for key in values]
    may_lack = column.endswith("_s") or column in COUNTS or kind == pa.string()
    return pa.array(values, kind, from_pandas=may_lack)


def from_arrow(column: str, values: Any) -> Any:
    """The values of a pyarrow array as a numpy array: int64, float64 seconds, or objects."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        chunks = [_objects(column, chunk) for chunk in values.chunks]
        return np.concatenate(chunks) if chunks else np.empty(0, object)
    if column.endswith("_s"):
        return np.divide(values.to_numpy(), NS_PER_S, dtype=np.float64)
    if values.null_count and column not in COUNTS:
        raise ValueError(f"a missing value of {column!r}")
    return values.to_numpy()


def whole_ns(seconds: Any) -> Floats:
    """Rounded to nanoseconds; exact for what a recording has seen in its first 48 days."""
    with np.errstate(over="ignore"):  # infinity is refused where it is stored
        return np.rint(np.asarray(seconds, np.float64) * NS_PER_S)


def next_starts(starts: Any, n: int) -> Any:
    """Of ``n`` rows, of which the starts are given, and of the row below them if there is one."""
    return np.append(starts[1:], math.nan)[:n]


def _objects(column: str, values: Any) -> Any:
    """The values of a dictionary array; rows of the same text share one object."""
    texts = values.dictionary.to_pylist()
    if column in JSON:
        found = json.loads(f"[{','.join(texts)}]")
        if len(found) != len(texts):
            raise ValueError(f"a text of {column!r} that is not the JSON of one key")
        texts = [from_json(key) for key in found]
    objects = np.empty(len(texts) + 1, object)
    objects[:-1] = np.fromiter(texts, object, len(texts))  # a list stays one object
    rows = values.indices.fill_null(len(texts)).to_numpy()
    return objects[rows]  # the last is None
