"""Which samples the keys of a map-style dataset stand for, told so that processes can compare.

Keys of a ``Subset`` or a ``ConcatDataset`` are positions: the same one is another sample where a
``random_split`` was drawn with another seed. Nothing here runs code of the user's.
"""

from __future__ import annotations

from itertools import islice
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import _C
from torch.utils.data import ConcatDataset, Dataset, Subset

from loaderviz.array_types import Ints
from loaderviz.loaders.content_hash import plain_number
from loaderviz.loaders.held_objects import attributes, is_a
from loaderviz.plain_value import type_name
from loaderviz.sample_keys import BITS_OF_KEY, MOST_PACKED, pack

MOST_ATTRIBUTES = 32
MOST_DEPTH = 3  # of containers and datasets within one another
_GET = "__getitem__"
_N_LOOKED_AT = 8  # of what a container holds
_PLAIN = (bool, int, float, complex, str, bytes, range, np.generic, PurePath)
# What differs where the data does not; part of the name of an attribute.
_NOT_DATA = ("cache", "epoch", "transform", "augment", "generator", "rng")


class _UnknownError(Exception):
    """Raised where only the user's code could tell what a key stands for."""


def underlying_samples(dataset: Any) -> dict[str, Any]:
    """The datasets that keys lead to, and the key that each position stands for there.

    Returns:
        ``datasets``: a dictionary for each, with its ``class`` and, by name, a hash of what its
        attributes ``hold``: of large ones, of a part. ``keys``, for a ``Subset`` or
        ``ConcatDataset`` of up to ``MOST_PACKED`` samples: for each position, packed, the number of
        the dataset above the key there (``sample_keys.BITS_OF_KEY``). Without it, the first dataset
        has the keys that the sampler asks for.
    """
    # A mode of the user's is not to see what tensors are asked.
    with _C.DisableTorchFunction(), _C._DisableTorchDispatch():
        inner: list[Any] = []
        try:
            keys = _resolved(dataset, np.arange(_n_positions(dataset)), inner)
        except _UnknownError:
            return {"datasets": [_identity(dataset)]}
        return {"datasets": [*map(_identity, inner)], "keys": pack(keys)}


def _n_positions(dataset: Any) -> int:
    n = 0
    if _is_plain(dataset, Subset):
        n = len(_checked(attributes(dataset).get("indices")))
    elif _is_plain(dataset, ConcatDataset):
        n = int(_sizes(dataset)[-1])
    if not 0 < n <= MOST_PACKED:
        raise _UnknownError
    return n


def _is_plain(dataset: Any, cls: type) -> bool:
    """Whether it is of this class, or of one that gets items as it does."""
    return is_a(dataset, cls) and getattr(type(dataset), _GET) is getattr(cls, _GET)


def _resolved(dataset: Any, positions: Ints, inner: list[Any]) -> Ints:
    """What these positions stand for; adds to ``inner`` the datasets that they lead to."""
    if _is_plain(dataset, Subset):
        held = attributes(dataset)
        return _resolved(held.get("dataset"), _taken(held.get("indices"), positions), inner)
    if _is_plain(dataset, ConcatDataset):
        ends = _sizes(dataset)
        positions = np.where(positions < 0, positions + ends[-1], positions)
        part_of = np.searchsorted(ends, positions, side="right")
        resolved = np.empty(len(positions), np.int64)
        for number, part in enumerate(_checked(attributes(dataset).get("datasets"))):
            begin = int(ends[number - 1]) if number else 0
            of_part = part_of == number
            resolved[of_part] = _resolved(part, positions[of_part] - begin, inner)
        return resolved
    if len(positions) and not 0 <= positions.min() <= positions.max() < 1 << BITS_OF_KEY:
        raise _UnknownError
    place = next((n for n, each in enumerate(inner) if each is dataset), len(inner))
    if place == len(inner):
        inner.append(dataset)
    return positions + (place << BITS_OF_KEY)


def _sizes(concatenated: Any) -> Ints:
    """The ends of the parts of a ConcatDataset, as positions."""
    ends = _checked(attributes(concatenated).get("cumulative_sizes"))
    return _taken(ends, np.arange(len(ends)))


