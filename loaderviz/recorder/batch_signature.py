"""The signature of a batch: what it is made of, with the type and shape of each tensor and array.

One walk tells the signature, as a key that is quickly compared, and what the batch weighs. It only
reads the batch, and through the methods of built-in types: no code of the user's runs.
"""

from __future__ import annotations

import functools
from collections import UserDict
from collections.abc import Collection
from dataclasses import is_dataclass
from itertools import islice
from typing import Any, Final, cast

import numpy as np
from torch import _C, Tensor
from torch._C import _is_torch_function_mode_enabled as mode_sees

from loaderviz.own_errors import own_errors

MOST_LEAVES: Final = 1_000  # reading more would take longer than making a small batch
NUMBERS: Final = frozenset({bool, int, float, complex, type(None)})  # which say no more
NAMES: Final = frozenset({str, *NUMBERS})  # of what a dict holds, that say themselves


def walk(batch: Any) -> tuple[list[Any], int, list[Any]] | None:
    """Walk over lists, tuples, dicts and dataclasses, and classes derived from them.

    Returns the key, equal for batches of one signature; the bytes of the texts, which a signature
    does not tell; and the batch and all that is in it. None for a batch of more leaves than
    ``MOST_LEAVES``, or of as many containers.
    """
    if mode_sees():
        with _C.DisableTorchFunction():
            return walk(batch)
    try:
        if type(batch) is Tensor:
            return [batch.dtype, batch.layout, batch.shape], 0, [batch]
        key: list[Any] = []
        parts = [batch]
        n_containers = text_bytes = 0
        for part in parts:  # which grow meanwhile
            part_type = type(part)
            if part_type is Tensor:
                key += part.dtype, part.layout, part.shape
                continue
            if part_type is list or part_type is tuple:
                contents: Collection[Any] = part
            elif part_type in NUMBERS:
                key.append(part_type)
                continue
            elif part_type is str:
                key.append(str)
                text_bytes += len(part)
                continue
            elif part_type is dict and len(part) <= MOST_LEAVES:
                for name in part:
                    key.append(name if type(name) in NAMES else type(name))
                contents = part.values()
            else:
                key.append(part_type)
                found = contents_of(part, part_type)
                if found is None:
                    text_bytes += _add_leaf(part, part_type, key)
                    continue
                names, contents = found
                key += names
            n = len(contents)
            key += part_type, n
            n_containers += 1
            if len(parts) - n_containers + n > MOST_LEAVES or n_containers > MOST_LEAVES:
                return None
            parts += contents
    except own_errors(Exception):  # a nested tensor has no shape, or another thread is at work
        return None
    return key, text_bytes, parts


def _add_leaf(part: Any, part_type: type, key: list[Any]) -> int:
    """Add what the signature says of a leaf beside its type; returns its bytes if it is a text."""
    if issubclass(part_type, Tensor):
        if not dispatches(part_type):
            with _C.DisableTorchFunctionSubclass():
                key += part.dtype, part.layout, part.shape
    elif array_type := array_type_of(part_type):
        key += array_type.dtype.__get__(part), array_type.shape.__get__(part)
    for text_type in (str, bytes, bytearray):
        if issubclass(part_type, text_type):
            return text_type.__len__(part)
    return 0


def contents_of(part: Any, part_type: type) -> tuple[tuple[Any, ...], Collection[Any]] | None:
    """The names of what a container holds, if they have some, and that; None for a leaf."""
    if issubclass(part_type, dict):
        some_names = islice(dict.keys(part), MOST_LEAVES + 1)
        names = tuple(name if type(name) in NAMES else type(name) for name in some_names)
        return names, dict.values(part)
    for builtin in (list, tuple):
        if issubclass(part_type, builtin):
            some = builtin.__getitem__(part, slice(MOST_LEAVES + 1))
            return (), cast(Collection[Any], some)
    if issubclass(part_type, UserDict):
        return (), [object.__getattribute__(part, "data")]
    if is_dataclass(part_type):
        try:
            members = object.__getattribute__(part, "__dict__")
        except own_errors(AttributeError):  # it has slots
            return None
        return tuple(members), members.values()
    return None


def fixed_bytes(parts: list[Any]) -> int | None:
    """The bytes of the tensors and arrays among these parts, as a walk has seen them.

    None where something else is among them than these, containers, texts and numbers, or a tensor
    that does not know its size, such as a sparse one.
    """
    try:
        with _C.DisableTorchFunction():
            return sum(_fixed_bytes(part, type(part)) for part in parts)
    except own_errors(Exception):  # of a part that is like none of these
        return None


def storage_bytes(tensors: list[Tensor]) -> int | None:
    """The bytes of the storages of these tensors, each counted once; None where one has none.

    A process that sends a tensor sends all of its storage, be the tensor the smallest view of it
    (torch/multiprocessing/reductions.py, ``reduce_tensor``). For tensors of no other class: of one
    that is derived, to ask for it may run code of the class.
    """
    if mode_sees():
        with _C.DisableTorchFunction():
            return storage_bytes(tensors)
    try:
        storages = [tensor.untyped_storage() for tensor in tensors]
        if len(storages) == 1:  # as in many a small batch
            return storages[0].nbytes()
        return sum({each.data_ptr(): each.nbytes() for each in storages}.values())
    except own_errors(Exception):  # a fake one, say
        return None


def _fixed_bytes(part: Any, part_type: type) -> int:
    if issubclass(part_type, Tensor) and not dispatches(part_type):
        return int(part.nbytes)
    array_type = array_type_of(part_type)
    if array_type and not array_type.dtype.__get__(part).hasobject:
        return int(array_type.nbytes.__get__(part))
    is_text = issubclass(part_type, str | bytes | bytearray)
    if part_type in NUMBERS or is_text or contents_of(part, part_type) is not None:
        return 0
    raise TypeError(part_type)


def array_type_of(part_type: type) -> Any:
    """The type of NumPy's that an array or a scalar is of; None for anything else."""
    return next((each for each in (np.ndarray, np.generic) if issubclass(part_type, each)), None)


@functools.lru_cache(maxsize=128)
def dispatches(tensor_type: type) -> bool:
    """Whether even to ask a tensor of this class for its shape may run code of the class."""
    own = tensor_type.__mro__[: tensor_type.__mro__.index(Tensor)]
    return any("__torch_dispatch__" in vars(each) for each in own)
