"""What may be recorded, and how it is described in the trace.

A foreign loader is one that is none of torch's: whatever else a loop can iterate again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import GeneratorType
from typing import Any, cast

import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    _DatasetKind,
    default_collate,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torch.utils.data.distributed import DistributedSampler

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.batch_counts import known_length, sampler_of
from loaderviz.loaders.held_objects import attributes, walk
from loaderviz.loaders.start_method import start_method
from loaderviz.loaders.underlying_samples import underlying_samples
from loaderviz.own_errors import own_errors
from loaderviz.plain_value import truth, type_name, whole

FOREIGN = "foreign"  # the kind of a loader that is none of torch's
STANDS_FOR = "stands_for"  # an attribute of what stands in for an iterable (watched_iterable.py)
_IMMUTABLE, _HEAP = 1 << 8, 1 << 9  # of a type's flags (CPython, Include/object.h)
_HOLD_DATA = (str, bytes, list, tuple, dict, set, frozenset, range, torch.Tensor, Dataset, Sampler)


def dataloader_behind(loader_like: Any) -> DataLoader[Any] | None:
    """The DataLoader itself; None for a foreign loader, which may iterate DataLoaders inside.

    Accelerate's wrapper answers ``isinstance`` as the loader would, and iterates its
    ``base_dataloader`` (accelerate/data_loader.py, ``DataLoaderAdapter``).

    Raises:
        LoaderVizError: for an object that is neither.
    """
    loader: Any = loader_like
    while not issubclass(type(loader), DataLoader):
        if not isinstance(loader, DataLoader) or not hasattr(loader, "base_dataloader"):
            _check_that_it_is_a_loader(loader_like)
            return None
        loader = loader.base_dataloader
    return cast(DataLoader[Any], loader)


def _check_that_it_is_a_loader(loader_like: Any) -> None:
    """Raise LoaderVizError for what no loop takes its batches from, or cannot be watched."""
    shown = f"{type(loader_like).__name__} {loader_like!r:.60}"
    can_be_watched = _can_be_watched(loader_like)
    if isinstance(loader_like, Iterator) and not can_be_watched:
        raise LoaderVizError(
            f"record() takes a DataLoader, but got the iterator {shown}. Pass the loader that it "
            "comes from, and call iter() inside the block; or take the batches from "
            "loaderviz.watch(...), which records a loop over anything."
        )
    is_data = isinstance(loader_like, _HOLD_DATA) and not isinstance(loader_like, IterableDataset)
    if not isinstance(loader_like, Iterable) or is_data:
        raise LoaderVizError(
            f"record() takes a torch DataLoader, but got {shown}. "
            "Pass the loader that your loop iterates: record(DataLoader(dataset, ...))."
        )
    if not can_be_watched:
        raise LoaderVizError(
            f"record() takes a torch DataLoader, or a loader whose class is written in Python, but "
            f"got {shown}. Take the batches from loaderviz.watch(...), which records a loop over "
            "anything."
        )


def _can_be_watched(loader: Any) -> bool:
    """Whether ``recorder/foreign_hooks.py`` can watch it: its class can be changed."""
    cls = type(loader)
    changes = cls.__flags__ & (_IMMUTABLE | _HEAP) == _HEAP and cls.__weakrefoffset__ != 0
    return changes and not issubclass(cls, _BaseDataLoaderIter)


def foreign_loader_error(takes: str, loader: Any) -> LoaderVizError:
    """The error of a function that needs a DataLoader: what to do with this loader instead.

    ``takes`` says what it takes, as in "doctor() takes a torch DataLoader".
    """
    inside = [
        part.path for part in walk("loader", loader) if issubclass(type(part.value), DataLoader)
    ]
    if inside:
        way_out = f"It holds DataLoaders: pass {' or '.join(inside[:3])}."
    elif _can_be_watched(loader) and isinstance(loader, Iterable):
        way_out = (
            "It cannot run that with settings of its own. To see what a loop waits for: "
            "with record(loader) as rec, then print(rec.trace.summary())."
        )
    else:
        way_out = "Pass the loader that your loop iterates."
    return LoaderVizError(f"{takes}, but got {type(loader).__name__} {loader!r:.60}. {way_out}")


def _foreign_name(loader: Any) -> str:
    """What a foreign loader is called; one that ``watch`` made, by what it stands for."""
    named = attributes(loader).get(STANDS_FOR, loader)
    return str(named.__name__) if type(named) is GeneratorType else type_name(type(named))


def describe_foreign(loader: Any) -> dict[str, Any]:
    """The same for a loader whose own work is not seen."""
    name = _foreign_name(loader)
    return {"class": name, "dataset": name, "kind": FOREIGN, "start_method": None}


def describe(loader: Any) -> dict[str, Any]:
    """A loader's configuration by name; None where it is nothing that can be kept.

    Whatever the loader was given: values become those of their kind, none of the user's code runs,
    but where a subclass has made a property of an option, and nothing raises.
    """
    if not issubclass(type(loader), DataLoader):
        return describe_foreign(loader)
    num_workers = whole(_option(loader, "num_workers"))
    pin_memory = truth(_option(loader, "pin_memory"))
    context = _option(loader, "_DataLoader__multiprocessing_context")
    is_iterable = _option(loader, "_dataset_kind") == _DatasetKind.Iterable
    sampler = sampler_of(loader)
    return {
        "class": type_name(type(loader)),
        "dataset": type_name(type(_option(loader, "dataset"))),
        "kind": "iterable" if is_iterable else "map",
        "sampler": None if is_iterable or sampler is None else type_name(type(sampler)),
        "shuffled": type(sampler) is RandomSampler or _has(sampler, DistributedSampler, "shuffle"),
        "draws": _draws(sampler),
        "batch_size": whole(_option(loader, "batch_size")),
        "n_batches": known_length(loader),
        "num_workers": num_workers,
        "prefetch_factor": whole(_option(loader, "prefetch_factor")) if num_workers else None,
        "persistent_workers": truth(_option(loader, "persistent_workers")),
        "pin_memory": pin_memory,
        "pinned": bool(pin_memory and torch.accelerator.is_available()),
        "in_order": truth(_option(loader, "in_order")),
        "drop_last": truth(_option(loader, "drop_last")),
        "one_by_one": _reads_one_by_one(loader, is_iterable=is_iterable),
        "start_method": start_method(context) if num_workers else None,
        "underlying": None if is_iterable else _underlying(loader),
    }


def _underlying(loader: DataLoader[Any]) -> dict[str, Any] | None:
    """Which samples the loader's keys stand for; None where that could not be found out."""
    try:
        return underlying_samples(_option(loader, "dataset"))
    except own_errors(Exception):
        return None


