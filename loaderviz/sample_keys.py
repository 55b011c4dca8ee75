"""Keys of samples as JSON values and back: text, numbers, None, and tuples and lists of such.

JSON has no NaN and no infinity, and no tuple: these are dicts of one member. Many whole numbers
are packed into one text.
"""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any, Final

import numpy as np

from loaderviz.array_types import Ints
from loaderviz.plain_value import MOST_BITS

MOST_PACKED: Final = 1 << 17  # numbers: as a text they take up to half a megabyte
BITS_OF_KEY: Final = 32  # of a packed number; above them is the number of a dataset
_WORD = np.dtype("<i8")


def to_json(key: Any) -> Any:
    """A key as a JSON value; raises TypeError for a key that would not come back as it is.

    Numbers of numpy's come back as Python's. None of the key's own code runs.
    """
    cls = type(key)
    if key is None or cls is bool or issubclass(cls, str):
        return key
    if issubclass(cls, np.bool_ | np.integer):
        return np.generic.item(key)
    if issubclass(cls, int) and int.bit_length(key) <= MOST_BITS:
        return key
    if issubclass(cls, float | np.floating) and cls is not np.longdouble:
        number = float.__pos__(key) if issubclass(cls, float) else np.generic.item(key)
        return number if math.isfinite(number) else {"float": str(number)}
    if cls is list:
        return [to_json(item) for item in key]
    if cls is tuple:
        return {"tuple": [to_json(item) for item in key]}
    raise TypeError(f"{cls.__name__} is no text, number, None, tuple or list")


def from_json(value: Any) -> Any:
    """The key that a JSON value stands for; raises ValueError for none that ``to_json`` returns."""
    if isinstance(value, dict):
        if list(value) == ["float"] and value["float"] in ("nan", "inf", "-inf"):
            return float(value["float"])
        if list(value) != ["tuple"] or not isinstance(value["tuple"], list):
            raise ValueError("a key that is a dict")
        return tuple(from_json(item) for item in value["tuple"])
    return [from_json(item) for item in value] if isinstance(value, list) else value


def pack(numbers: Ints) -> str:
    """Up to ``MOST_PACKED`` whole numbers as text: compressed, and the first byte of all first."""
    by_byte = numbers.astype(_WORD).view(np.uint8).reshape(-1, _WORD.itemsize).T
    return base64.b64encode(zlib.compress(by_byte.tobytes(), 1)).decode()


def unpack(text: str) -> Ints:
    """The numbers that ``pack`` made such a text of; raises ValueError for any other text."""
    unpacking = zlib.decompressobj()
    try:
        packed = base64.b64decode(text, validate=True)
        data = unpacking.decompress(packed, MOST_PACKED * _WORD.itemsize + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacking.eof or len(data) % _WORD.itemsize:
        raise ValueError("no packed numbers, or too many")
    by_byte = np.frombuffer(data, np.uint8).reshape(_WORD.itemsize, -1)
    return np.ascontiguousarray(by_byte.T).view(_WORD).ravel().astype(np.int64)
