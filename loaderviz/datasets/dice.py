"""Datasets that throw dice: from generators that are seeded well, badly, or copied.

Map-style; a sample is a throw, an int from 0 to 99, and not the sample's index. As short as such
code is in real datasets, to be read as much as to be run.
"""

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset


class Dice(Dataset[int]):
    """Throws with a global generator: that of `"torch"`, `"numpy"` or `"random"`."""

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
    """Wrong on purpose: a generator of the dataset's own, of which each worker gets a copy."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> int:
        return int(self.rng.integers(100))


class LazyDice(Dice):
    """A generator of the dataset's own, made in the process that throws, from that one's seed."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.rng: Any = None

    def __getitem__(self, index: int) -> int:
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed())
        return int(self.rng.integers(100))


class SeedTeller(Dice):
    """No throw, but the seed that the process has that reads the sample."""

    def __getitem__(self, index: int) -> int:
        return torch.initial_seed()


class EpochDice(Dice):
    """The throw follows from the epoch and the index, whichever process reads the sample.

    `epoch` is shared memory: what the main process writes there, every worker reads. With
    `shared=False` it is a plain number, of which each worker has a copy.
    """

    def __init__(self, n: int, *, shared: bool = True) -> None:
        super().__init__(n)
        number = torch.zeros((), dtype=torch.int64)
        self.epoch: Any = number.share_memory_() if shared else 0

    def set_epoch(self, epoch: int) -> None:
        if isinstance(self.epoch, torch.Tensor):
            self.epoch.fill_(epoch)
        else:
            self.epoch = epoch

    def __getitem__(self, index: int) -> int:
        return int(np.random.default_rng((int(self.epoch), index)).integers(100))


def seed_by_number(worker_id: int) -> None:
    """A `worker_init_fn`: wrong on purpose, because it is the same in every epoch."""
    np.random.seed(worker_id)


def seed_by_torch(worker_id: int) -> None:
    """A `worker_init_fn`: differs by worker and by epoch, as the seed of torch does."""
    np.random.seed(torch.initial_seed() % 2**32)
