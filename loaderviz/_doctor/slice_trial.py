"""Tries out whether a batch of data in memory comes sooner as one slice than item by item."""

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

from loaderviz._doctor.loader_setup import Setup

MOST_BATCHES = 25
LEAST_BATCHES = 3  # of which each is read both ways
MOST_S = 1.0


@dataclass(frozen=True)
class SliceTrial:
    """How long the same batches took in one process, in seconds: medians."""

    n_batches: int
    n_samples: int  # of the largest of them
    items_s: float  # read item by item, and collated
    slice_s: float  # read as dataset[[...]]

    @property
    def factor(self) -> float:
        """How many times as long it takes item by item."""
        return self.items_s / max(self.slice_s, 1e-9)


def try_slices(setup: Setup, until: float) -> SliceTrial | None:
    """Read the first batches both ways in turns; only in a copy of the process.

    A list in brackets is what torch hands a dataset where its sampler yields lists and
    ``batch_size`` is None (torch/utils/data/_utils/fetch.py, ``_MapDatasetFetcher.fetch``).

    Args:
        setup: the loader.
        until: when to stop, in seconds of ``time.monotonic()``.

    Returns:
        None where it cannot be read as a slice, or a slice holds other values.
    """
    dataset, items_s, slice_s, most = setup.dataset, [], [], 0
    until = min(until, time.monotonic() + MOST_S)
    for keys in _batches_of_keys(setup):
        begun_s = time.perf_counter()
        by_item = default_collate([dataset[key] for key in keys])
        between_s = time.perf_counter()
        by_slice = default_convert(dataset[list(keys)])
        ended_s = time.perf_counter()
        if not _same(by_item, by_slice):
            return None
        items_s.append(between_s - begun_s)
        slice_s.append(ended_s - between_s)
        most = max(most, len(keys))
        if time.monotonic() > until:
            break
    if len(items_s) < LEAST_BATCHES:
        return None
    return SliceTrial(len(items_s), most, median(items_s), median(slice_s))


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
    if len(leaves) != len(others) or _names(batch) != _names(other):
        return False
    return all(map(_same_leaf, leaves, others))


def _names(batch: Any) -> list[Any]:
    return sorted(map(str, batch)) if isinstance(batch, dict) else []


def _same_leaf(leaf: Any, other: Any) -> bool:
    if not (isinstance(leaf, torch.Tensor) and isinstance(other, torch.Tensor)):
        return type(leaf) is type(other) and bool(leaf == other)
    if leaf.dtype != other.dtype or leaf.shape != other.shape:
        return False
    return np.array_equal(leaf, other, equal_nan=leaf.is_floating_point())
