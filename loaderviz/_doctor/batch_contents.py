"""What a batch consists of, as far as it matters on its way to the main process."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from loaderviz.loaders.held_objects import attributes, is_a, walk

MANY_OBJECTS = 1000  # in a batch


@dataclass(frozen=True)
class Contents:
    """What a batch consists of, as the main process gets it."""

    kind: str
    n_tensors: int
    tensor_bytes: int
    n_others: int  # objects that are not tensors
    unpickle_s: (
        float  # of CPU, to rebuild it from what came through the pipe; NaN if it cannot be pickled
    )
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
    return Contents(
        type(batch).__name__, n_tensors, tensor_bytes, n_others, _unpickle_s(batch), cannot_pin
    )


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
