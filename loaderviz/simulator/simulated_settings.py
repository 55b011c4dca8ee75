"""What is simulated beside the costs: a loader, a dataset, epochs. Bad values are refused here."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from loaderviz.argument_checks import true_or_false, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings, refuse_without_workers
from loaderviz.simulator.typical_costs import check_start_method
from loaderviz.trace.check_trace import MOST_SAMPLES


@dataclass(frozen=True)
class SimulatedSettings:
    """A loader, what there is to load, and how often the loop goes through it."""

    loader: LoaderSettings
    batch_size: int
    n_samples: int  # of a map-style dataset
    shards: tuple[int, ...] | None = None  # samples of each worker's stream; None: map-style
    naive: bool = False  # every worker yields the same samples
    drop_last: bool = False
    start_method: str | None = None
    most_batches: int | None = None  # that the loop takes from an epoch; None: all
    epochs: int = 1


def checked(
    loader: LoaderSettings,
    *,
    batch_size: Any,
    n_batches: Any = None,
    n_samples: Any = None,
    kind: Any = "map",
    shards: Any = None,
    drop_last: Any = False,
    start_method: Any = None,
    epochs: Any = 1,
) -> SimulatedSettings:
    """The arguments of ``simulate``, checked.

    Raises:
        LoaderVizError: for a value that ``simulate`` cannot use.
    """
    n_in_batch = 1 if batch_size is None else whole_number("batch_size", batch_size, at_least=1)
    if not loader.num_workers:
        refuse_without_workers("start_method", start_method)
    check_start_method(start_method)
    if kind not in ("map", "iterable"):
        raise LoaderVizError(f"kind={kind!r}: a dataset is 'map' or 'iterable'")
    if kind == "map" and shards is not None:
        raise LoaderVizError(
            "shards are the streams of an iterable-style dataset: give kind='iterable' too"
        )
    if n_batches is not None:
        n_batches = whole_number("n_batches", n_batches, at_least=1)
    epochs = whole_number("epochs", epochs, at_least=1)
    n_total, most_batches = _dataset_size(n_batches, n_samples, shards, n_in_batch)
    streams = None
    if kind == "iterable":
        n_streams = max(loader.num_workers, 1)
        streams = (n_total,) * n_streams if shards is None else _shards(shards, n_streams)
    n_simulated = epochs * sum(streams or [n_total])
    if n_simulated > MOST_SAMPLES:
        raise LoaderVizError(
            f"{n_simulated:,} samples are too many to simulate: {MOST_SAMPLES:,} at most"
        )
    return SimulatedSettings(
        loader,
        batch_size=n_in_batch,
        n_samples=n_total,
        shards=streams,
        naive=shards is None,
        drop_last=true_or_false("drop_last", drop_last),
        start_method=start_method or (_default_start_method() if loader.num_workers else None),
        most_batches=most_batches,
        epochs=epochs,
    )


def _dataset_size(
    n_batches: int | None, n_samples: Any, shards: Any, size: int
) -> tuple[int, int | None]:
    """Samples of the dataset, and how many batches the loop takes at most."""
    if n_samples is not None and shards is not None:
        raise LoaderVizError(
            f"n_samples={n_samples!r} and shards={shards!r} both say how much there is: give one"
        )
    if n_samples is not None:
        return whole_number("n_samples", n_samples, at_least=1), n_batches
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
    sizes = tuple(whole_number(f"shards[{i}]", shard, at_least=0) for i, shard in enumerate(shards))
    if len(sizes) != n_streams:
        workers = "the main process, which loads," if n_streams == 1 else f"{n_streams} workers"
        raise LoaderVizError(f"{len(sizes)} shards for {workers}: give {n_streams}")
    return sizes


def _default_start_method() -> str:
    if sys.platform != "linux":
        return "spawn"
    return "fork" if sys.version_info < (3, 14) else "forkserver"
