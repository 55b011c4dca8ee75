"""What is simulated beside the costs: a loader, a dataset, epochs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from loaderviz.argument_checks import whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings


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


def dataset_size(n_batches: Any, n_samples: Any, shards: Any, size: int) -> tuple[int, int | None]:
    """Samples of the dataset, and how many batches the loop takes at most."""
    if n_batches is not None:
        n_batches = whole_number("n_batches", n_batches, at_least=1)
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


def streams_of(kind: Any, shards: Any, n_samples: int, n_streams: int) -> tuple[int, ...] | None:
    """Samples of each worker's stream; None for a map-style dataset."""
    if kind not in ("map", "iterable"):
        raise LoaderVizError(f"kind={kind!r}: a dataset is 'map' or 'iterable'")
    if kind == "map":
        if shards is not None:
            raise LoaderVizError(
                "shards are the streams of an iterable-style dataset: give kind='iterable' too"
            )
        return None
    return (n_samples,) * n_streams if shards is None else _shards(shards, n_streams)


def _shards(shards: Any, n_streams: int) -> tuple[int, ...]:
    if not isinstance(shards, Iterable) or isinstance(shards, str):
        raise LoaderVizError(f"shards={shards!r}: give the number of samples of each worker")
    sizes = tuple(whole_number(f"shards[{i}]", shard, at_least=0) for i, shard in enumerate(shards))
    if len(sizes) != n_streams:
        workers = "the main process, which loads," if n_streams == 1 else f"{n_streams} workers"
        raise LoaderVizError(f"{len(sizes)} shards for {workers}: give {n_streams}")
    return sizes
