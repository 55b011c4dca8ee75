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
        way = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        traceback.clear_frames(error.__traceback__)
        return str(error), way
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


def first_is_larger(key: int) -> torch.Tensor:
    """In a worker torch then speaks of storage that is not resizable."""
    return torch.zeros(100 if key == 20 else 1, 8)


def stack_masks(samples: list[Any]) -> Any:
    """Images may differ, masks may not."""
    return [s["image"] for s in samples], torch.stack([s["mask"] for s in samples])


def stack_cropped(samples: list[Any]) -> Any:
    return torch.stack([s["image"][:, : 3 + s["label"] % 4] for s in samples])


def unlike(key: int) -> Any:
    return {"label": key, "image": torch.zeros(3, 8 + key), "mask": odd_one(key)}


IMAGE = "batch['image']: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21"
MASK = "batch['mask']: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21"
IN_STREAM = "(3, 8, 8) in the sample at place 0, (1, 8, 8) in the sample at place 1"
UNEQUAL: dict[str, tuple[Any, dict[str, Any], str | None]] = {
    "a tensor": (
        Keys(40, make=odd_one),
        {},
        "batch: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21",
    ),
    "a dict": (Keys(40, make=picture), {}, IMAGE),
    "a list": (
        Keys(40, make=listed),
        {},
        "batch['ids']: 3 items in sample 20, 2 items in sample 21",
    ),
    "arrays": (Keys(40, make=scalars), {}, "batch[1]: (1,) in sample 20, () in sample 21"),
    "deep": (
        Keys(40, make=wrapped),
        {},
        "batch['more'][1]['deep']: (3, 8, 8) in sample 20, (1, 8, 8) in sample 21",
    ),
    "a larger first": (
        Keys(40, make=first_is_larger),
        {},
        "batch: (100, 8) in sample 20, (1, 8) in sample 21",
    ),
    "bulk": (Bulk(40, make=picture), {}, IMAGE),
    "names": (
        Named(),
        {"sampler": ["a", "bb", "ccc", "dddd"]},
        "batch: (3, 8, 8) in sample 'a', (1, 8, 8) in sample 'dddd'",
    ),
    "a stream": (Stream(24, make=picture), {}, f"batch['image']: {IN_STREAM}"),
    # Of a collate_fn of the user's only what is certain is said.
    "masks": (Keys(40, make=unlike), {"collate_fn": stack_masks}, MASK),
    "masks, where the image differs as much": (
        Keys(40, make=picture),
        {"collate_fn": stack_masks},
        None,
    ),
    "what no sample has": (Keys(40, make=unlike), {"collate_fn": stack_cropped}, None),
}


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("name", UNEQUAL)
def test_the_part_and_the_two_samples_are_named(name, num_workers):
    dataset, options, text = UNEQUAL[name]
    assert failed(DataLoader(dataset, batch_size=4, num_workers=num_workers, **options)) == text


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
