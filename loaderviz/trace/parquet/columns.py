"""How the values of one column are stored in a saved trace: numpy arrays as pyarrow's, and back.

Values that cannot be stored, and stored values that make no sense, raise pyarrow's own errors,
TypeError, ValueError or RecursionError.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np

from loaderviz.array_types import Floats
from loaderviz.record_layout import key_value
from loaderviz.sample_keys import from_json

NS_PER_S: Final = 1e9
JSON: Final = ("key", "last_key")  # columns of any values, stored as the JSON of each
# Columns of whole numbers, NaN where one is unknown.
COUNTS: Final = ("n_bytes", "read_bytes", "disk_bytes", "pickle_bytes", "threads")
_encode = json.JSONEncoder(allow_nan=False).encode


def stored_name(column: str) -> str:
    """The name in the file of a column of ``loaderviz.schema``: ``end_ns`` for ``end_s``."""
    return column.removesuffix("_s") + "_ns" if column.endswith("_s") else column


def to_arrow(column: str, values: Any, kind: Any) -> Any:
    """The values of a column, shape (n,), as a pyarrow array of the type ``kind``."""
    import pyarrow as pa

    if column.endswith("_s"):
        values = whole_ns(values)
    elif column in JSON and kind == pa.string():
        values = [None if key is None else _encode(key_value(key)) for key in values]
    may_be_missing = column.endswith("_s") or column in COUNTS or kind == pa.string()
    try:
        return pa.array(values, kind, from_pandas=may_be_missing)
    except UnicodeEncodeError:  # half a letter, a lone surrogate, is no text of UTF-8
        texts = [each and each.encode("utf-8", "replace").decode() for each in values]
        return pa.array(texts, kind, from_pandas=may_be_missing)


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
    """Seconds as whole nanoseconds, still float64: exact for the first 48 days of a recording."""
    with np.errstate(over="ignore"):  # infinity is refused where it is stored
        return np.rint(np.asarray(seconds, np.float64) * NS_PER_S)


def next_starts(starts: Any, n: int) -> Any:
    """For each of ``n`` rows the start of the row below it; NaN where there is none.

    ``starts``: those of the rows, and of the row below the last one if there is one.
    """
    return np.append(starts[1:], math.nan)[:n]


def _objects(column: str, values: Any) -> Any:
    """The values of a dictionary array; rows of the same text share one object."""
    texts = values.dictionary.to_pylist()
    if column in JSON:
        keys = json.loads(f"[{','.join(texts)}]")
        if len(keys) != len(texts):
            raise ValueError(f"a text of {column!r} that is not the JSON of one key")
        texts = [from_json(key) for key in keys]
    objects = np.empty(len(texts) + 1, object)
    objects[:-1] = np.fromiter(texts, object, len(texts))  # a list stays one object
    rows = values.indices.fill_null(len(texts)).to_numpy()
    return objects[rows]  # the last is None
