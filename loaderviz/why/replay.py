"""A loop once more, batch by batch, with something changed: how long would it have taken?

Nothing is drawn and nothing is fitted. Making a batch takes its worker what it took, and a step the
loop; what follows from these is worked out anew: when a worker is free, which batches are asked for
ahead, when one lies ready, how long the loop waits for it. So torch does it (torch/utils/data/
dataloader.py, ``_MultiProcessingDataLoaderIter``): ``prefetch_factor`` batches for each worker are
asked for when an epoch begins, and one more with each that the loop takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loaderviz.loader_settings import PREFETCH_FACTOR


@dataclass(frozen=True)
class Epoch:
    """One epoch of a loader. Arrays are of its batches in their order, (n,), in seconds.

    Attributes:
        rows: positions in ``trace.batches``.
        making_s: what making a batch took its worker.
        lag_s: from when it was asked for, and its worker free, until that began.
        handed_s: from when it lay ready, and the loop asked, until the loop had it.
        worker: that made it.
        boot_s: by worker, from when the loop began to start them until the first batch was begun;
            empty where they were kept from the epoch before.
    """

    rows: Any
    making_s: Any
    lag_s: Any
    handed_s: Any
    worker: Any
    boot_s: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Workers:
    """How a loader's batches are made: 0 workers is the main process."""

    n: int
    prefetch_factor: int = PREFETCH_FACTOR
    in_order: bool = True

    @property
    def n_ahead(self) -> int:
        """Batches that are asked for before the loop takes one."""
        return max(1, self.n * self.prefetch_factor)


@dataclass(frozen=True)
class Event:
    """What the loop does next, after ``own_s`` of its own.

    It takes a batch of this epoch of this loader; or, where ``lasts_s`` is given, it begins the
    epoch, or ends what the epoch leaves.
    """

    own_s: float
    loader: int
    epoch: int
    lasts_s: float | None = None
    begins: bool = False
    due_s: Mapping[str, float] = field(default_factory=dict)  # of ``lasts_s``, by cause


@dataclass(frozen=True)
class Loop:
    """What a loop did with its loaders, as far as that is to be replayed.

    ``recorded_s``: how long it really took, from the first event to the end of the last, which is
    at ``until_s`` of the trace.
    """

    workers: Mapping[int, Workers]
    epochs: Mapping[tuple[int, int], Epoch]
    events: tuple[Event, ...]

    recorded_s: float = 0.0
    until_s: float = 0.0

    def elapsed_s(self) -> float:
        """Seconds that it takes, with the loop's own."""
        at_s = 0.0
        making = {loader: _Making(how) for loader, how in self.workers.items()}
        for event in self.events:
            at_s += event.own_s
            of = making[event.loader]
            if event.lasts_s is None:
                if of.number != event.epoch:
                    of.begin(event.epoch, self.epochs[event.loader, event.epoch], at_s, 0.0)
                at_s = of.take(at_s)
                continue
            if event.begins:
                epoch = self.epochs[event.loader, event.epoch]
                of.begin(event.epoch, epoch, at_s, event.lasts_s)
            at_s += event.lasts_s
        return at_s


class _Making:
    """The workers of one loader while its loop goes on."""

    def __init__(self, how: Workers) -> None:
        self.how, self.number = how, -1
        self.free: dict[int, float] = {}

    def begin(self, number: int, epoch: Epoch, at_s: float, lasts_s: float) -> None:
        """At that moment, with the loop in ``iter()`` for as long."""
        self.number, self.taken, self.asked = number, 0, 0
        self.making, self.lag = epoch.making_s.tolist(), epoch.lag_s.tolist()
        self.handed = epoch.handed_s.tolist()
        self.ready: list[float] = []
        self.waiting: list[float] = []  # ready, and not taken; where any order will do
        if not self.how.n:
            return
        worker = np.asarray(epoch.worker)
        if worker.max(initial=-1) >= self.how.n or len(np.unique(worker)) != self.how.n:
            worker = np.arange(len(self.making)) % self.how.n
        self.worker = worker.tolist()
        for each, boot_s in epoch.boot_s.items():
            self.free[each] = at_s + boot_s
        for _ in range(self.how.n_ahead):
            self._ask(at_s if epoch.boot_s else at_s + lasts_s)

    def _ask(self, at_s: float) -> None:
        nth = self.asked
        if nth >= len(self.making):
            return
        self.asked += 1
        worker = self.worker[nth]
        ready_s = max(at_s, self.free.get(worker, 0.0)) + self.lag[nth] + self.making[nth]
        self.free[worker] = ready_s
        self.ready.append(ready_s)
        if not self.how.in_order:
            self.waiting.append(ready_s)

    def take(self, at_s: float) -> float:
        """When the loop has the next batch that it asks for at that moment."""
        nth = self.taken
        self.taken += 1
        if not self.how.n:
            return float(at_s + self.making[nth] + self.handed[nth])
        if self.how.in_order:
            ready_s = self.ready[nth]
        else:
            ready_s = min(self.waiting)
            self.waiting.remove(ready_s)
        at_s = max(at_s, ready_s) + self.handed[nth]
        self._ask(at_s)
        return at_s
