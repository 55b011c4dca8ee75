"""LV314: data in memory that is read item by item, where one slice gives the same batch.

The look reads some batches both ways in one process; the check says what that showed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import default_collate, default_convert

from loaderviz._doctor.checks import Seen, check, look, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.loader_setup import Setup
from loaderviz.text import count, duration

MOST_BATCHES = 25  # enough for a median
LEAST_BATCHES = 3  # with fewer, a median is the time of any of them
MOST_S = 1.0
LEAST_FACTOR = 3.0  # times as long item by item: less is not worth another sampler
LEAST_SAVED_S = 1e-4  # of a batch: less is not felt beside any step


@dataclass(frozen=True)
class Slices:
    """How long the same batches took in one process, in seconds: medians."""

    n_batches: int
    n_samples: int  # of the largest of them
    items_s: float  # read item by item, and collated
    slice_s: float  # read as dataset[[...]]

    @property
    def factor(self) -> float:
        """How many times as long it takes item by item."""
        return self.items_s / max(self.slice_s, 1e-9)


@look(Slices)
def read_as_slices(setup: Setup, until: float) -> Slices | None:
    """Read the first batches both ways in turns; TimeoutError where there is time for too few.

    A list in brackets is what torch hands a dataset where its sampler yields lists and
    ``batch_size`` is None (torch/utils/data/_utils/fetch.py, ``_MapDatasetFetcher.fetch``).

    Returns:
        None where there are too few, or the dataset has no slices of the same values.
    """
    dataset, items_s, slice_s, most = setup.dataset, [], [], 0
    until = min(until, time.monotonic() + MOST_S)
    for keys in _batches_of_keys(setup):
        begun_s = time.perf_counter()
        by_item = default_collate([dataset[key] for key in keys])
        between_s = time.perf_counter()
        try:
            by_slice = default_convert(dataset[list(keys)])
        except TimeoutError:
            raise
        except Exception:  # most datasets take no list of keys
            return None
        ended_s = time.perf_counter()
        if not _same(by_item, by_slice):
            return None
        items_s.append(between_s - begun_s)
        slice_s.append(ended_s - between_s)
        most = max(most, len(keys))
        if time.monotonic() > until:
            if len(items_s) < LEAST_BATCHES:
                raise TimeoutError
            break
    if len(items_s) < LEAST_BATCHES:
        return None
    return Slices(len(items_s), most, median(items_s), median(slice_s))


def _batches_of_keys(setup: Setup) -> Iterator[list[Any]]:
    """The first lists of two keys and more; none where a function of the user's collates."""
    settings = setup.settings
    collates = setup.iterable or settings["collate_fn"] is not default_collate
    if not collates and settings["batch_sampler"] is not None:
        for keys in islice(settings["batch_sampler"], MOST_BATCHES):
            if len(keys) > 1:
                yield keys


def _same(batch: Any, other: Any) -> bool:
    """Whether both hold the same values in the same order; tuples count as lists."""
    leaves, others = tree_leaves(batch), tree_leaves(other)
    names, other_names = (
        sorted(map(str, each)) if isinstance(each, dict) else [] for each in (batch, other)
    )
    return (
        len(leaves) == len(others) and names == other_names and all(map(_same_leaf, leaves, others))
    )


def _same_leaf(leaf: Any, other: Any) -> bool:
    if not (isinstance(leaf, torch.Tensor) and isinstance(other, torch.Tensor)):
        return type(leaf) is type(other) and bool(leaf == other)
    if leaf.dtype != other.dtype or leaf.shape != other.shape:
        return False
    return np.array_equal(leaf, other, equal_nan=leaf.is_floating_point())


@check("LV314")
def _item_by_item(case: Case) -> Seen | None:
    settings = case.setup.settings
    if case.setup.iterable or settings["batch_sampler"] is None:
        return None
    case.epoch()
    slices = case.observed(Slices)
    if slices is None or slices.factor < LEAST_FACTOR:
        return None
    if slices.items_s - slices.slice_s < LEAST_SAVED_S:
        return None
    return seen(
        f"a batch of {slices.n_samples} takes {duration(slices.items_s)} item by item, and "
        f"{duration(slices.slice_s)} as one slice, dataset[[...]]: {slices.factor:.0f} times as "
        "long",
        f"tried on {count(slices.n_batches, 'batch', 'batches')} in one process: both ways gave "
        "the same values",
        fix="""
# loader as it is: its batch_sampler makes the lists
DataLoader(dataset, sampler=loader.batch_sampler, batch_size=None)  # each batch is one slice
""",
    )
