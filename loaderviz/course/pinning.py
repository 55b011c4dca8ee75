"""What torch pins of a batch, tried without a GPU, on parts that know whether they are pinned.

The loader and its pin thread are torch's own (``torch/utils/data/_utils/pin_memory.py``,
``pin_memory``). Only the locking of memory pages is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch.utils.data import DataLoader


class Part:
    """A stand-in for a tensor: `pin_memory()` returns a pinned copy, as a tensor's does.

    values: whatever the part holds; takes_s: seconds that pinning takes.
    """

    def __init__(self, values: Any, *, pinned: bool = False, takes_s: float = 0.0) -> None:
        self.values, self._pinned, self._takes_s = values, pinned, takes_s
        self.was_pinned = False  # whether a pinned copy was made

    def is_pinned(self) -> bool:
        """Whether this is a pinned copy."""
        return self._pinned

    def pin_memory(self) -> Part:
        """A pinned copy; the part itself stays as it is."""
        time.sleep(self._takes_s)
        self.was_pinned = True
        return Part(self.values, pinned=True)


@dataclass
class Plain:
    """A batch whose type torch does not know: torch leaves it as it is."""

    images: Any
    labels: Any


class Pinning(Plain):
    """A batch with a method that pins it: torch calls that."""

    def pin_memory(self) -> Pinning:
        """A copy with both parts pinned."""
        return Pinning(self.images.pin_memory(), self.labels.pin_memory())


class _Named(NamedTuple):
    images: Any
    labels: Any


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "a tensor": lambda images, labels: images,
    "a list": lambda images, labels: [images, labels],
    "a tuple": lambda images, labels: (images, labels),
    "a named tuple": _Named,
    "a dict": lambda images, labels: {"images": images, "labels": labels},
    "a list in a dict": lambda images, labels: {"parts": [images, labels]},
    "a set": lambda images, labels: {images, labels},
    "a class of your own": Plain,
    "... with a pin_memory()": Pinning,
}


@contextmanager
def as_with_a_gpu() -> Iterator[None]:
    """Inside the block, torch's loader finds an accelerator and pins memory, on any machine.

    What it pins must have its own ``pin_memory()``, as a ``Part`` has: without an accelerator,
    torch cannot pin a tensor.
    """
    with mock.patch.multiple(
        torch.accelerator,
        is_available=lambda: True,
        current_accelerator=lambda *_: torch.device("cuda"),
        current_device_index=lambda: 0,
        set_device_index=lambda _: None,
    ):
        yield


def what_is_pinned() -> dict[str, bool]:
    """Whether a loader with ``pin_memory=True`` pins the tensors of a batch, by kind of batch."""
    parts = {kind: Part(0) for kind in KINDS}
    with as_with_a_gpu():
        for kind, images in parts.items():
            samples: Any = [KINDS[kind](images, Part(1))]
            loader: Any = DataLoader(samples, collate_fn=_first, pin_memory=True)
            list(loader)
    return {kind: images.was_pinned for kind, images in parts.items()}


def _first(samples: list[Any]) -> Any:
    return samples[0]


PIN_S = 0.004  # seconds to pin a part


def to_plain(samples: list[int]) -> Plain:
    """A ``collate_fn``: a batch of two parts that does not pin itself."""
    labels = [-sample for sample in samples]
    return Plain(Part(samples, takes_s=PIN_S), Part(labels, takes_s=PIN_S))


def to_pinning(samples: list[int]) -> Pinning:
    """A ``collate_fn``: a batch of two parts that pins itself."""
    plain = to_plain(samples)
    return Pinning(plain.images, plain.labels)


def plain_tensors(samples: list[int]) -> Plain:
    """A ``collate_fn``: a batch of two real tensors that does not pin itself."""
    return Plain(torch.tensor(samples), -torch.tensor(samples))
