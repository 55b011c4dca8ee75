"""Datasets that share their samples out among workers: well, or wrongly in the ways that are seen.

They live in a module so that every start method can import them.
"""

import dataclasses
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from loaderviz import shard

WORDS = ["the", "cat", "saw", "the", "dog", "and", "the", "dog", "saw", "the", "cat"]


def worker() -> tuple[int, int]:
    """This worker's number, and how many there are."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class Items(IterableDataset[Any]):
    """Yields ``items``, all of them in every worker."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        yield from self.items


class Shared(Items):
    """Each worker yields its share."""

    def __iter__(self) -> Iterator[Any]:
        yield from shard(self.items)


class Floored(Items):
    """Each worker yields a stretch, and nobody the remainder."""

    def __iter__(self) -> Iterator[Any]:
        own, of = worker()
        each = len(self.items) // of
        yield from self.items[own * each : (own + 1) * each]


class Counted(Items):
    """Says that it holds ``said`` samples; an exception is raised."""

    def __init__(self, items: Any, said: Any) -> None:
        super().__init__(items)
        self.said = said

    def __len__(self) -> int:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    def __repr__(self) -> str:
        return "Counted"  # torch's warning shows it


class Cases(IterableDataset[Any]):
    """Worker w yields ``shares[w]``; the main process yields ``whole``."""

    def __init__(self, whole: Any, *shares: Any) -> None:
        self.whole, self.shares = whole, shares

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        yield from self.whole if info is None else self.shares[info.id]


class Augmented(IterableDataset[Any]):
    """Pairs of a sample's name and random noise."""

    def __init__(self, n: int, share: bool = True) -> None:
        self.n, self.share = n, share

    def __iter__(self) -> Iterator[Any]:
        for i in shard(range(self.n)) if self.share else range(self.n):
            yield i, torch.rand(3)


class UsedUp(IterableDataset[Any]):
    """Holds an iterator, so that it can be gone through once."""

    def __init__(self, n: int) -> None:
        self.samples = iter(range(n))

    def __iter__(self) -> Iterator[Any]:
        return self.samples


class Endless(IterableDataset[Any]):
    def __init__(self, share: bool = True) -> None:
        self.share = share

    def __iter__(self) -> Iterator[Any]:
        own, of = worker()
        i = own if self.share else 0
        while True:
            yield i
            i += of if self.share else 1


class Lethal(Items):
    """Ends the process of worker 1 when it comes to item ``at``."""

    def __init__(self, items: Any, at: int) -> None:
        super().__init__(items)
        self.at = at

    def __iter__(self) -> Iterator[Any]:
        for i, item in enumerate(shard(self.items)):
            if i == self.at and worker()[0] == 1:
                time.sleep(0.3)  # the other worker finishes what it has been sent
                os.kill(os.getpid(), signal.SIGKILL)
            yield item


class Listed(Dataset[Any]):
    """Map-style; ``n`` is what its length says, or the exception that asking for it raises."""

    def __init__(self, items: Any, n: Any) -> None:
        self.items, self.n = items, n

    def __len__(self) -> int:
        if isinstance(self.n, Exception):
            raise self.n
        return self.n

    def __getitem__(self, key: Any) -> Any:
        return self.items[key]


class Named(Listed):
    """Known by names: ``keys()`` lists them."""

    def keys(self) -> Any:
        return self.items.keys()


class InBulk(Listed):
    """Reads several samples at once where it is asked for a list of them."""

    def __getitem__(self, key: Any) -> Any:
        return [self.items[each] for each in key] if isinstance(key, list) else self.items[key]


@dataclasses.dataclass
class Pair:
    name: str
    pixels: Any


class Opaque:
    """Has no content that can be told."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Opaque({self.name!r})"


def every_kind() -> list[Any]:
    """Two of each kind of sample, the second a little different."""
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    return [
        *(1, 2, True, False, 1.0, 1.5, 1j, 2j, None, 2**70, 2**70 + 1),
        *("a", "b", b"a", b"b", bytearray(b"aa"), "", b"", "\ud800"),
        *(torch.zeros(2), torch.zeros(3), torch.zeros(2, 1), torch.zeros(2, dtype=torch.bfloat16)),
        *(torch.tensor(1.0), torch.tensor([]), torch.eye(2).to_sparse(), torch.eye(3).to_sparse()),
        *(pixels, pixels.T, pixels[:, ::2], pixels.astype(np.int64), np.array(["a", "b"])),
        *(np.array(["a", None], dtype=object), np.array(["a", 1], dtype=object), np.float32(1)),
        *([1, 2], [2, 1], (1, 2), [[1], 2], [1, [2]], [], (), ["a", "bc"], ["ab", "c"]),
        *(list(range(40)), list(range(1, 41)), [*range(40), 2**70]),
        *({"a": 1}, {"a": 2}, {"b": 1}, {}, {"a", "b"}, {"a", "c"}, frozenset("ab")),
        *(Pair("a", pixels), Pair("b", pixels), Pair("a", pixels.T)),
    ]


def noisy() -> list[float]:
    """Draws from every global generator."""
    return [random.random(), float(np.random.rand()), torch.rand(()).item()]


def only_even(samples: list[int]) -> torch.Tensor:
    """A collate_fn that leaves samples out."""
    return torch.tensor([each for each in samples if each % 2 == 0])


def first(samples: list[Any]) -> Any:
    """A collate_fn for samples of any kind."""
    return str(samples[0])


def name_of(sample: Any) -> Any:
    return sample[0]
