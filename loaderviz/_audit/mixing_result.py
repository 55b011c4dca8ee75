"""The ``Mixing`` of an audited epoch, in numbers and in words. Holds data, draws nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._audit import mixing
from loaderviz._upward import ShownResult, ask_above
from loaderviz.errors import LoaderVizError
from loaderviz.text import count, percent, rate, worker_name

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz._audit.audit_result import Audit

WELL = 0.9  # a score: what a uniform shuffle of a few batches is sometimes below
BEYOND_CHANCE = 5.0  # standard deviations of a mean place under a shuffle
LEAST_DRIFT = 0.05  # of the source, by which a mean place has to be off


@dataclass(frozen=True, eq=False, repr=False)
class Mixing(ShownResult):
    """How well an epoch mixes its samples; ``print(mixing)`` says it in words, ``figure()`` draws.

    Attributes:
        score: 0: batches follow the order of the source; 1: as after a uniform shuffle. It compares
            how far in the source a sample lies from the nearest other one of its batch with the
            same distance after a uniform shuffle of these samples. NaN below 64 samples.
        buffer_size: how many samples a shuffle buffer holds that mixes as well; all of them at 1.
        neighbour_distance: that distance in samples of the source (geometric mean).
        shuffled_distance: the same after a uniform shuffle.
        window: how many samples are looked at together: a batch, or 16 where a batch is smaller.
        order: for each sample, as it was delivered, its place in the source from 0, int64.
        lane: for each of them the row of ``workers``.
        drift: a row for each tenth of the run: ``begins_at, samples, mean_place, noise``, shares of
            the run or the source from 0 to 1; a shuffle's mean place is 0.5, give or take ``noise``
            (a standard deviation).
        workers: a row for each worker: ``rank, worker, samples, share, ends_at``; the last is where
            in the run its last sample came, 0 to 1.
        shards: a row for each shard, where keys are tuples as (shard, index): ``shard, samples``.
        epoch: the one that this is about.
    """

    score: float
    buffer_size: float
    neighbour_distance: float
    shuffled_distance: float
    window: int
    order: Any
    lane: Any
    drift: pd.DataFrame
    workers: pd.DataFrame
    shards: pd.DataFrame
    epoch: int

    @property
    def verdict(self) -> str:
        """How well it is mixed, in one sentence without its full stop."""
        if np.isnan(self.score):
            return f"{count(len(self.order), 'sample')} are too few to tell how they are mixed"
        if self.buffer_size < self.window and self.score < WELL:
            return "Not mixed: batches follow the order of the source"
        if self.score >= WELL:
            drifts = ", but it drifts" if self.drifts else ""
            return f"Each batch is mixed as by a uniform shuffle ({self.score:.2f} of 1){drifts}"
        score = f"{self.score:.2f}" if self.score >= 0.005 else "under 0.01"
        as_by = count(float(f"{self.buffer_size:.2g}"), "sample")  # it is known no better
        return (
            f"Partly mixed: {score} of a uniform shuffle, as by a shuffle buffer of about {as_by}"
        )

    @property
    def numbers(self) -> str:
        """The numbers that the verdict rests on, in one line."""
        n = count(len(self.order), "sample")
        if np.isnan(self.score):
            return n
        return (
            f"{n} · in {self.window:,} in a row, the nearest to a sample is "
            f"{rate(self.neighbour_distance)} places away in the source (unshuffled 1, "
            f"uniform shuffle {rate(self.shuffled_distance)})"
        )

    @property
    def drifts(self) -> bool:
        """Whether the mean place of a tenth of the run is off by more than chance explains."""
        off = np.abs(self.drift["mean_place"] - 0.5)
        return bool((off > np.maximum(BEYOND_CHANCE * self.drift["noise"], LEAST_DRIFT)).any())

    @property
    def notes(self) -> tuple[str, ...]:
        """Drift, workers that end early and uneven shards, in a sentence each."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        if self.drifts:
            means = self.drift["mean_place"]
            yield (
                "The stream drifts: the mean place of a tenth of the run wanders between "
                f"{percent(means.min())} and {percent(means.max())} of the source; after a shuffle "
                "it stays near 50 %."
            )
        is_early = self.workers["ends_at"] < 1 - 1 / mixing.N_PARTS
        early = self.workers[is_early].sort_values("ends_at")
        if len(early) and len(self.order) >= mixing.LEAST_SAMPLES:
            name, share = self.lane_name(early.index[0]), percent(early["ends_at"].iloc[0])
            others = f", and {len(early) - 1} more" if len(early) > 1 else ""
            yield (
                f"Shares are uneven, and workers end before the run: {name} after {share}{others}. "
                "From then on batches come from the others alone."
            )
        sizes = self.shards["samples"]
        if len(sizes) > 1 and sizes.min() < sizes.max():
            sizes_text = f"{sizes.min():,} to {sizes.max():,} samples"
            yield f"{len(sizes):,} shards delivered {sizes_text} each."

    def lane_name(self, lane: int) -> str:
        """The name of a worker, by its row in ``workers``."""
        ranks, workers = (self.workers[name].to_numpy() for name in ("rank", "worker"))
        of_rank = f"rank {ranks[lane]} " if len(set(ranks)) > 1 else ""
        return of_rank + worker_name(int(workers[lane]))

    def figure(self, *, theme: Any = "light") -> Any:
        """Draw each sample's place in the source against its place in the run, by worker.

        Above a few thousand samples, how many lie where. ``theme`` is ``light`` or ``dark``.
        """
        return ask_above("figure of a mixing", self, theme)

    def __str__(self) -> str:
        return "\n".join([f"{self.verdict}.", self.numbers, *self.notes])


