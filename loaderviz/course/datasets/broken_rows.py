"""Map-style datasets that deliver something else than what they were asked for.

Wrong on purpose, and as short as in real code: they are meant to be read as well as run.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate

from loaderviz.argument_checks import position, whole_number


class BrokenRows(Dataset[Any]):
    """Row `i` is a float32 tensor of shape (4,) full of `i`; those in `broken` cannot be read."""

    def __init__(self, n: int, broken: Sequence[int]) -> None:
        self.n = whole_number("n", n)
        self.broken = broken

    def __len__(self) -> int:
        return self.n

    def read(self, index: int) -> torch.Tensor:
        """Row `index`; raises OSError if it is broken, IndexError if there is none."""
        if position(index, self.n) in self.broken:
            raise OSError(f"row {index} is broken")
        return torch.full((4,), float(index))

    def __getitem__(self, index: int) -> Any:
        return self.read(index)


class AnotherInstead(BrokenRows):
    """In place of a broken row: the next one."""

    def __getitem__(self, index: int) -> Any:
        try:
            return self.read(index)
        except OSError:
            return self[index + 1]


class NoneInstead(BrokenRows):
    """In place of a broken row: None, for `collate_what_is_there` to leave out."""

    def __getitem__(self, index: int) -> Any:
        try:
            return self.read(index)
        except OSError:
            return None


def collate_what_is_there(samples: list[Any]) -> Any:
    """A `collate_fn` that leaves out None."""
    return default_collate([each for each in samples if each is not None])


class DoubledRows(Dataset[Any]):
    """A sample is twice a row of `rows`, 16 x 4 numbers from 0 on; right when it is read once.

    `rows` is an array: workers that are spawned would share a tensor with this process.
    """

    def __init__(self) -> None:
        self.rows = np.arange(64, dtype=np.float32).reshape(16, 4)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        row *= 2
        return row
