"""Datasets that throw dice: with generators that are seeded well, seeded badly, or copied.

A sample is a throw, an int from 0 to 99, and not the sample's index; all but `DiceStream` are
map-style. The classes are as short as such code is in real datasets: they are meant to be read as
well as run.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from loaderviz.sharding import shard

SEED = 7


class Dice(Dataset[int]):
    """Each sample is a throw with a global generator: `source` is torch, numpy or random."""

    def __init__(self, n: int, source: str = "torch") -> None:
        self.n = n
        self.source = source

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        if self.source == "random":
            return random.randrange(100)
        if self.source == "numpy":
            return int(np.random.randint(100))
        return int(torch.randint(100, ()))


class CopiedDice(Dice):
    """Wrong on purpose: the dataset has its own generator, and each worker gets a copy of it."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> int:
        return int(self.rng.integers(100))


class SeedTeller(Dice):
    """A sample is no throw, but torch's seed in the process that reads it."""

    def __getitem__(self, index: int) -> int:
        return torch.initial_seed()


class EpochDice(Dice):
    """A throw depends on the epoch and the index, not on the process that reads the sample.

    `epoch` is in shared memory: every worker reads what the main process writes there.
    """

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.epoch: Any = torch.zeros((), dtype=torch.long).share_memory_()

    def __getitem__(self, index: int) -> int:
        rng = np.random.default_rng((SEED, int(self.epoch), index))
        return int(rng.integers(100))


class DiceStream(IterableDataset[int]):
    """Throws with a generator that each iteration makes anew, from the seed that `seed()` gives."""

    def __init__(self, n: int, seed: Callable[[], int]) -> None:
        self.n = n
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng(self.seed())
        for _ in shard(range(self.n)):
            yield int(rng.integers(100))


def number_of_worker() -> int:
    """A seed for `DiceStream`: the number of the worker."""
    info = get_worker_info()
    return 0 if info is None else info.id


def seed_of_torch() -> int:
    """A seed for `DiceStream`: the one that torch gave to this process."""
    return torch.initial_seed()


def drawn_with_torch() -> int:
    """A seed for `DiceStream`: a number drawn from torch's generator in this process."""
    return int(torch.randint(2**62, ()))


def seed_by_number(worker_id: int) -> None:
    """A `worker_init_fn`: the seed of NumPy's global generator is the worker's number."""
    np.random.seed(worker_id)


def seed_by_torch(worker_id: int) -> None:
    """A `worker_init_fn`: the seed differs by worker and by epoch, since torch's seed does.

    Source: `torch/utils/data/_utils/worker.py`, `_worker_loop`.
    """
    np.random.seed(torch.initial_seed() % 2**32)
