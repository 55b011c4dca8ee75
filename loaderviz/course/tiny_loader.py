"""A small DataLoader in three steps: notebook 02 builds it, runs it and compares it with torch's.

Torch's has more: seeds, pinning, persistent workers, iterable-style datasets, timeouts.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import multiprocessing

from loaderviz.errors import LoaderVizError

ALIVE_CHECK_S = 1.0  # while no result comes, this often it is checked that all workers live
DIED = "a worker died: look for what it printed before"

# Step 1: one process.


def collate(samples: list[Any]) -> Any:
    """One batch of several samples: tensors and numbers are stacked, dicts are joined by key."""
    first = samples[0]
    if isinstance(first, dict):
        return {key: collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, torch.Tensor):
        return torch.stack(samples)
    if isinstance(first, float):
        return torch.tensor(samples, dtype=torch.float64)
    return torch.tensor(samples) if isinstance(first, int) else samples


def in_lists(keys: Iterable[Any], batch_size: int) -> Iterator[list[Any]]:
    """Cuts what a sampler yields into lists of ``batch_size`` keys, one for each batch."""
    keys = iter(keys)
    while batch := list(islice(keys, batch_size)):
        yield batch


def load(dataset: Any, sampler: Iterable[Any], batch_size: int) -> Iterator[Any]:
    """Yields batches in one process; each is read when it is asked for."""
    for keys in in_lists(sampler, batch_size):
        yield collate([dataset[key] for key in keys])


# Step 2: workers.


@dataclass(frozen=True)
class Failure:
    """What a worker sends in place of a batch if an exception was raised."""

    message: str


def work(dataset: Any, index_queue: Any, result_queue: Any) -> None:
    """What a worker does: take a task, send back a batch, and so on until None comes."""
    torch.set_num_threads(1)  # as in torch's workers: several processes share the CPU
    while (task := index_queue.get()) is not None:
        number, keys = task
        try:
            batch = collate([dataset[key] for key in keys])
        except Exception as error:
            batch = Failure(f"{type(error).__name__}: {error}")
        result_queue.put((number, batch))
    result_queue.cancel_join_thread()  # nobody reads what is still in it


class Workers:
    """Worker processes, an index queue for each, and one result queue for all.

    They run inside the ``with`` block.
    """

    def __init__(self, dataset: Any, num_workers: int) -> None:
        self.result_queue: Any = multiprocessing.Queue()
        self.index_queues: list[Any] = [multiprocessing.Queue() for _ in range(num_workers)]
        self.processes = [
            multiprocessing.Process(
                target=work, args=(dataset, index_queue, self.result_queue), daemon=True
            )
            for index_queue in self.index_queues
        ]

    def __enter__(self) -> Workers:
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *exception: object) -> None:
        for index_queue in self.index_queues:
            index_queue.put(None)
        for process in self.processes:
            process.join()
        for any_queue in [*self.index_queues, self.result_queue]:
            any_queue.close()
            any_queue.join_thread()

    def deal(self, tasks: Iterator[tuple[int, list[Any]]], n: int) -> int:
        """Send up to n more tasks to the workers, in turn, like cards; return how many."""
        dealt = list(islice(tasks, n))
        for number, keys in dealt:
            self.index_queues[number % len(self.index_queues)].put((number, keys))
        return len(dealt)

    def receive(self) -> tuple[int, Any]:
        """The number and the batch of the next result, of any worker.

        Raises:
            LoaderVizError: if a sample raised an exception, or a worker has died.
        """
        while True:
            try:
                number, batch = self.result_queue.get(timeout=ALIVE_CHECK_S)
            except queue.Empty:
                if not all(process.is_alive() for process in self.processes):
                    raise LoaderVizError(DIED) from None
            except (EOFError, OSError):  # it died before it passed on the memory of a sent tensor
                raise LoaderVizError(DIED) from None
            else:
                if isinstance(batch, Failure):
                    raise LoaderVizError(f"batch {number}: {batch.message}")
                return number, batch


def as_ready(
    dataset: Any, lists: Iterable[list[Any]], num_workers: int, prefetch_factor: int = 2
) -> Iterator[tuple[int, Any]]:
    """Yields the number and the batch of each result, in the order in which the workers finish."""
    tasks = enumerate(lists)
    with Workers(dataset, num_workers) as workers:
        under_way = workers.deal(tasks, num_workers * prefetch_factor)
        while under_way:
            result = workers.receive()
            under_way += workers.deal(tasks, 1) - 1  # one came back, one goes out
            yield result


# Step 3: in order.


def in_order(
    dataset: Any, lists: Iterable[list[Any]], num_workers: int, prefetch_factor: int = 2
) -> Iterator[Any]:
    """Yields the batches in the order of ``lists``; those that come early wait in a buffer."""
    tasks = enumerate(lists)
    buffer: dict[int, Any] = {}
    expected = 0
    with Workers(dataset, num_workers) as workers:
        sent = workers.deal(tasks, num_workers * prefetch_factor)
        while expected < sent:
            while expected not in buffer:
                number, batch = workers.receive()
                buffer[number] = batch
            sent += workers.deal(tasks, 1)  # one is handed over, one goes out
            yield buffer.pop(expected)
            expected += 1
