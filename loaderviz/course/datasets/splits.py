"""The usual ways to split a stream's data among workers, also those that get something wrong.

A split is a function of `data`, a worker's number and the number of workers; it returns what that
worker reads. All are plain functions of a module, so that workers started by spawn or forkserver
can import them.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from torch.utils.data import get_worker_info

T = TypeVar("T")


def by_floor(data: Sequence[T], worker: int, workers: int) -> Sequence[T]:
    """One stretch for each worker, its length rounded down."""
    length = len(data) // workers
    return data[worker * length : (worker + 1) * length]


def by_ceil(data: Sequence[T], worker: int, workers: int) -> Sequence[T]:
    """One stretch for each worker, its length rounded up: the last ones are shorter or empty."""
    length = math.ceil(len(data) / workers)
    return data[worker * length : (worker + 1) * length]


def by_stride(data: Sequence[T], worker: int, workers: int) -> Sequence[T]:
    """Every n-th sample for n workers, as cards are dealt."""
    return data[worker::workers]


def by_batch(data: Sequence[T], worker: int, workers: int, batch_size: int) -> Iterable[T]:
    """Every n-th batch for n workers: all are full but the dataset's last one."""
    for start in range(worker * batch_size, len(data), workers * batch_size):
        yield from data[start : start + batch_size]


def by_shard(shards: Sequence[Iterable[T]], worker: int, workers: int) -> Iterable[T]:
    """Every n-th shard for n workers, with all of its samples."""
    return itertools.chain.from_iterable(shards[worker::workers])


def cut_data(worker_id: int) -> None:
    """A `worker_init_fn`: cuts `data` of this worker's copy of the dataset to one stretch."""
    info: Any = get_worker_info()
    info.dataset.data = by_ceil(info.dataset.data, info.id, info.num_workers)


def cut_data_by_floor(worker_id: int) -> None:
    """A `worker_init_fn`: cuts `data` of this worker's copy of the dataset by floor division."""
    info: Any = get_worker_info()
    data = info.dataset.data
    each = len(data) // info.num_workers
    info.dataset.data = data[worker_id * each : (worker_id + 1) * each]
