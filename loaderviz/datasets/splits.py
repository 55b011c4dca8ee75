"""Ways to split a stream's data among workers: the usual ones, each with what it gets wrong.

A split is a function of `data`, a worker's number and how many workers there are; it returns what
that worker reads. All of them are plain functions of a module, so that workers started by spawn or
forkserver can import them.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from torch.utils.data import get_worker_info

T = TypeVar("T")


def by_floor(data: Sequence[T], worker: int, workers: int) -> Sequence[T]:
    """One stretch each, and nobody reads the remainder."""
    each = len(data) // workers
    return data[worker * each : (worker + 1) * each]


def by_ceil(data: Sequence[T], worker: int, workers: int) -> Sequence[T]:
    """One stretch each, rounded up: the last worker's is shorter."""
    each = math.ceil(len(data) / workers)
    return data[worker * each : (worker + 1) * each]


def by_stride(data: Sequence[T], worker: int, workers: int) -> Sequence[T]:
    """Every n-th sample, as cards are dealt."""
    return data[worker::workers]


def by_batch(data: Sequence[T], worker: int, workers: int, batch_size: int) -> Iterable[T]:
    """Every n-th batch: all full but the dataset's last one."""
    for start in range(worker * batch_size, len(data), workers * batch_size):
        yield from data[start : start + batch_size]


def by_shard(shards: Sequence[Iterable[T]], worker: int, workers: int) -> Iterable[T]:
    """Every n-th shard, and all that it holds."""
    return itertools.chain.from_iterable(shards[worker::workers])


def cut_data(worker_id: int) -> None:
    """A `worker_init_fn`: leaves this worker's copy of the dataset its own stretch of `data`."""
    info: Any = get_worker_info()
    info.dataset.data = by_ceil(info.dataset.data, info.id, info.num_workers)
