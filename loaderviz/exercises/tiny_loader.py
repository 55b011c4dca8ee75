"""A DataLoader in three steps, to be read: notebook 02 builds it, runs it and compares it.

What torch's own has besides: seeds, pinning, persistent workers, iterable-style datasets, timeouts.
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

LOOK_S = 1.0  # while nothing comes, the workers are looked after this often
DIED = "a worker died: its own message says why"

# Step 1: one process.


def collate(samples: list[Any]) -> Any:
    """One batch of several samples: tensors are stacked, numbers too; dicts go key by key."""
    first = samples[0]
    if isinstance(first, dict):
        return {key: collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, torch.Tensor):
        return torch.stack(samples)
    if isinstance(first, float):
        return torch.tensor(samples, dtype=torch.float64)
    return torch.tensor(samples) if isinstance(first, int) else samples


def in_lists(keys: Iterable[Any], batch_size: int) -> Iterator[list[Any]]:
    """Cut what a sampler yields into lists, one for each batch."""
    keys = iter(keys)
    while batch := list(islice(keys, batch_size)):
        yield batch


def load(dataset: Any, sampler: Iterable[Any], batch_size: int) -> Iterator[Any]:
    """Each batch is read when it is asked for."""
    for keys in in_lists(sampler, batch_size):
        yield collate([dataset[key] for key in keys])


# Step 2: workers.


@dataclass(frozen=True)
class Failure:
    """Comes in place of a batch whose worker met an exception."""

    message: str


def work(dataset: Any, tasks: Any, results: Any) -> None:
    """What a worker does all its life: take a list of keys, send back a batch."""
    torch.set_num_threads(1)  # as torch's own: several processes share the CPU
    while (task := tasks.get()) is not None:
        number, keys = task
        try:
            batch = collate([dataset[key] for key in keys])
        except Exception as error:
            batch = Failure(f"{type(error).__name__}: {error}")
        results.put((number, batch))
    results.cancel_join_thread()  # nobody waits for what is left


class Workers:
    """Processes with a queue of tasks each, and one queue for all their results."""

    def __init__(self, dataset: Any, num_workers: int) -> None:
        self.results: Any = multiprocessing.Queue()
        self.tasks: list[Any] = [multiprocessing.Queue() for _ in range(num_workers)]
        self.processes = [
            multiprocessing.Process(target=work, args=(dataset, tasks, self.results), daemon=True)
            for tasks in self.tasks
        ]

    def __enter__(self) -> Workers:
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *exception: object) -> None:
        for tasks in self.tasks:
            tasks.put(None)
        for process in self.processes:
            process.join()
        for each in [*self.tasks, self.results]:
            each.close()
            each.join_thread()

    def deal(self, tasks: Iterator[tuple[int, list[Any]]], n: int) -> int:
        """Send the next n tasks to the workers in turn, like cards; how many there were."""
        dealt = list(islice(tasks, n))
        for number, keys in dealt:
            self.tasks[number % len(self.tasks)].put((number, keys))
        return len(dealt)

    def receive(self) -> tuple[int, Any]:
        """The number and the batch that come next, whoever made them.

        Raises:
            LoaderVizError: where a sample raised an exception, or a worker has died.
        """
        while True:
            try:
                number, batch = self.results.get(timeout=LOOK_S)
            except queue.Empty:
                if not all(process.is_alive() for process in self.processes):
                    raise LoaderVizError(DIED) from None
            except (EOFError, OSError):  # before it had passed on the memory of a tensor it sent
                raise LoaderVizError(DIED) from None
            else:
                if isinstance(batch, Failure):
                    raise LoaderVizError(f"batch {number}: {batch.message}")
                return number, batch


def as_ready(
    dataset: Any, lists: Iterable[list[Any]], num_workers: int, prefetch_factor: int = 2
) -> Iterator[tuple[int, Any]]:
    """Number and batch, in the order in which the workers finish."""
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
    """Every batch in the order of its keys; those that are early wait in a buffer."""
    tasks = enumerate(lists)
    early: dict[int, Any] = {}
    expected = 0
    with Workers(dataset, num_workers) as workers:
        sent = workers.deal(tasks, num_workers * prefetch_factor)
        while expected < sent:
            while expected not in early:
                number, batch = workers.receive()
                early[number] = batch
            sent += workers.deal(tasks, 1)  # one is handed over, one goes out
            yield early.pop(expected)
            expected += 1
