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
from loaderviz._doctor.lv3_items import Slices, read_as_slices


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


def tried(dataset: Any, **options: Any) -> Slices | None:
    loader = DataLoader(dataset, **{"batch_size": 16, **options})
    return read_as_slices(Setup(loader), time.monotonic() + 60)


@pytest.mark.parametrize("dataset", [in_memory(), Subset(in_memory(), range(9, 109)), Rows()])
def test_what_takes_a_list_is_read_both_ways(dataset):
    trial = tried(dataset)
    assert trial.n_samples == 16
    assert trial.n_batches == min(-(-len(dataset) // 16), 25)
    assert trial.factor == pytest.approx(trial.items_s / trial.slice_s)


@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        (Augmented(), {}),  # other values
        (Swapped(), {}),
        (in_memory(), {"collate_fn": list}),
        (in_memory(), {"batch_size": 1}),
        (in_memory(), {"batch_size": None, "sampler": lists_of(16, in_memory())}),
        (TensorDataset(torch.arange(32)), {}),  # two batches
        (list(range(100)), {}),  # takes no list
    ],
)
def test_what_is_no_slice_or_too_little_is_not_told(dataset, options):
    assert tried(dataset, **options) is None


class Failing(Rows):
    def __getitem__(self, index: Any) -> Any:
        if index == 40:
            raise ValueError("row 40")
        return super().__getitem__(index)


def test_what_fails_item_by_item_is_left_to_the_caller():
    with pytest.raises(ValueError, match="row 40"):
        tried(Failing())


def test_too_little_time_is_no_answer():
    with pytest.raises(TimeoutError):
        read_as_slices(Setup(DataLoader(in_memory(), batch_size=16)), time.monotonic() - 1)
