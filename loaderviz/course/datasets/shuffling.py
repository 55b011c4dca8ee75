"""Streams that shuffle what they yield: with a buffer, or shard by shard."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch.utils.data import IterableDataset

from loaderviz.course.datasets.streams import Stream
from loaderviz.sharding import shard

T = TypeVar("T")


def shuffled(items: Iterable[T], buffer_size: int, rng: Any = random) -> Iterator[T]:
    """All of `items`, in the order in which they leave a shuffle buffer.

    The buffer first takes in `buffer_size` items. Then each new item replaces one drawn at random,
    which is yielded. After the last new item, what is in the buffer comes in random order.
    """
    buffer: list[T] = []
    for item in items:
        if len(buffer) < buffer_size:
            buffer.append(item)
            continue
        place = rng.randrange(buffer_size)
        yield buffer[place]
        buffer[place] = item
    rng.shuffle(buffer)
    yield from buffer


class BufferedStream(Stream):
    """Each worker shuffles its share of `data` with a buffer of `buffer_size` samples.

    The order is drawn from the module `random`, which torch has seeded in each worker
    (`torch/utils/data/_utils/worker.py`, `_worker_loop`).
    """

    def __init__(self, data: Sequence[Any], buffer_size: int) -> None:
        super().__init__(data)
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[Any]:
        yield from shuffled(shard(self.data), self.buffer_size)


class ShuffledShards(IterableDataset[Any]):
    """Each worker shuffles the order of the shards, then reads its share of them.

    agreed: whether all workers shuffle alike, with the number of the epoch as the seed. Otherwise
        each shuffles with its own random numbers: their shares then overlap and leave gaps.
    """

    def __init__(self, shards: Sequence[Sequence[Any]], *, agreed: bool) -> None:
        self.shards = shards
        self.agreed = agreed
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch, from 0, for all workers: it is in shared memory."""
        self.epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        rng: Any = random.Random(int(self.epoch)) if self.agreed else random
        order = list(self.shards)
        rng.shuffle(order)
        for samples in shard(order):
            yield from samples
