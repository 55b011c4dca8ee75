"""Streams that shuffle what they yield: with a buffer, or by the order of their shards."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch.utils.data import IterableDataset

from loaderviz.datasets.streams import Stream
from loaderviz.sharding import shard

T = TypeVar("T")


def shuffled(items: Iterable[T], buffer_size: int, rng: Any = random) -> Iterator[T]:
    """All of `items`, in the order in which a shuffle buffer lets them out.

    The buffer takes in `buffer_size` items, then yields one of them at random for each that comes.
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
    """Each worker shuffles its share of `data` with a buffer; torch has seeded `random` there."""

    def __init__(self, data: Sequence[Any], buffer_size: int) -> None:
        super().__init__(data)
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[Any]:
        yield from shuffled(shard(self.data), self.buffer_size)


class ShuffledShards(IterableDataset[Any]):
    """Shuffles the order of its shards, then each worker reads its share of them.

    With `agreed`, all workers shuffle alike, by the number of the epoch; else each with its own
    random numbers, and then the shares overlap and leave gaps.
    """

    def __init__(self, shards: Sequence[Sequence[Any]], *, agreed: bool) -> None:
        self.shards = shards
        self.agreed = agreed
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        rng: Any = random.Random(int(self.epoch)) if self.agreed else random
        order = list(self.shards)
        rng.shuffle(order)
        for each in shard(order):
            yield from each
