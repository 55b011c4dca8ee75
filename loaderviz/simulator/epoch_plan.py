"""What is simulated, and the plan of one epoch: what there is to load, what each fetch costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from loaderviz.array_types import Floats, Ints, Seconds
from loaderviz.loader_settings import LoaderSettings
from loaderviz.simulator.typical_costs import RELEASE_BYTES_PER_S

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs


MOST_PARTS = 8  # of a fetch whose samples both wait and compute: more take longer to simulate
LEAST_S = 1e-9  # worth a part of its own: the unit of the clocks (time.monotonic_ns)


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


@dataclass(frozen=True)
class Plan:
    """The fetches of an epoch: lists and arrays of one value a fetch where nothing else is said.

    Those of an iterable-style dataset lie worker by worker. The last fetch of each worker is the
    one that finds the end: empty, or with ``drop_last`` perhaps short
    (torch/utils/data/_utils/fetch.py, ``_IterableDatasetFetcher.fetch``).
    """

    epoch: int
    base: list[int]  # where each worker's fetches begin, and where the last one's end
    n: list[int]  # samples of a fetch
    first: Ints  # where a fetch's samples begin in key, wait_s and cpu_s
    key: Ints  # of each sample
    wait_s: Floats  # of each sample
    cpu_s: Floats  # of each sample, by the clock
    waited_s: list[float]  # before each sample, by all of them, and in the end
    computed_s: list[float]
    threads: float  # that compute meanwhile
    fetch_wait_s: Floats
    fetch_cpu_s: Floats
    collate_s: list[float]
    send_s: float
    transport_s: list[float]
    take_s: list[float]
    pin_s: list[float]
    release_s: list[float]
    step_s: list[float]  # in the order of delivery

    def parts(self, fetch: int) -> Iterator[tuple[float, float]]:
        """How a worker reads the samples of a fetch: seconds that it waits, then computes, in turn.

        Samples that only wait or only compute are taken together. Of more than ``MOST_PARTS``
        samples neighbours are, too.
        """
        n, first = self.n[fetch], int(self.first[fetch])
        wait_s, cpu_s = float(self.fetch_wait_s[fetch]), float(self.fetch_cpu_s[fetch])
        if min(wait_s, cpu_s) <= LEAST_S:
            yield wait_s, cpu_s
            return
        n_parts = min(n, MOST_PARTS)
        bounds = [first + i * n // n_parts for i in range(n_parts + 1)]
        for begin, end in pairwise(bounds):
            yield (
                self.waited_s[end] - self.waited_s[begin],
                self.computed_s[end] - self.computed_s[begin],
            )


def plan_epoch(costs: Costs, settings: SimulatedSettings, epoch: int) -> Plan:
    """The plan of an epoch, by its number.

    Each epoch goes through the same samples, unless the costs are of several epochs of that length.
    """
    n, base, key, place = _fetches(settings)
    total = settings.n_samples or int(place.max(initial=-1)) + 1
    fetch = np.arange(len(n)) + epoch * len(n)
    sample = place + _samples_before(costs, epoch, total)
    read_s = _resampled(costs.sample_s, sample)
    cpu_s = read_s * _resampled(costs.cpu_share, sample)
    collate_s, transport_s, take_s, pin_s, step_s = (
        _resampled(getattr(costs, name), fetch)
        for name in ("collate_s", "transport_s", "take_s", "pin_s", "step_s")
    )
    n_bytes = n * costs.sample_bytes
    in_workers = settings.loader.num_workers > 0
    collate_s += n * costs.collate_sample_s
    collate_s += in_workers * (costs.share_s + n_bytes / costs.bytes_per_s)
    first = np.cumsum(n) - n
    waited_s, computed_s = (np.append(0.0, np.cumsum(each)) for each in (read_s - cpu_s, cpu_s))
    whole = n > 0  # an empty fetch finds the end, and returns nothing to collate
    if settings.shards is not None and settings.drop_last:
        whole &= n == settings.batch_size
    return Plan(
        epoch=epoch,
        base=base,
        n=n.tolist(),
        first=first,
        key=key,
        wait_s=read_s - cpu_s,
        cpu_s=cpu_s,
        threads=costs.threads,
        waited_s=waited_s.tolist(),
        computed_s=computed_s.tolist(),
        fetch_wait_s=waited_s[first + n] - waited_s[first],
        fetch_cpu_s=computed_s[first + n] - computed_s[first],
        collate_s=(whole * collate_s).tolist(),
        send_s=costs.send_s,
        transport_s=transport_s.tolist(),
        take_s=take_s.tolist(),
        pin_s=(whole * (pin_s + n_bytes / costs.bytes_per_s)).tolist(),
        release_s=(n_bytes / RELEASE_BYTES_PER_S * in_workers).tolist(),
        step_s=step_s.tolist(),
    )


def _samples_before(costs: Costs, epoch: int, total: int) -> int:
    """How many of ``costs.sample_s`` belong to the epochs before this one, of ``total`` samples."""
    n_epochs, rest = divmod(np.size(costs.sample_s), max(total, 1))
    return epoch * total if n_epochs > 1 and not rest else 0


def _resampled(values: Seconds, places: Ints) -> Floats:
    """The values at these places of an endless repetition of them, in seconds."""
    if isinstance(values, np.ndarray):
        return np.asarray(np.take(values, places, mode="wrap"), np.float64)
    return np.full(len(places), values)


def _fetches(settings: SimulatedSettings) -> tuple[Ints, list[int], Ints, Ints]:
    """The sizes of fetches, where each worker's begin, and the samples' keys and places.

    Keys of an iterable-style dataset count within a worker's stream. Places are in the dataset,
    where shards lie interleaved.
    """
    size, drop_last = settings.batch_size, settings.drop_last
    if settings.shards is None:
        n_full, remainder = divmod(settings.n_samples, size)
        sizes = [size] * n_full + ([remainder] if remainder and not drop_last else [])
        key = np.arange(sum(sizes), dtype=np.int64)
        return np.array(sizes, np.int64), [0], key, key
    sizes, base, keys, places = [], [0], [], []
    for worker, shard in enumerate(settings.shards):
        n_full, remainder = divmod(shard, size)
        sizes += [size] * n_full + ([remainder] if remainder else [])
        if not (remainder and drop_last):
            sizes.append(0)
        base.append(len(sizes))
        keys.append(np.arange(shard, dtype=np.int64))
        places.append(keys[-1] if settings.naive else keys[-1] * len(settings.shards) + worker)
    return np.array(sizes, np.int64), base, np.concatenate(keys), np.concatenate(places)
