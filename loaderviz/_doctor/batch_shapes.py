"""How much of a batch is padding: the batch beside the samples in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

MOST_PARTS = 64  # of a batch or a sample that are looked at
MASK = "['attention_mask']"  # of 1 for data and 0 for padding, as Hugging Face's tokenizers have it
_ARRAYS = (torch.Tensor, np.ndarray)


class Padding(NamedTuple):
    """A part of a batch in which sequences are padded to one length."""

    part: str  # of the batch, such as "['ids']"; empty where it is a tensor itself
    padded_length: int
    lengths: tuple[int, ...]  # of the sequences in the samples


def padding_of(samples: Any, batch: Any) -> Padding | None:
    """How the sequences of these samples were padded; None where none were, or it is not seen.

    A part of the batch holds them if it has a row for each sample, is at least as long as the
    longest, and is at the same place as in a sample, or the only one of just that length. A mask
    tells of itself, also where the samples were padded before.
    """
    if not isinstance(samples, list | tuple) or len(samples) < 2:
        return None
    arrays = {
        path: part
        for path, part in _parts(batch)
        if isinstance(part, _ARRAYS) and part.ndim >= 2 and part.shape[0] == len(samples)
    }
    if MASK in arrays and arrays[MASK].ndim == 2:
        mask = arrays[MASK]
        return Padding(MASK, int(mask.shape[1]), tuple((mask != 0).sum(1).tolist()))
    for path, lengths in _lengths(samples).items():
        longest = max(lengths)
        at_place = int(arrays[path].shape[1]) if path in arrays else 0
        exact = [name for name, part in arrays.items() if part.shape[1] == longest]
        if at_place >= longest and (at_place > longest or min(lengths) < longest):
            return Padding(path, at_place, lengths)
        if min(lengths) < longest and len(exact) == 1:
            return Padding(exact[0], longest, lengths)
    return None


def _lengths(samples: Any) -> dict[str, tuple[int, ...]]:
    """By their place in a sample, the lengths of its sequences."""
    columns: dict[str, list[int]] = {}
    for sample in samples:
        for path, part in _parts(sample, lists=False):
            length = _length(part)
            if length is not None:
                columns.setdefault(path, []).append(length)
    return {path: tuple(row) for path, row in columns.items() if len(row) == len(samples)}


def _length(part: Any) -> int | None:
    """The length of an array, or of a list of plain numbers."""
    if isinstance(part, _ARRAYS):
        return int(part.shape[0]) if part.ndim else None
    if type(part) is list and part and type(part[0]) in (int, float):
        return len(part)
    return None


def _parts(value: Any, *, lists: bool = True) -> Iterator[tuple[str, Any]]:
    """The value itself or what it holds, with places; ``lists``: whether lists are looked into."""
    if isinstance(value, Mapping):
        names = list(value)[:MOST_PARTS]
        items: list[tuple[str, Any]] = [(f"[{name!r}]", value[name]) for name in names]
    elif isinstance(value, tuple) or (lists and isinstance(value, list)):
        items = [(f"[{i}]", part) for i, part in enumerate(value[:MOST_PARTS])]
    else:
        items = [("", value)]
    yield from items
