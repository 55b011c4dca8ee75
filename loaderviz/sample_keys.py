"""Keys of samples as JSON values and back: text, numbers, None, and tuples and lists of such."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_json(key: Any) -> Any:
    """A key as a JSON value; raises TypeError for a key that would not come back as it is."""
    if key is None or isinstance(key, bool | int | float | str):
        return key
    if type(key) is list:
        return [to_json(item) for item in key]
    if type(key) is tuple:
        return {"tuple": [to_json(item) for item in key]}
    if isinstance(key, np.integer):
        return int(key)
    raise TypeError(f"{type(key).__name__} {key!r} is no text, number, None, tuple or list")


def from_json(value: Any) -> Any:
    """The key that a JSON value stands for; raises ValueError for none that ``to_json`` returns."""
    if isinstance(value, dict):
        if list(value) != ["tuple"] or not isinstance(value["tuple"], list):
            raise ValueError("a key that is a dict")
        return tuple(from_json(item) for item in value["tuple"])
    return [from_json(item) for item in value] if isinstance(value, list) else value
