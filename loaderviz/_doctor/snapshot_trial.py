"""Tries out what it costs that workers send their state with every batch.

torchdata's StatefulDataLoader asks its workers for a snapshot every ``snapshot_every_n_steps``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Any

from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.switch_trial import sure_gain
from loaderviz.loaders.copy_loader import copy_loader

SELDOM = 10**9  # steps from one snapshot to the next: none but at the end of the epoch
OFTEN = 100  # more steps than that between snapshots are seldom enough
MOST_BATCHES = 16  # of an epoch
LEAST_BATCHES = 5  # that are timed
PAIRS = 5
LEAST_PAIRS = 4
MOST_S = 5.0
DEAR_SHARE = 0.05  # of a batch's time
DEAR_S = 0.0005  # any state takes some 0.1 ms: a part of a batch where nothing is read


@dataclass(frozen=True)
class SnapshotTrial:
    """How long a batch took, in seconds: means of epochs that took turns."""

    every: int  # the loader's own snapshot_every_n_steps
    with_s: tuple[float, ...]  # with snapshots as often as that
    without_s: tuple[float, ...]  # with none

    @property
    def gain(self) -> float:
        """Part of the time that a batch need not take, 0 to 1; 0 if that may be chance."""
        return sure_gain(self.with_s, self.without_s)

    @property
    def snapshot_s(self) -> float:
        """What snapshots add to a step, in seconds."""
        return max(median(self.with_s) - median(self.without_s), 0.0)

    @property
    def is_dear(self) -> bool:
        """Whether fewer snapshots are worth while: enough of a batch's time, and of any time."""
        return self.gain >= DEAR_SHARE and self.snapshot_s >= DEAR_S


def try_snapshots(setup: Setup, until: float) -> SnapshotTrial | None:
    """Iterate the loader with and without snapshots in turns; only in a copy of the process.

    Args:
        setup: the loader.
        until: when to stop, in seconds of ``time.monotonic()``.

    Returns:
        None if the loader takes no snapshots, or seldom, or too few batches came.
    """
    every = setup.settings.get("snapshot_every_n_steps")
    if type(every) is not int or not 0 < every <= OFTEN or not setup.num_workers:
        return None
    until = min(until, time.monotonic() + MOST_S)
    times_s: dict[int, list[float]] = {every: [], SELDOM: []}
    for _ in range(PAIRS):
        pair = [_batch_s(setup, steps, until) for steps in times_s]
        if None in pair:
            break
        for steps, batch_s in zip(times_s, pair, strict=True):
            times_s[steps].append(batch_s or 0.0)
    if len(times_s[every]) < LEAST_PAIRS:
        return None
    return SnapshotTrial(every, tuple(times_s[every]), tuple(times_s[SELDOM]))


def _batch_s(setup: Setup, every: int, until: float) -> float | None:
    """The mean time from one batch to the next, once those made ahead are taken."""
    loader: Any = copy_loader(setup.loader, snapshot_every_n_steps=every, persistent_workers=False)
    times_s: list[float] = []
    batches = iter(loader)
    for _ in islice(batches, MOST_BATCHES):
        times_s.append(time.perf_counter())
        if time.monotonic() > until:
            return None
    ahead = setup.batches_in_flight
    times_s = times_s[min(ahead, len(times_s) // 3) :]
    if len(times_s) <= LEAST_BATCHES:
        return None
    return (times_s[-1] - times_s[0]) / (len(times_s) - 1)
