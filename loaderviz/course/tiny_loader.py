"""The workers of the small DataLoader that notebook 02 builds, and the batches that they make.

They are here because workers started by spawn or forkserver import them by name. Torch's have more:
seeds, persistent workers, iterable-style datasets.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import multiprocessing

from loaderviz.errors import LoaderVizError

ALIVE_CHECK_S = 1.0  # while no result comes, this often it is checked that all workers live


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
                    message = "a worker died: look for what it printed before"
                    raise LoaderVizError(message) from None
            else:
                if isinstance(batch, Failure):
                    raise LoaderVizError(f"batch {number}: {batch.message}")
                return number, batch
