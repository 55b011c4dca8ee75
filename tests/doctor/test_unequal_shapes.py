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
from loaderviz._doctor import Finding
from loaderviz._doctor.run_epochs import LATE_S


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


def found(dataset: Any, **options: Any) -> Finding:
    diagnosis = lv.doctor(DataLoader(dataset, batch_size=4, **options), budget_s=60)
    (finding,) = [each for each in diagnosis if each.code == "LV602"]
    compile(finding.fix, "fix", "exec")
    return finding


def test_two_samples_are_named_with_the_part_that_differs_and_the_fix_runs():
    finding = found(Texts(), num_workers=2)
    assert finding.evidence[1] == "batch['text']: (5,) in sample 0, (6,) in sample 1"
    names: dict = {"torch": torch}
    exec(finding.fix, names)
    batches = list(DataLoader(Texts(), batch_size=4, collate_fn=names["collate"]))
    assert [tuple(batch.shape) for batch, _ in batches] == [(4, 7)] * 3
    assert batches[0][1].tolist() == [5, 6, 7, 5]


def test_of_a_stream_it_is_their_places_in_the_batch():
    assert (
        found(Pictures())
        .evidence[1]
        .startswith(
            "batch[0]: (3, 8, 8) in the sample at place 0, (3, 8, 9) in the sample at place 2"
        )
    )


def stack_twice(samples: list[Any]) -> torch.Tensor:
    return torch.stack([sample["text"].repeat(2) for sample in samples])


def test_of_shapes_that_no_sample_has_it_is_what_torch_says():
    assert "equal size" in found(Texts(), collate_fn=stack_twice).evidence[0]


@pytest.mark.parametrize("dataset", [Locked, pytest.param(LockedAndSlow, marks=pytest.mark.slow)])
def test_they_are_found_also_where_torch_cannot_end_its_workers(dataset):
    assert found(dataset(), num_workers=1)
