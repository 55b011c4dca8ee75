"""A slice in place of items is advised only where it was tried, and holds the same values."""

import time
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    SequentialSampler,
    Subset,
    TensorDataset,
)

from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.slice_trial import SliceTrial, try_slices


def in_memory() -> TensorDataset:
    return TensorDataset(torch.arange(32_000.0).reshape(2000, 16), torch.arange(2000))


def lists_of(n: int, dataset: Any) -> BatchSampler:
    return BatchSampler(SequentialSampler(dataset), batch_size=n, drop_last=False)


class Rows(Dataset):
    """Rows of an array, in a dict."""

    def __init__(self) -> None:
        self.rows = np.arange(400.0).reshape(100, 4)
        self.rows[3, 3] = np.nan

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: Any) -> Any:
        return {"row": self.rows[index], "number": torch.as_tensor(index)}


class Augmented(Rows):
    def __getitem__(self, index: Any) -> Any:
        return torch.as_tensor(self.rows[index]) + torch.rand(())


class Swapped(Rows):
    """With the values of another row where a list asks."""

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index[::-1]] if isinstance(index, list) else self.rows[index]


def tried(dataset: Any, **options: Any) -> SliceTrial | None:
    loader = DataLoader(dataset, **{"batch_size": 16, **options})
    return try_slices(Setup(loader), time.monotonic() + 60)


@pytest.mark.parametrize("dataset", [in_memory(), Subset(in_memory(), range(9, 109)), Rows()])
def test_what_takes_a_list_is_read_both_ways(dataset):
    trial = tried(dataset)
    assert trial.n_samples == 16
    assert trial.n_batches == min(-(-len(dataset) // 16), 25)
    assert trial.items_s > 0
    assert trial.slice_s > 0


@pytest.mark.parametrize("dataset", [Augmented(), Swapped()])
def test_other_values_are_no_slice(dataset):
    assert tried(dataset) is None


def test_a_list_that_is_refused_is_left_to_the_caller():
    with pytest.raises(TypeError):
        tried(list(range(100)))


@pytest.mark.parametrize(
    "options",
    [
        {"collate_fn": list},
        {"batch_size": 1},
        {"batch_size": None, "sampler": lists_of(16, in_memory())},
    ],
)
def test_batches_that_are_made_otherwise_are_not_tried(options):
    assert tried(in_memory(), **options) is None


def test_two_batches_are_too_few():
    assert tried(TensorDataset(torch.arange(32))) is None


def test_the_factor_is_how_many_times_as_long_items_take():
    assert SliceTrial(3, 16, items_s=0.06, slice_s=0.02).factor == pytest.approx(3)
