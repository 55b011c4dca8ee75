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


def failed(loader: Any) -> str | None:
    """What the recording says of the batch that failed; checks that the error is the plain one."""
    plain = error_of(loader)
    assert re.search("equal size|resiz", plain[0])
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


class Failing(IterableDataset):
    def __iter__(self) -> Any:
        yield from (torch.zeros(2), torch.zeros(2))
        raise RuntimeError("stack expects each tensor to be equal size, said the dataset")


def inner_fails(samples: list[Any]) -> Any:
    return next(iter(DataLoader([torch.zeros(2), torch.zeros(3)], batch_size=2)))


def said(part: str, one: str = "(3, 8, 8)", other: str = "(1, 8, 8)", samples: Any = None) -> str:
    first, second = samples or ("sample 20", "sample 21")
    return f"batch{part}: {one} in {first}, {other} in {second}"


PLACES = "the sample at place 0", "the sample at place 1"
FILES = {"sampler": ["a", "bb", "ccc", "dddd"]}
MASKS = {"collate_fn": stack_masks}
UNEQUAL: dict[str, tuple[Any, dict[str, Any], str | None]] = {
    "a tensor": (Keys(40, make=odd_one), {}, said("")),
    "a dict": (Keys(40, make=picture), {}, said("['image']")),
    "a list": (Keys(40, make=listed), {}, said("['ids']", "3 items", "2 items")),
    "arrays": (Keys(40, make=scalars), {}, said("[1]", "(1,)", "()")),
    "deep": (Keys(40, make=wrapped), {}, said("['more'][1]['deep']")),
    "a larger first": (Keys(40, make=first_is_larger), {}, said("", "(100, 8)", "(1, 8)")),
    "bulk": (Bulk(40, make=picture), {}, said("['image']")),
    "names": (Named(), FILES, said("", samples=("sample 'a'", "sample 'dddd'"))),
    "a stream": (Stream(24, make=picture), {}, said("['image']", samples=PLACES)),
    # Of a collate_fn of the user's only what is certain is said.
    "masks": (Keys(40, make=unlike), MASKS, said("['mask']")),
    "masks, where the image differs as much": (Keys(40, make=picture), MASKS, None),
    "what no sample has": (Keys(40, make=unlike), {"collate_fn": stack_cropped}, None),
    # A loader inside another does not speak for it, nor does a dataset that fails.
    "a loader inside": (Keys(8, make=odd_one), {"collate_fn": inner_fails}, None),
    "a dataset that says so": (Failing(), {}, None),
}


# Of a worker those where torch's error, or the way to it, is another one there.
IN_A_WORKER = ["a dict", "a larger first", "bulk", "names", "a stream", "masks", "a loader inside"]


@pytest.mark.parametrize(
    ("name", "num_workers"),
    [*((name, 0) for name in UNEQUAL), *((name, 1) for name in IN_A_WORKER)],
)
def test_the_part_and_the_two_samples_are_named(name, num_workers):
    dataset, options, text = UNEQUAL[name]
    assert failed(DataLoader(dataset, batch_size=4, num_workers=num_workers, **options)) == text


@pytest.mark.parametrize("error", [ValueError("stack expects"), RuntimeError("of the user's own")])
def test_of_other_errors_nothing_is_said(error):
    def fail(samples: list[Any]) -> Any:
        raise error

    loader = DataLoader(Keys(8, make=odd_one), batch_size=4, collate_fn=fail)
    with pytest.raises(type(error)), lv.record(loader) as rec:
        list(loader)
    assert rec.trace.batches["shapes"].isna().all()


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
