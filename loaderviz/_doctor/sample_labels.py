"""The whole numbers in the samples of a batch: among them may be the labels of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

MOST_FIELDS = 8
_ARRAYS = (torch.Tensor, np.ndarray, np.generic)


def labels_of(samples: Any, *, several: bool) -> dict[str, tuple[int, ...]]:
    """By their place in a sample, such as ``[1]``, the whole numbers of a batch.

    ``several``: whether ``samples`` is a list of samples; else it is a batch that the dataset made,
    and its labels are arrays of whole numbers.
    """
    if not several:
        fields = ((path, _row(field)) for path, field in _fields(samples))
        return {path: row for path, row in fields if row is not None}
    columns: dict[str, list[int]] = {}
    for sample in samples:
        for path, field in _fields(sample):
            number = _whole_number(field)
            if number is not None:
                columns.setdefault(path, []).append(number)
    return {path: tuple(row) for path, row in columns.items() if len(row) == len(samples)}


def _fields(sample: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a sample, the first of them, with their places."""
    if isinstance(sample, Mapping):
        for name in list(sample)[:MOST_FIELDS]:
            yield f"[{name!r}]", sample[name]
    elif type(sample) in (list, tuple):
        for i, field in enumerate(sample[:MOST_FIELDS]):
            yield f"[{i}]", field
    else:
        yield "", sample


def _whole_number(field: Any) -> int | None:
    if type(field) is int:
        return field
    if isinstance(field, _ARRAYS) and field.ndim == 0 and _holds_integers(field):
        return int(field)
    return None


def _row(field: Any) -> tuple[int, ...] | None:
    if isinstance(field, _ARRAYS) and field.ndim == 1 and _holds_integers(field):
        return tuple(field.tolist())
    return None


def _holds_integers(field: Any) -> bool:
    if isinstance(field, torch.Tensor):
        return not field.is_floating_point() and not field.is_complex()
    return bool(np.issubdtype(field.dtype, np.integer))
