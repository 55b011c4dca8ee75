"""What torch pins of a batch, found out without a GPU: by parts that know whether they are pinned.

The loader and its pin thread are torch's own. Only the locking of pages is left out.
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
    """A stand-in for a tensor: `pin_memory()` returns a pinned copy, as a tensor's does."""

    def __init__(self, values: Any, *, pinned: bool = False, takes_s: float = 0.0) -> None:
        self.values, self._pinned, self._takes_s = values, pinned, takes_s

    def is_pinned(self) -> bool:
        return self._pinned

    def pin_memory(self) -> Part:
        time.sleep(self._takes_s)
        return Part(self.values, pinned=True)


@dataclass
class Plain:
    """A batch of one's own type, of which torch knows nothing."""

    images: Any
    labels: Any


class Pinning(Plain):
    """The same with a method by which it pins itself."""

    def pin_memory(self) -> Pinning:
        return Pinning(self.images.pin_memory(), self.labels.pin_memory())


class Named(NamedTuple):
    images: Any
    labels: Any


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "a tensor": lambda images, labels: images,
    "a list": lambda images, labels: [images, labels],
    "a tuple": lambda images, labels: (images, labels),
    "a named tuple": Named,
    "a dict": lambda images, labels: {"images": images, "labels": labels},
    "a list in a dict": lambda images, labels: {"both": [images, labels]},
    "a set": lambda images, labels: {images, labels},
    "a class of your own": Plain,
    "... with a pin_memory()": Pinning,
}


@contextmanager
def as_with_a_gpu() -> Iterator[None]:
    """In the block torch's loader finds an accelerator and pins, wherever it runs.

    What it pins must pin itself, as a ``Part`` does: there is nothing that could lock a tensor.
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
    """By kind of batch: does a loader with ``pin_memory=True`` pin the tensors in it?"""
    with as_with_a_gpu():
        return {kind: _is_pinned(make(Part(0), Part(1))) for kind, make in KINDS.items()}


def _is_pinned(batch: Any) -> bool:
    samples: Any = [batch]
    loader: Any = DataLoader(samples, collate_fn=_only, pin_memory=True)
    return all(part.is_pinned() for part in _parts(next(iter(loader))))


def _only(samples: list[Any]) -> Any:
    return samples[0]


def _parts(batch: Any) -> Iterator[Part]:
    if isinstance(batch, Part):
        yield batch
        return
    if isinstance(batch, Plain):
        batch = vars(batch)
    for each in batch.values() if isinstance(batch, dict) else batch:
        yield from _parts(each)


PIN_S = 0.004  # of each part


def to_plain(samples: list[int]) -> Plain:
    """A ``collate_fn``: a batch that does not pin itself."""
    return Plain(Part(samples, takes_s=PIN_S), Part([-each for each in samples], takes_s=PIN_S))


def to_pinning(samples: list[int]) -> Pinning:
    """A ``collate_fn``: a batch that pins itself."""
    plain = to_plain(samples)
    return Pinning(plain.images, plain.labels)


def plain_tensors(samples: list[int]) -> Plain:
    """A ``collate_fn``: real tensors in a batch that does not pin itself."""
    return Plain(torch.tensor(samples), -torch.tensor(samples))
