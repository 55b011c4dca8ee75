"""The batches of an epoch, as far as torch's own classes tell them; and those made ahead."""

import time
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from loaderviz.loaders.batch_counts import known_length, n_ahead
from loaderviz.loaders.describe_loader import describe

DATA = range(10)


class Seeded(RandomSampler):
    """As accelerate's: seeds itself in each epoch."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


class Fewer(RandomSampler):
    def __len__(self) -> int:
        raise AssertionError("nobody asked for it")


class Own(Sampler[int]):
    def __iter__(self) -> Any:
        return iter(DATA)

    def __len__(self) -> int:
        raise AssertionError("nobody asked for it")


@pytest.mark.parametrize(
    ("options", "length"),
    [
        ({"shuffle": True, "batch_size": 4}, 3),
        ({"shuffle": True, "batch_size": 4, "drop_last": True}, 2),
        ({"sampler": WeightedRandomSampler([1.0] * 10, 6), "batch_size": 4}, 2),
        ({"sampler": Seeded(DATA), "batch_size": 4}, 3),
        ({"batch_sampler": BatchSampler(Seeded(DATA), 4, drop_last=False)}, 3),
        ({"batch_sampler": BatchSampler(RandomSampler(DATA), 5, drop_last=False)}, 2),
        ({"batch_sampler": BatchSampler(SequentialSampler(DATA), 5, drop_last=False)}, None),
        ({"batch_size": 4}, None),  # would ask the dataset, which nobody has done yet
        ({"sampler": Fewer(DATA), "batch_size": 4}, None),
        ({"sampler": Own(), "batch_size": 4}, None),
    ],
)
def test_it_is_known_where_no_code_of_the_user_is_asked(options, length):
    assert known_length(DataLoader(DATA, **options)) == length


def test_what_a_batch_sampler_draws_from_says_whether_it_is_shuffled():
    shuffled = DataLoader(DATA, batch_sampler=BatchSampler(RandomSampler(DATA), 5, drop_last=False))
    assert describe(shuffled)["shuffled"]
    assert not describe(DataLoader(DATA, batch_size=5))["shuffled"]


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
