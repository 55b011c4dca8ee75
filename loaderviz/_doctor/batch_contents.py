"""What a batch and its samples consist of: tensors to send, labels of classes, padded sequences.

A part has a place, such as ``[1]`` or ``['ids']``; that of a sample without parts is empty.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from loaderviz.loaders.held_objects import attributes, is_a, walk

MANY_OBJECTS = 1000  # in a batch


@dataclass(frozen=True)
class Contents:
    """What a batch consists of, as the main process gets it."""

    n_tensors: int
    tensor_bytes: int
    n_others: int  # objects that are not tensors
    unpickle_s: float  # of CPU, to rebuild it from the pipe; NaN where it cannot be pickled
    cannot_pin: str = ""  # the class of a part that holds tensors and that torch does not pin


def contents_of(batch: Any) -> Contents:
    """Count a batch's tensors, bytes and other objects; measure how long unpickling takes."""
    n_tensors = tensor_bytes = n_others = 0
    cannot_pin = ""
    for leaf in _leaves(batch):
        if is_a(leaf, torch.Tensor):
            n_tensors += 1
            tensor_bytes += leaf.numel() * leaf.element_size()
        else:
            n_others += 1
            tensors = (is_a(part.value, torch.Tensor) for part in walk("", leaf))
            if not cannot_pin and not hasattr(leaf, "pin_memory") and attributes(leaf):
                cannot_pin = type(leaf).__name__ if any(tensors) else ""
    return Contents(n_tensors, tensor_bytes, n_others, _unpickle_s(batch), cannot_pin)


def _leaves(batch: Any) -> Iterator[Any]:
    """The parts of a batch that torch pins one by one (torch/utils/data/_utils/pin_memory.py)."""
    if is_a(batch, str, bytes):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _leaves(value)
    elif is_a(batch, list, tuple):
        for item in batch:
            yield from _leaves(item)
    else:
        yield batch


def _unpickle_s(batch: Any) -> float:
    class Pickler(pickle.Pickler):
        def reducer_override(self, value: Any) -> Any:  # tensors do not travel through the pipe
            return (int, ()) if is_a(value, torch.Tensor) else NotImplemented

    times_s = []
    try:
        file = io.BytesIO()
        Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(batch)
        for _ in range(3):
            begun_s = time.thread_time()
            pickle.loads(file.getvalue())
            times_s.append(time.thread_time() - begun_s)
    except Exception:
        return float("nan")
    return min(times_s)


MOST_PARTS = 64  # of a batch or a sample that are looked at
MASK = "['attention_mask']"  # of 1 for data and 0 for padding, as Hugging Face's tokenizers have it
_ARRAYS = (torch.Tensor, np.ndarray)
_Value = TypeVar("_Value")


class Padding(NamedTuple):
    """A part of a batch in which sequences are padded to one length."""

    part: str  # of the batch, such as "['ids']"; empty where it is a tensor itself
    padded_length: int
    lengths: tuple[int, ...]  # of the sequences in the samples


def labels_of(samples: Any, *, several: bool) -> dict[str, tuple[int, ...]]:
    """By their place in a sample, the whole numbers of a batch, such as labels.

    ``several``: whether ``samples`` is a list of samples; else it is a batch that the dataset made,
    and its labels are arrays of whole numbers.
    """
    if several:
        return _columns(samples, _whole_number)
    return {
        place: tuple(part.tolist())
        for place, part in _parts(samples)
        if isinstance(part, _ARRAYS) and part.ndim == 1 and _holds_integers(part)
    }


def padding_of(samples: Any, batch: Any) -> Padding | None:
    """How the sequences of these samples were padded; None where none were, or it is not seen.

    A part of the batch holds them if it has a row for each sample, is at least as long as the
    longest, and is at the same place as in a sample, or the only one of just that length. A mask
    tells of itself, also where the samples were padded before.
    """
    if not isinstance(samples, list | tuple) or len(samples) < 2:
        return None
    arrays = {
        place: part
        for place, part in _parts(batch)
        if isinstance(part, _ARRAYS) and part.ndim >= 2 and part.shape[0] == len(samples)
    }
    if MASK in arrays and arrays[MASK].ndim == 2:
        mask = arrays[MASK]
        return Padding(MASK, int(mask.shape[1]), tuple((mask != 0).sum(1).tolist()))
    for place, lengths in _columns(samples, _length).items():
        longest = max(lengths)
        at_place = int(arrays[place].shape[1]) if place in arrays else 0
        exact = [name for name, part in arrays.items() if part.shape[1] == longest]
        if at_place >= longest and (at_place > longest or min(lengths) < longest):
            return Padding(place, at_place, lengths)
        if min(lengths) < longest and len(exact) == 1:
            return Padding(exact[0], longest, lengths)
    return None


def _columns(
    samples: Any, value_of: Callable[[Any], _Value | None]
) -> dict[str, tuple[_Value, ...]]:
    """By place, the value of this part in each sample; only where each has one."""
    columns: dict[str, list[_Value]] = {}
    for sample in samples:
        for place, part in _parts(sample):
            value = value_of(part)
            if value is not None:
                columns.setdefault(place, []).append(value)
    return {place: tuple(row) for place, row in columns.items() if len(row) == len(samples)}


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What the value holds, the first of it, or itself where it is a sequence of plain numbers."""
    if isinstance(value, Mapping):
        yield from ((f"[{name!r}]", value[name]) for name in list(value)[:MOST_PARTS])
    elif isinstance(value, list | tuple) and _length(value) is None:
        yield from ((f"[{i}]", part) for i, part in enumerate(value[:MOST_PARTS]))
    else:
        yield "", value


def _length(part: Any) -> int | None:
    """The length of an array, or of a list of plain numbers."""
    if isinstance(part, _ARRAYS):
        return int(part.shape[0]) if part.ndim else None
    if type(part) is list and part and type(part[0]) in (int, float):
        return len(part)
    return None


def _whole_number(part: Any) -> int | None:
    if type(part) is int:
        return part
    if isinstance(part, (*_ARRAYS, np.generic)) and part.ndim == 0 and _holds_integers(part):
        return int(part)
    return None


def _holds_integers(array: Any) -> bool:
    if isinstance(array, torch.Tensor):
        return not array.is_floating_point() and not array.is_complex()
    return bool(np.issubdtype(array.dtype, np.integer))