def _reads_one_by_one(loader: DataLoader[Any], *, is_iterable: bool) -> bool:
    """Whether torch asks the dataset for sample after sample, and collates them itself.

    As ``reads_one_by_one`` of the recorder, by classes alone. Then a sampler of lists may ask for
    slices in place of them.
    """
    dataset = _option(loader, "dataset")
    if type(dataset) is Subset:
        dataset = vars(dataset).get("dataset")
    collates = _option(loader, "collate_fn") is default_collate
    return bool(
        not is_iterable
        and collates
        and _option(loader, "batch_sampler") is not None
        and not any("__getitems__" in vars(base) for base in type(dataset).__mro__)
    )


def _has(sampler: Any, cls: type, name: str) -> bool:
    """Whether this is one of torch's samplers, of which that was asked."""
    return type(sampler) is cls and vars(sampler).get(name) is True


def _draws(sampler: Any) -> str | None:
    """What of the dataset's keys one of torch's samplers was told to draw in an epoch.

    "again": with replacement; "some": by chance, as many as it was told; "subset": those that it
    was given. None: each key once, or nobody knows.
    """
    if any(_has(sampler, each, "replacement") for each in (RandomSampler, WeightedRandomSampler)):
        return "again"
    if type(sampler) is SubsetRandomSampler:
        return "subset"
    fewer = type(sampler) is RandomSampler and vars(sampler).get("_num_samples") is not None
    return "some" if fewer or type(sampler) is WeightedRandomSampler else None


def _option(loader: DataLoader[Any], name: str) -> Any:
    """What the loader has under that name; None where it has nothing, or will not say."""
    try:
        return getattr(loader, name, None)
    except own_errors(Exception, method=name):  # a property of a subclass
        return None
