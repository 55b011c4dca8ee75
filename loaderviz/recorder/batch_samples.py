"""How many samples a batch holds, where its form tells.

Torch's fetcher knows; other loaders, and a dataset that yields ready-made batches, do not say. The
batch is only read, and through the methods of built-in types: no code of the user's runs.
"""

from __future__ import annotations

from collections import UserDict
from dataclasses import is_dataclass
from typing import Any, Final

import numpy as np
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from loaderviz.own_errors import own_errors

MOST_PARTS: Final = 64  # that are looked at, of each container
_PLAIN: Final = (str, bytes, bool, int, float, complex, np.generic)
_SAMPLE: Final = -1  # in place of a count: a number or a text by itself, so it is one sample


def n_samples_of(batch: Any) -> int | None:
    """The samples of what a loop gets for a batch; None where its form does not tell.

    Columns side by side have a length in common: that of the batch. What holds a number or a text
    by itself is one sample, and a list of samples, or of the batches of several devices, has those
    of its items.
    """
    try:
        n = _count(batch)
    except own_errors(Exception):  # of a type that is like none of these
        return None
    return 1 if n == _SAMPLE else n


def n_samples_of_item(item: Any) -> int:
    """The samples of one item of a stream with ``batch_size=None``: of a ready-made batch, or 1.

    A sample has columns, too: an image and its mask, the tokens of a text and their kinds. So the
    columns must differ in their number of dimensions, and one must have a value for each sample.
    """
    try:
        columns = _columns(item)
        n = _common(columns)
        dims = {_n_dims(column) for column in columns}
        return n if n is not None and n > 1 and 1 in dims and len(dims) > 1 else 1
    except own_errors(Exception):
        return 1


def _count(part: Any) -> int | None:
    if isinstance(part, _PLAIN):
        return _SAMPLE
    shape = _shape(part)
    if shape is not None:
        return shape[0] if shape else _SAMPLE
    if issubclass(type(part), list):
        items = list.__getitem__(part, slice(MOST_PARTS))
        if not items:
            return 0
        counts = [_count(item) for item in items]
        if all(count == _SAMPLE for count in counts):  # of the first ones, and so of the others
            return list.__len__(part)
        if all(issubclass(type(item), dict | UserDict) for item in items):
            known = [abs(count) for count in counts if count is not None]
            return sum(known) if len(known) == list.__len__(part) else None
        if all(issubclass(type(item), list) for item in items):
            return None  # rows, or columns
    return _common(_columns(part))


def _common(columns: list[Any]) -> int | None:
    """The length that all columns have; ``_SAMPLE`` where one is a plain value."""
    counts = {
        list.__len__(column) if issubclass(type(column), list) else _count(column)
        for column in columns
        if column is not None
    }
    if _SAMPLE in counts:
        return _SAMPLE
    return counts.pop() if len(counts) == 1 else None


def _columns(part: Any) -> list[Any]:
    """What a container holds, at most ``MOST_PARTS``; nothing of what is no container."""
    kind = type(part)
    if issubclass(kind, dict):
        return list(dict.values(part))[:MOST_PARTS]
    if issubclass(kind, UserDict):
        return _columns(object.__getattribute__(part, "data"))
    for builtin in (tuple, list):
        if issubclass(kind, builtin):
            return list(builtin.__getitem__(part, slice(MOST_PARTS)))
    if is_dataclass(kind):
        return list(object.__getattribute__(part, "__dict__").values())[:MOST_PARTS]
    return []


def _shape(part: Any) -> tuple[int, ...] | None:
    """Of a tensor or an array; None for anything else."""
    if issubclass(type(part), Tensor):
        with DisableTorchFunctionSubclass():
            return tuple(part.shape)
    if issubclass(type(part), np.ndarray):
        shape: tuple[int, ...] = np.ndarray.shape.__get__(part)
        return shape
    return None


def _n_dims(column: Any) -> int:
    """Of an array, or of lists in lists; anything else has none."""
    shape = _shape(column)
    if shape is not None:
        return len(shape)
    is_list = issubclass(type(column), list)
    return 1 + max(map(_n_dims, list.__getitem__(column, slice(1))), default=0) if is_list else 0
