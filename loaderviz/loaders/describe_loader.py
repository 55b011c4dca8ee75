"""What may be recorded, and how it is described in the trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Sampler

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.start_method import start_method

_HOLD_DATA = (str, bytes, list, tuple, dict, set, frozenset, range, torch.Tensor, Dataset, Sampler)


def dataloader_behind(loader_like: Any) -> DataLoader[Any] | None:
    """The DataLoader itself; None for an object that iterates DataLoaders of its own inside.

    Accelerate's wrapper answers ``isinstance`` as the loader would, and iterates its
    ``base_dataloader`` (accelerate/data_loader.py, ``DataLoaderAdapter``).

    Raises:
        LoaderVizError: for an object that is neither.
    """
    loader: Any = loader_like
    while not issubclass(type(loader), DataLoader):
        if not isinstance(loader, DataLoader) or not hasattr(loader, "base_dataloader"):
            _check_that_it_may_use_loaders(loader_like)
            return None
        loader = loader.base_dataloader
    return cast(DataLoader[Any], loader)


def _check_that_it_may_use_loaders(loader_like: Any) -> None:
    """Raise LoaderVizError for what cannot iterate DataLoaders inside: an iterator, or data."""
    shown = f"{type(loader_like).__name__} {loader_like!r:.60}"
    if isinstance(loader_like, Iterator):
        raise LoaderVizError(
            f"record() takes a DataLoader, but got the iterator {shown}. Pass the loader that it "
            "comes from, and call iter() inside the block."
        )
    if not isinstance(loader_like, Iterable) or isinstance(loader_like, _HOLD_DATA):
        raise LoaderVizError(
            f"record() takes a torch DataLoader, but got {shown}. "
            "Pass the loader that your loop iterates: record(DataLoader(dataset, ...))."
        )


def describe(loader: DataLoader[Any]) -> dict[str, Any]:
    """A loader's configuration by name, read without running any of the user's code."""
    num_workers = loader.num_workers
    return {
        "class": type(loader).__name__,
        "dataset": type(loader.dataset).__name__,
        "kind": "iterable" if isinstance(loader.dataset, IterableDataset) else "map",
        "shuffled": type(loader.sampler) is RandomSampler,
        "batch_size": loader.batch_size,
        "num_workers": num_workers,
        "prefetch_factor": loader.prefetch_factor if num_workers else None,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": bool(loader.pin_memory),
        "pinned": bool(loader.pin_memory and torch.accelerator.is_available()),
        "in_order": loader.in_order,
        "drop_last": loader.drop_last,
        "start_method": start_method(loader.multiprocessing_context) if num_workers else None,
    }
