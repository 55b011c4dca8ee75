"""The settings of a simulated loader, as ``DataLoader`` names them; bad ones are refused here."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.simulator.costs import TYPICAL_START

PREFETCH_FACTOR: Final = 2  # torch's own


@dataclass(frozen=True)
class Setup:
    """The settings of a loader, checked; ``shards`` are None for a map-style dataset."""

    num_workers: int
    batch_size: int
    prefetch_factor: int
    in_order: bool
    pin_memory: bool
    persistent_workers: bool
    drop_last: bool
    start_method: str | None
    n_samples: int  # of a map-style dataset
    shards: tuple[int, ...] | None  # samples that each worker's stream yields
    naive: bool  # every worker yields the same samples
    most: int | None  # batches that the loop takes from an epoch
    epochs: int
    seed: int


def checked(
    *,
    num_workers: Any,
    batch_size: Any,
    n_batches: Any,
    n_samples: Any,
    prefetch_factor: Any,
    in_order: Any,
    pin_memory: Any,
    persistent_workers: Any,
    epochs: Any,
    start_method: Any,
    kind: Any,
    shards: Any,
    drop_last: Any,
    seed: Any,
) -> Setup:
    num_workers = _whole("num_workers", num_workers, 0)
    size = 1 if batch_size is None else _whole("batch_size", batch_size, 1)
    if num_workers == 0:
        _check_without_workers(prefetch_factor, persistent_workers, start_method)
    elif prefetch_factor is not None:
        prefetch_factor = _whole("prefetch_factor", prefetch_factor, 1)
    if start_method is not None and start_method not in TYPICAL_START:
        raise LoaderVizError(
            f"start_method={start_method!r} is not one of {', '.join(TYPICAL_START)}"
        )
    if kind not in ("map", "iterable"):
        raise LoaderVizError(f"kind={kind!r}: a dataset is 'map' or 'iterable'")
    if kind == "map" and shards is not None:
        raise LoaderVizError(
            "shards are the streams of an iterable-style dataset: give kind='iterable' too"
        )
    if n_batches is not None:
        n_batches = _whole("n_batches", n_batches, 1)
    total, most = _size(n_batches, n_samples, shards, size)
    streams = None
    if kind == "iterable":
        n_streams = max(num_workers, 1)
        streams = (total,) * n_streams if shards is None else _shards(shards, n_streams)
    return Setup(
        num_workers=num_workers,
        batch_size=size,
        prefetch_factor=prefetch_factor or PREFETCH_FACTOR,
        in_order=_flag("in_order", in_order),
        pin_memory=_flag("pin_memory", pin_memory),
        persistent_workers=_flag("persistent_workers", persistent_workers),
        drop_last=_flag("drop_last", drop_last),
        start_method=start_method or (_default_method() if num_workers else None),
        n_samples=total,
        shards=streams,
        naive=shards is None,
        most=most,
        epochs=_whole("epochs", epochs, 1),
        seed=_whole("seed", seed, 0),
    )


def _check_without_workers(prefetch_factor: Any, persistent: Any, start_method: Any) -> None:
    """What ``DataLoader.__init__`` refuses where ``num_workers`` is 0."""
    for name, value in (
        ("prefetch_factor", prefetch_factor),
        ("persistent_workers", persistent or None),
        ("start_method", start_method),
    ):
        if value is not None:
            raise LoaderVizError(
                f"{name}={value!r} with num_workers=0: torch refuses it, as there is no worker "
                f"that it would hold for. Leave it out, or give num_workers=1 or more."
            )


def _size(n_batches: int | None, n_samples: Any, shards: Any, size: int) -> tuple[int, int | None]:
    """Samples of the dataset, and how many batches the loop takes at most."""
    if n_samples is not None and shards is not None:
        raise LoaderVizError(
            f"n_samples={n_samples!r} and shards={shards!r} both say how much there is: give one"
        )
    if n_samples is not None:
        return _whole("n_samples", n_samples, 1), n_batches
    if shards is not None:
        return 0, n_batches
    if n_batches is None:
        raise LoaderVizError(
            "how much is there to load? Give n_batches, n_samples, or an iterable's shards"
        )
    return n_batches * size, None


def _shards(shards: Any, n_streams: int) -> tuple[int, ...]:
    if not isinstance(shards, Iterable) or isinstance(shards, str):
        raise LoaderVizError(f"shards={shards!r}: give the number of samples of each worker")
    sizes = tuple(_whole(f"shards[{i}]", each, 0) for i, each in enumerate(shards))
    if len(sizes) != n_streams:
        workers = "the main process, which loads," if n_streams == 1 else f"{n_streams} workers"
        raise LoaderVizError(f"{len(sizes)} shards for {workers}: give {n_streams}")
    return sizes


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise LoaderVizError(f"{name}={value!r}: give a whole number, {least} or more")
    return number


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise LoaderVizError(f"{name}={value!r}: give True or False")
    return bool(value)


def _default_method() -> str:
    if sys.platform != "linux":
        return "spawn"
    return "fork" if sys.version_info < (3, 14) else "forkserver"
