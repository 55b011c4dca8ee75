"""How many bytes a batch holds.

The batch is only looked at, and through the methods of built-in types: no code of the user's runs.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Sized
from dataclasses import is_dataclass
from typing import Any, Final, cast

import numpy as np
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

MOST_PARTS: Final = 64  # to look at more would take longer than a small batch
_NUMBERS: Final = frozenset({bool, int, float, complex, type(None)})


def n_bytes_of(batch: Any) -> int | None:
    """The bytes of its tensors, arrays and texts; a number that is none of these counts as 0.

    Looks into lists, tuples, dicts and dataclasses, and what is derived from them. None for a
    batch of more than ``MOST_PARTS`` parts, those that hold others included, and for one with
    something else in it, or a tensor that does not tell, as a sparse one.
    """
    try:
        if type(batch) is Tensor:
            return batch.nbytes
        n_bytes = 0
        parts = [batch]
        for part in parts:  # which grow meanwhile
            kind = type(part)
            if kind is Tensor:
                n_bytes += part.nbytes
            elif kind not in _NUMBERS:
                inside = _inside(part, kind)
                if inside is None:
                    n_bytes += _n_bytes(part, kind)
                elif len(parts) + len(cast(Sized, inside)) > MOST_PARTS:
                    return None
                else:
                    parts.extend(inside)
        return n_bytes
    except Exception:  # of what is unlike anything known
        return None


def _inside(part: Any, kind: type) -> Iterable[Any] | None:
    """What a container holds; None for what is none."""
    if issubclass(kind, dict):
        return dict.values(part)
    for plain in (list, tuple):
        if issubclass(kind, plain):
            return cast(Iterable[Any], plain.__getitem__(part, slice(MOST_PARTS)))
    if issubclass(kind, UserDict):
        return [object.__getattribute__(part, "data")]
    if is_dataclass(kind):
        return cast(Iterable[Any], object.__getattribute__(part, "__dict__").values())
    return None


def _n_bytes(part: Any, kind: type) -> int:
    if issubclass(kind, Tensor):
        with DisableTorchFunctionSubclass():
            return int(part.nbytes)
    for plain in (np.ndarray, np.generic):
        if issubclass(kind, plain) and not plain.dtype.__get__(part).hasobject:
            return int(plain.nbytes.__get__(part))
    for text in (str, bytes, bytearray):
        if issubclass(kind, text):
            return text.__len__(part)
    raise TypeError(kind)
