"""The doctor names the samples that do not fit into one batch, and their shapes."""

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import loaderviz as lv
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_epochs import LATE_S
from loaderviz._doctor.shape_trial import UnequalShapes, find_unequal_shapes


class Texts(Dataset):
    """Of three lengths, each with its number."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"text": torch.ones(5 + index % 3), "number": index}


class Pictures(IterableDataset):
    """The seventh is wider than those before it."""

    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        for i in range(12):
            yield np.ones((3, 8, 8 + (i == 6)), np.float32), i


class Locked(Texts):
    """A worker takes a lock with which torch ends workers, as one that is killed may have done."""

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        frame = sys._getframe()
        while frame is not None and "done_event" not in frame.f_locals:
            frame = frame.f_back
        if frame is not None:  # in a worker
            frame.f_locals["done_event"]._cond._lock.acquire(timeout=1)
        return super().__getitem__(index)


class Slow:
    """Something else of which the collector has to dispose, and which takes longer than it may."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(2 * LATE_S)


class LockedAndSlow(Locked):
    def __len__(self) -> int:
        if os.getpid() != self.born_in:  # in the doctor's copy
            Slow()
        return super().__len__()

    def __init__(self) -> None:
        self.born_in = os.getpid()


class Alone(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(2 + index // 2)


def found(dataset, **options) -> UnequalShapes | None:
    return find_unequal_shapes(Setup(DataLoader(dataset, **options)), time.monotonic() + 60)


def test_two_samples_of_a_batch_are_named_with_the_part_that_differs():
    assert found(Texts(), batch_size=4) == UnequalShapes(
        ("0", "1"), "['text']", ((5,), (6,)), n_shapes=3, n_samples=12
    )


def test_of_a_stream_it_is_their_places():
    assert found(Pictures(), batch_size=4) == UnequalShapes(
        ("4", "6"), "[0]", ((3, 8, 8), (3, 8, 9)), n_shapes=2, n_samples=12
    )


def test_batches_may_differ_from_one_another():
    assert found(Alone(), batch_size=2) is None
    assert found(Alone(), batch_size=3).keys == ("0", "2")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_doctor_finds_them_and_its_fix_runs(num_workers):
    diagnosis = lv.doctor(DataLoader(Texts(), batch_size=4, num_workers=num_workers))
    (finding,) = [each for each in diagnosis if each.code == "LV602"]
    assert "samples 0 and 1 would share a batch" in finding.evidence[0]
    names: dict = {"torch": torch}
    exec(finding.fix, names)
    batches = list(DataLoader(Texts(), batch_size=4, collate_fn=names["collate"]))
    assert [tuple(batch.shape) for batch, _ in batches] == [(4, 7)] * 3
    assert batches[0][1].tolist() == [5, 6, 7, 5]


@pytest.mark.parametrize("dataset", [Locked, pytest.param(LockedAndSlow, marks=pytest.mark.slow)])
def test_they_are_found_also_where_torch_cannot_end_its_workers(dataset):
    diagnosis = lv.doctor(DataLoader(dataset(), batch_size=4, num_workers=1), budget_s=20)
    assert "LV602" in diagnosis.codes