def _checked(indices: Any) -> Any:
    """Indices in a container of a known kind; raises _UnknownError for any other."""
    if type(indices) is torch.Tensor and indices.device.type == "cpu":
        indices = indices.numpy()
    if type(indices) in (list, tuple, range) or (type(indices) is np.ndarray and indices.ndim == 1):
        return indices
    raise _UnknownError


def _taken(indices: Any, positions: Ints) -> Ints:
    """The whole numbers at these positions."""
    indices = _checked(indices)
    if len(positions) and not -len(indices) <= positions.min() <= positions.max() < len(indices):
        raise _UnknownError
    if type(indices) is not np.ndarray:
        taken = [indices[position] for position in positions.tolist()]
        if not all(issubclass(kind, int | np.integer) for kind in set(map(type, taken))):
            raise _UnknownError
        return np.array(taken, np.int64)
    if not np.can_cast(indices.dtype, np.int64):
        raise _UnknownError
    taken_at: Ints = indices[positions].astype(np.int64)
    return taken_at


def _identity(dataset: Any) -> dict[str, Any]:
    """What tells a dataset from another of its class, as far as its attributes do."""
    data = _data_in(dataset, 0) or {"items": _part_of(dataset, MOST_DEPTH)}  # a list, say
    hashes = {name: plain_number(part) for name, part in data.items() if part is not None}
    hold = {name: f"{number:x}" for name, number in hashes.items() if number is not None}
    return {"class": type_name(type(dataset)), "hold": hold}


def _data_in(dataset: Any, depth: int) -> dict[str, Any]:
    """By name, what the attributes hold that a dataset reads its samples by."""
    named = islice(attributes(dataset).items(), MOST_ATTRIBUTES)
    known = {
        name: _part_of(value, depth)
        for name, value in named
        if not any(word in name.lower() for word in _NOT_DATA)
    }
    return {name: part for name, part in known.items() if part is not None}


def _part_of(value: Any, depth: int) -> Any:
    """A value, of a container its size and a part; None where it is not known, or empty."""
    if is_a(value, *_PLAIN) and type(value).__module__ in ("builtins", "pathlib", "numpy"):
        return value
    if is_a(value, Dataset) and depth < MOST_DEPTH:
        return type_name(type(value)), _data_in(value, depth + 1)
    if type(value) is torch.Tensor or type(value) is np.ndarray:
        return _part_of_array(value)
    if type(value) is np.memmap:
        return str(value.dtype), value.shape, str(value.filename), value.offset
    if type(value) not in (list, tuple, dict) or not value or depth > MOST_DEPTH:
        return _part_of_frame(value)
    if type(value) is dict:
        some = islice(value.items(), _N_LOOKED_AT)
        return len(value), [(_part_of(name, 9), _part_of(held, depth + 1)) for name, held in some]
    return len(value), [_part_of(value[place], depth + 1) for place in _places(len(value))]


def _part_of_array(array: Any) -> Any:
    """Dtype, shape and some rows."""
    head = str(array.dtype), tuple(array.shape)
    if type(array) is torch.Tensor:
        if array.layout is not torch.strided or array.device.type != "cpu" or array.is_conj():
            return head
        if array.requires_grad or array.is_neg() or array.dtype is torch.bfloat16:
            return head
        array = array.numpy()
    if array.dtype.hasobject or not array.ndim:
        return head
    return *head, [array[place].ravel()[:64].tolist() for place in _places(len(array))]


def _part_of_frame(value: Any) -> Any:
    """Of a table of pandas, its shape and some rows; None for anything else."""
    if type(value).__module__.partition(".")[0] != "pandas" or not hasattr(value, "iloc"):
        return None
    rows = value.iloc[_places(len(value))].to_numpy().ravel()[: 64 * _N_LOOKED_AT]
    return value.shape, [_part_of(each, 9) for each in rows.tolist()]


def _places(n: int) -> list[int]:
    """Up to ``_N_LOOKED_AT`` places from 0 to n - 1, evenly spread."""
    return sorted({*np.linspace(0, max(n - 1, 0), min(n, _N_LOOKED_AT)).astype(int).tolist()})
