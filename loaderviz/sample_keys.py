"""Keys of samples as JSON values and back: text, numbers, None, and tuples and lists of such.

JSON has no NaN and no infinity, and no tuple: these are dicts of one member.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from loaderviz.plain_value import MOST_BITS


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
