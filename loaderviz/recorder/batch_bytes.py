"""How many bytes a batch holds.

The batch is only read, and through the methods of built-in types: no code of the user's runs.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Sized
from dataclasses import is_dataclass
from typing import Any, Final, cast

import numpy as np
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from loaderviz.own_errors import own_errors

MOST_PARTS: Final = 64  # reading more would take longer than making a small batch
_NUMBERS: Final = frozenset({bool, int, float, complex, type(None)})


def n_bytes_of(batch: Any) -> int | None:
    """The bytes of a batch's tensors, arrays and texts; a plain number counts as 0.

    Looks into lists, tuples, dicts and dataclasses, and classes derived from them. Returns None
    for a batch of more than ``MOST_PARTS`` parts, containers included; for one that holds anything
    else; and for one with a tensor that does not know its size, such as a sparse one.
    """
    try:
        if type(batch) is Tensor:
            return batch.nbytes
        n_bytes = 0
        parts = [batch]
        for part in parts:  # which grow meanwhile
            part_type = type(part)
            if part_type is Tensor:
                n_bytes += part.nbytes
            elif part_type not in _NUMBERS:
                contents = _contents(part, part_type)
                if contents is None:
                    n_bytes += _leaf_bytes(part, part_type)
                elif len(parts) + len(cast(Sized, contents)) > MOST_PARTS:
                    return None
                else:
                    parts.extend(contents)
        return n_bytes
    except own_errors(Exception):  # of a type that is like none of these
        return None


def _contents(part: Any, part_type: type) -> Iterable[Any] | None:
    """What a container holds; None for a part that is no container."""
    if issubclass(part_type, dict):
        return dict.values(part)
    for builtin in (list, tuple):
        if issubclass(part_type, builtin):
            return cast(Iterable[Any], builtin.__getitem__(part, slice(MOST_PARTS)))
    if issubclass(part_type, UserDict):
        return [object.__getattribute__(part, "data")]
    if is_dataclass(part_type):
        return cast(Iterable[Any], object.__getattribute__(part, "__dict__").values())
    return None


def _leaf_bytes(part: Any, part_type: type) -> int:
    if issubclass(part_type, Tensor):
        with DisableTorchFunctionSubclass():
            return int(part.nbytes)
    for array_type in (np.ndarray, np.generic):
        if issubclass(part_type, array_type) and not array_type.dtype.__get__(part).hasobject:
            return int(array_type.nbytes.__get__(part))
    for text_type in (str, bytes, bytearray):
        if issubclass(part_type, text_type):
            return text_type.__len__(part)
    raise TypeError(part_type)
