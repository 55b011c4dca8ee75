"""The stand-in of notebook 10: a small training script that is wrong in three common ways.

``python -m loaderviz.course.train_script`` trains for an epoch; with ``cured`` as an argument,
it uses the cured loader. It is as short as such scripts are, to be read as well as run, and does
nothing to be recorded.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from loaderviz.sharding import shard

Sample = dict[str, Any]


class Shots(IterableDataset[Sample]):
    """Pictures from a remote store, each made a little brighter or darker at random."""

    def __init__(self, n: int = 160) -> None:
        self.numbers = range(n)
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Sample]:
        for number in self.numbers:
            time.sleep(0.008)  # the request to the store
            picture = torch.full((16, 16), number / len(self.numbers))
            yield {"number": number, "picture": picture + 0.1 * self.rng.normal()}


class CuredShots(IterableDataset[Sample]):
    """Each worker reads its share, and draws from torch's generator, which is its own."""

    def __init__(self, n: int = 160) -> None:
        self.numbers = range(n)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Sample]:
        for number in shard(self.numbers):
            time.sleep(0.008)
            picture = torch.full((16, 16), number / len(self.numbers))
            yield {"number": number, "picture": picture + 0.1 * torch.randn(())}


def make_loader() -> DataLoader[Sample]:
    """The script's loader."""
    return DataLoader(Shots(), batch_size=4, num_workers=2)


def make_cured(num_workers: int = 5) -> DataLoader[Sample]:
    """The loader of ``CuredShots``, by default with as many workers as the model needs."""
    return DataLoader(CuredShots(), batch_size=4, num_workers=num_workers)


def number_of(sample: Sample) -> int:
    """The sample's key, since its picture changes at random."""
    return int(sample["number"])


def train(loader: DataLoader[Sample]) -> None:
    """Train a model to tell a picture's number from its brightness."""
    model = torch.nn.Linear(16 * 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    steps = 0
    for batch in loader:
        target = batch["number"] / 160
        loss = (model(batch["picture"].flatten(1)).squeeze(1) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.008)  # a larger model
        steps += 1
    print(f"{steps} steps, the last loss is {loss.item():.2f}")


if __name__ == "__main__":
    train(make_cured() if "cured" in sys.argv[1:] else make_loader())
