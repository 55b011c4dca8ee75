"""Of a batch that could not be put together: which two samples differ, and where."""

import re
import traceback
import weakref
from collections import UserDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import loaderviz as lv
from probes import Bulk, Keys, Stream

Pair = namedtuple("Pair", "image label")


def odd_one(key: int, odd: int = 21) -> torch.Tensor:
    return torch.zeros(1 if key == odd else 3, 8, 8)


def picture(key: int) -> Any:
    return {"label": key, "image": odd_one(key), "mask": odd_one(key)}


def listed(key: int) -> Any:
    return {"ids": [key] * (2 if key == 21 else 3)}


def scalars(key: int) -> Any:
    return Pair(odd_one(0).numpy(), np.zeros(()) if key == 21 else np.zeros(1))


def wrapped(key: int) -> Any:
    return UserDict({"more": (key, {"deep": odd_one(key)})})


class Named(Dataset):
    """Its keys are names of files."""

    def __getitem__(self, key: str) -> torch.Tensor:
        return odd_one(len(key), 4)


def error_of(loader: Any) -> tuple[str, list[str]]:
    """What the loop gets, and through which functions; nothing holds its workers afterwards."""
    try:
        list(loader)
    except RuntimeError as error:
        return str(error), [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    raise AssertionError("no error was raised")


def failed(loader: Any, error: str = "equal size|resiz") -> str | None:
    """What the recording says of the batch that failed; checks that the error is the plain one."""
    plain = error_of(loader)
    assert re.search(error, plain[0])
    with lv.record(loader) as rec:
        recorded = error_of(loader)
    assert recorded == plain
    failed_ones = rec.trace.batches[rec.trace.batches["state"] == "failed"]
    assert rec.trace.meta["complete"]
    text: str | None = failed_ones["shapes"].iloc[0]
    return text


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (odd_one, "batch: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21"),
        (picture, "batch['image']: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21"),
        (listed, "batch['ids']: 3 items in sample 20, 2 items in sample 21"),
        (scalars, "batch[1]: (1,) in sample 20, () in sample 21"),
        (wrapped, "batch['more'][1]['deep']: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21"),
    ],
)
def test_the_part_and_the_two_samples_are_named(make, text, num_workers):
    assert failed(DataLoader(Keys(40, make=make), batch_size=4, num_workers=num_workers)) == text


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_first_sample_that_is_larger_too(num_workers):
    """In a worker torch then speaks of storage that is not resizable."""

    def first_is_larger(key: int) -> torch.Tensor:
        return torch.zeros(100 if key == 20 else 1, 8)

    loader = DataLoader(Keys(40, make=first_is_larger), batch_size=4, num_workers=num_workers)
    assert failed(loader) == "batch: (100, 8) in sample 20, (1, 8) in sample 21"


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_samples_of_other_datasets_are_named_as_they_were_asked_for(num_workers):
    text = "batch['image']: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21"
    loader = DataLoader(Bulk(40, make=picture), batch_size=4, num_workers=num_workers)
    assert failed(loader) == text
    loader = DataLoader(
        Named(), sampler=["a", "bb", "ccc", "dddd"], batch_size=4, num_workers=num_workers
    )
    assert failed(loader) == "batch: (3, 8, 8) in sample 'a', (1, 8, 8) in sample 'dddd'"
    loader = DataLoader(Stream(24, make=picture), batch_size=4, num_workers=num_workers)
    places = "(3, 8, 8) in the sample at place 0, (1, 8, 8) in the sample at place 1"
    assert failed(loader) == f"batch['image']: {places}"


def stack_masks(samples: list[Any]) -> Any:
    """Images may differ, masks may not."""
    return [s["image"] for s in samples], torch.stack([s["mask"] for s in samples])


def stack_cropped(samples: list[Any]) -> Any:
    return torch.stack([s["image"][:, : 3 + s["label"] % 4] for s in samples])


def unlike(key: int) -> Any:
    return {"label": key, "image": torch.zeros(3, 8 + key), "mask": odd_one(key)}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_of_a_collate_fn_of_the_users_only_what_is_certain_is_said(num_workers):
    def loader(make: Any, collate_fn: Any) -> DataLoader[Any]:
        dataset = Keys(40, make=make)
        return DataLoader(dataset, batch_size=4, collate_fn=collate_fn, num_workers=num_workers)

    masks = "batch['mask']: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21"
    assert failed(loader(unlike, stack_masks)) == masks
    assert failed(loader(picture, stack_masks)) is None  # the image differs as much
    assert failed(loader(unlike, stack_cropped)) is None  # no sample has what was stacked


def inner_fails(samples: list[Any]) -> Any:
    return next(iter(DataLoader([torch.zeros(2), torch.zeros(3)], batch_size=2)))


@pytest.mark.parametrize("error", [ValueError("stack expects"), RuntimeError("of the user's own")])
def test_of_other_errors_nothing_is_said(error):
    def fail(samples: list[Any]) -> Any:
        raise error

    loader = DataLoader(Keys(8, make=odd_one), batch_size=4, collate_fn=fail)
    with pytest.raises(type(error)), lv.record(loader) as rec:
        list(loader)
    assert rec.trace.batches["shapes"].isna().all()


def test_a_loader_inside_another_does_not_speak_for_it():
    loader = DataLoader(Keys(8, make=odd_one), batch_size=4, collate_fn=inner_fails)
    assert failed(loader) is None


class Failing(IterableDataset):
    def __iter__(self) -> Any:
        yield from (torch.zeros(2), torch.zeros(2))
        raise RuntimeError("stack expects each tensor, said the dataset")


def test_what_the_dataset_raises_is_no_failure_to_collate():
    assert failed(DataLoader(Failing(), batch_size=4), error="said the dataset") is None


def test_what_failed_is_kept_alive_by_its_traceback_alone():
    samples = []

    def noted(key: int) -> torch.Tensor:
        sample = odd_one(key)
        samples.append(weakref.ref(sample))
        return sample

    loader = DataLoader(Keys(40, make=noted), batch_size=4)
    with lv.record(loader) as rec, pytest.raises(RuntimeError) as caught:
        list(loader)
    assert rec.trace.batches["shapes"].iloc[-1].endswith("in sample 21")
    traceback.clear_frames(caught.tb)
    assert all(sample() is None for sample in samples)
