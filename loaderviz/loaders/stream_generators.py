"""The NumPy generators that a dataset, or the iterator over it, made in the process that reads it.

Found without running any of the user's code.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
from torch.utils.data._utils.fetch import _IterableDatasetFetcher

from loaderviz.loaders.held_objects import attributes, is_a
from loaderviz.loaders.random_state import held_generators

_FRAMES = 8  # between a collate_fn and the fetch that calls it


def numpy_generators(dataset: Any, iterator: Any) -> dict[str, np.random.Generator]:
    """By path, those that the dataset holds and those in the variables of its ``__iter__``."""
    paths = dict(held_generators(dataset=dataset))
    while iterator is not None:
        inner = None
        variables = attributes(iterator)
        if is_a(iterator, types.GeneratorType):
            variables = dict(iterator.gi_frame.f_locals) if iterator.gi_frame else {}
            inner = iterator.gi_yieldfrom
        for name, value in variables.items():
            paths.setdefault(f"{name} in __iter__", value)
        iterator = inner
    return {path: value for path, value in paths.items() if is_a(value, np.random.Generator)}


def stream_being_read() -> Any:
    """The iterator over an iterable-style dataset from which a batch is collated right now.

    For a ``collate_fn``: its caller is the fetch (torch/utils/data/_utils/fetch.py,
    ``_IterableDatasetFetcher.fetch``). None for a map-style dataset.
    """
    frame = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame.f_back is None:
            break
        frame = frame.f_back
        fetcher = frame.f_locals.get("self")
        if is_a(fetcher, _IterableDatasetFetcher):
            return getattr(fetcher, "dataset_iter", None)
    return None
