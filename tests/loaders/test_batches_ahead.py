"""How many batches lie ready that the loop has not got yet."""

import time
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz.loaders.batch_counts import n_ahead


class FirstIsLate(Dataset[Any]):
    """Its first sample takes a while, and the others no time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        if index == 0:
            time.sleep(self.seconds)
        return torch.zeros(4)


def settled(iterator: Any) -> int:
    """As soon as the workers have done all that they were asked for, or nearly so."""
    seen, deadline = -1, time.monotonic() + 10
    while n_ahead(iterator) != seen and time.monotonic() < deadline:
        seen = n_ahead(iterator)
        time.sleep(0.3)
    return seen


def test_those_that_are_made_wait_in_the_queue():
    iterator = iter(DataLoader(FirstIsLate(0), num_workers=2, prefetch_factor=2))
    next(iterator)
    assert settled(iterator) == 4
    list(iterator)
    assert n_ahead(iterator) == 0


def test_or_for_the_one_before_them():
    """The second worker is ready, and its batches are not the next to be delivered."""
    iterator = iter(DataLoader(FirstIsLate(0.5), num_workers=2, prefetch_factor=2))
    next(iterator)
    early = [task for task in vars(iterator)["_task_info"].values() if len(task) == 2]
    assert early
    assert n_ahead(iterator) >= len(early)
    list(iterator)
    assert n_ahead(iterator) == 0


@pytest.mark.parametrize(
    "iterator", [iter(DataLoader(range(3))), iter(range(3))], ids=["here", "range"]
)
def test_without_workers_there_are_none(iterator):
    next(iterator)
    assert n_ahead(iterator) == 0
