"""Streams that share out their data among workers: not at all, as you say, rightly or wrongly.

Iterable-style, and as short as in real code: they are meant to be read as well as run.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from loaderviz.course.datasets.splits import by_ceil
from loaderviz.sharding import shard

Split = Callable[[Sequence[Any], int, int], Iterable[Any]]


class Stream(IterableDataset[Any]):
    """Yields what `data` holds, in order; every worker yields all of it."""

    def __init__(self, data: Sequence[Any]) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        yield from self.data

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data!r:.40})"


class SplitStream(Stream):
    """Each worker yields its part of `data`, as `split(data, worker, workers)` returns it."""

    def __init__(self, data: Sequence[Any], split: Split) -> None:
        super().__init__(data)
        self.split = split

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:  # no workers: this process reads alone
            yield from self.split(self.data, 0, 1)
        else:
            yield from self.split(self.data, info.id, info.num_workers)


class ShardedStream(Stream):
    """Each worker yields its share of `data`, over ranks and workers."""

    def __iter__(self) -> Iterator[Any]:
        yield from shard(self.data)


class FileLines(IterableDataset[str]):
    """Yields the lines of text files, one after another; each worker reads its share of files."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = tuple(paths)

    def __iter__(self) -> Iterator[str]:
        for path in shard(self.paths):
            with path.open(encoding="utf-8") as file:
                yield from map(str.strip, file)


class CuttingStream(Stream):
    """Wrong on purpose: each iteration cuts `data` itself, so the next one cuts what is left."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is not None:
            self.data = by_ceil(self.data, info.id, info.num_workers)
        yield from self.data


class EndlessStream(IterableDataset[int]):
    """Yields 0, 1, 2, ... and never ends; if `shared`, each worker yields only its share of it."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared

    def __iter__(self) -> Iterator[int]:
        numbers = itertools.count()
        yield from shard(numbers) if self.shared else numbers


class SavedStream(IterableDataset[Any]):
    """Yields its share of `data`, each sample after `sample_s` seconds; can say where it is.

    `state_dict()` and `load_state_dict()` are what torchdata's StatefulDataLoader asks a dataset
    for, in each worker. The state holds the next place in the share, and `ballast_bytes` zeros: as
    much as a shuffle buffer may weigh.
    """

    def __init__(
        self, data: Sequence[Any], sample_s: float = 0.0, *, ballast_bytes: int = 0
    ) -> None:
        self.data = data
        self.sample_s = sample_s
        self.ballast = bytearray(ballast_bytes)
        self.at = 0

    def __iter__(self) -> Iterator[Any]:
        mine = list(shard(self.data))
        while self.at < len(mine):
            time.sleep(self.sample_s)
            self.at += 1
            yield mine[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        """Where to go on."""
        if self.ballast:
            self.ballast[0] = self.at % 256  # a buffer changes with each sample
        return {"at": self.at, "ballast": bytes(self.ballast)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was saved."""
        self.at = state["at"]