def mixing_of(audit: Audit, epoch: int) -> Mixing:
    """The ``Mixing`` of one epoch of an audit; raises as ``Audit.mixing`` does."""
    import pandas as pd

    if epoch not in set(audit.epochs["epoch"]):
        raise LoaderVizError(f"epoch={epoch!r}: this audit has epochs 0 to {len(audit.epochs) - 1}")
    keys, places = _keys_and_places(audit)
    rows = audit.deliveries["epoch"].to_numpy() == epoch
    if keys.dtype == object:
        rows &= places >= 0
    if not rows.any():
        raise LoaderVizError(f"epoch={epoch}: none of its samples has a known place in the source")
    deliveries = audit.deliveries
    if not rows.all():
        keys, places, deliveries = keys[rows], places[rows], deliveries[rows]
    order = mixing.order_of(places)
    workers, lane = mixing.workers_of(deliveries)
    nearness = mixing.nearness(order, _batch_size(deliveries))
    shards = mixing.shards_by_key(keys)
    shard_sizes = pd.Series([] if shards is None else shards, dtype=object).value_counts()
    return Mixing(
        score=nearness.score,
        buffer_size=mixing.equal_buffer(nearness.score, len(order)),
        neighbour_distance=nearness.distance,
        shuffled_distance=nearness.shuffled_distance,
        window=nearness.window,
        order=order,
        lane=lane,
        drift=mixing.drift_of(order),
        workers=workers,
        shards=pd.DataFrame({"shard": shard_sizes.index, "samples": shard_sizes.to_numpy()}),
        epoch=epoch,
    )


def _keys_and_places(audit: Audit) -> tuple[Any, Any]:
    if audit.keys is None:
        raise LoaderVizError(
            "where each sample lies in the source is not known: the dataset may have shuffled what "
            'it yields. Say so by a key, audit(loader, key=lambda sample: sample["index"]).mixing()'
        )
    places = mixing.places_by_key(audit.keys)
    if places is None:
        raise LoaderVizError(
            f"keys such as {audit.keys[0]!r:.80} do not sort: give a key that returns a number, a "
            "text, or a tuple of them such as (shard, index)"
        )
    return audit.keys, places


def _batch_size(deliveries: pd.DataFrame) -> int:
    """The median size of the batches."""
    starts = np.flatnonzero(deliveries["position"].to_numpy() == 0)
    return int(np.median(np.diff(np.append(starts, len(deliveries))))) if len(starts) else 1
