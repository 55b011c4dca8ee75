"""Datasets that cut random squares out of one picture, with a generator of their own.

Map-style; a sample is a crop, uint8 of shape (3, side, side). As `FaceLandmarks`, they need Pillow.
"""

from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from loaderviz.course.datasets.faces import FaceLandmarks


class CopiedCrops(Dataset[torch.Tensor]):
    """Crops are placed by a generator that the dataset keeps."""

    def __init__(self, n: int, side: int = 240) -> None:
        self.n, self.side = n, side
        self.picture: torch.Tensor = FaceLandmarks(1)[0]["image"]
        self.rng: Any = np.random.default_rng(0)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        _, height, width = self.picture.shape
        top, left = self.rng.integers(0, (height - self.side, width - self.side))
        return self.picture[:, top : top + self.side, left : left + self.side]


class LazyCrops(CopiedCrops):
    """The generator is made at a process's first crop, from torch's seed there."""

    def __init__(self, n: int, side: int = 240) -> None:
        super().__init__(n, side)
        self.rng = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed())
        return super().__getitem__(index)
