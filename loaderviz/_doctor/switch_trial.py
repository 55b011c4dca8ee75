"""Tries out whether batches come sooner if the workers' threads take turns at the GIL more often.

A worker hands a batch over with helper threads: one pickles it, and another sends the file
descriptors of its tensors (torch/multiprocessing/reductions.py, ``reduce_storage``). Each needs the
GIL of the worker. While samples are read in Python, each turn costs ``sys.getswitchinterval()``.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._doctor.loader_setup import Setup
from loaderviz.loaders.copy_loader import copy_loader

if TYPE_CHECKING:
    from loaderviz.trace import Trace

QUICK_S = 1e-4  # in place of Python's 5 ms
LATE_S = 0.002  # that a batch takes to be handed over; where no thread waits it takes less
LATE_SHARE = 0.1  # of the time in which a batch is made
COMPUTES = 0.5  # of the time of a worker that reads samples
STEP_SHARE = 0.6  # of the time in which workers compute a batch: they have no time to spare
STRETCH = 6  # batches of each worker that are made with the same interval
LEAST_PAIRS = 4
ENOUGH_PAIRS = 12  # if they show a gain; beside other work on the CPUs half the runs need more
MOST_PAIRS = 48
SURE = 2.3  # standard deviations: one in a hundred by chance, at each of two looks
MOST_S = 6.0  # without the start of the workers


@dataclass(frozen=True)
class SwitchTrial:
    """How long a batch took, in seconds: means of stretches of batches that took turns.

    The longest of each stretch is left out.
    """

    step_s: float  # that the loop slept for each of them
    interval_s: float  # sys.getswitchinterval() of the workers
    usual_s: tuple[float, ...]  # with that switch interval
    quick_s: tuple[float, ...]  # each right after the one of the same place in ``usual_s``

    @property
    def gain(self) -> float:
        """Part of the time that a batch need not take, 0 to 1; 0 if that may be chance."""
        return sure_gain(self.usual_s, self.quick_s)

    @property
    def apparent_gain(self) -> float:
        """That part as the medians have it, by chance or not; negative where they are slower."""
        return 1 - median(self.quick_s) / median(self.usual_s)


def sure_gain(usual_s: Sequence[float], quick_s: Sequence[float]) -> float:
    """Part of the usual time that is saved, 0 to 1, or 0 if that may be chance.

    Both have as many times. Chance is judged by ranks, as by Mann and Whitney: machines are noisy
    now and then.
    """
    n = len(usual_s)
    quicker = sum(quick < usual for usual, quick in product(usual_s, quick_s))
    if quicker < n * n / 2 + SURE * n * math.sqrt((2 * n + 1) / 12):
        return 0.0
    return 1 - median(quick_s) / median(usual_s)


def computes_and_hands_over_late(trace: Trace) -> bool:
    """Whether the workers compute, in whatever thread, and batches take long to be handed over."""
    batches = trace.batches[trace.batches["worker"] >= 0]
    made_s = batches["ready_s"] - batches["started_s"] - batches["queued_s"].fillna(0)
    cpu_s = max(batches["process_cpu_s"].sum(), batches["cpu_s"].sum())
    late_s = batches["delivered_s"] - np.fmax(batches["ready_s"], batches["requested_s"])
    least_s = max(LATE_S, LATE_SHARE * made_s.mean())
    return bool(cpu_s >= COMPUTES * made_s.sum() and late_s.mean() >= least_s)


def try_quick_switches(setup: Setup, batch_s: float, until: float) -> SwitchTrial | None:
    """Iterate the loader with the usual and with a shorter switch interval in turns.

    Args:
        setup: the loader, which has workers.
        batch_s: how long a worker computes for a batch, which sets the pace of this loop.
        until: when to give up, in seconds of ``time.monotonic()``.

    Returns:
        None if too few batches came.
    """
    settings, step_s = setup.settings, STEP_SHARE * batch_s / setup.num_workers
    loader = copy_loader(
        setup.loader,
        collate_fn=_CollateInTurns(settings["collate_fn"]),
        persistent_workers=True,
        timeout=settings["timeout"] or max(until - time.monotonic(), 1),
    )
    return _trial(_stretches(loader, setup.num_workers, step_s, until), setup.num_workers, step_s)


@dataclass
class _Stretch:
    """Batches in a row that were made with the same switch interval."""

    interval_s: float
    batch_s: list[float]  # from each batch to the next

    def settled_s(self, num_workers: int) -> list[float]:
        """Without the batches that were on their way when the interval changed."""
        return self.batch_s[2 * num_workers :]


def _stretches(loader: Any, num_workers: int, step_s: float, until: float) -> list[_Stretch]:
    """All of the run; in the first one workers begin, and the last one was broken off.

    It stops early where a gain is sure, and where the interval stays the same: the workers have a
    short one anyway.
    """
    stretches: list[_Stretch] = []
    begun_s = before_s = None
    for n, (at_s, first, interval_s) in enumerate(_deliveries(loader, step_s)):
        begun_s = begun_s or at_s
        begins = not stretches or stretches[-1].interval_s != interval_s
        if begins:
            stretches.append(_Stretch(interval_s, []))
        elif before_s is not None and not first:
            stretches[-1].batch_s.append(at_s - before_s)
        before_s = at_s
        always_same = len(stretches) == 1 and n > 3 * STRETCH * num_workers
        late = at_s > min(until, begun_s + MOST_S)
        if always_same or late or len(stretches) > 2 * MOST_PAIRS + 2:
            break
        if begins and len(stretches) == 2 * ENOUGH_PAIRS + 3:
            trial = _trial(stretches, num_workers, step_s)
            if trial is not None and trial.gain:
                break
    return stretches


def _trial(stretches: list[_Stretch], num_workers: int, step_s: float) -> SwitchTrial | None:
    """What stretches that are long enough show; None if there are too few of them."""
    means = []
    for stretch in stretches[1:-1]:
        batch_s = stretch.settled_s(num_workers)
        if len(batch_s) > num_workers:
            # without the longest, in which the machine may have done something else
            means.append((stretch.interval_s, mean(sorted(batch_s)[:-1])))
    pairs = [(usual, quick) for usual, quick in pairwise(means) if quick[0] < usual[0]]
    if len(pairs) < LEAST_PAIRS:
        return None
    return SwitchTrial(
        step_s,
        pairs[0][0][0],
        tuple(usual_s for (_, usual_s), _ in pairs),
        tuple(quick_s for _, (_, quick_s) in pairs),
    )


def _deliveries(loader: Any, step_s: float) -> Iterator[tuple[float, bool, float]]:
    """Of each batch: when it came, whether as the first of its epoch, and its switch interval.

    It begins one epoch after the other, as long as there are any batches.
    """
    came = True
    while came:
        came = False
        for _batch, interval_s in loader:
            yield time.monotonic(), not came, interval_s
            came = True
            time.sleep(step_s)


class _CollateInTurns:
    """Replaces a ``collate_fn``: sets the switch interval of its worker for the next batch."""

    def __init__(self, collate_fn: Any) -> None:
        self._collate_fn = collate_fn
        self._calls = 0
        self._usual_s = 0.0

    def __call__(self, samples: Any) -> tuple[Any, float]:
        """Collate with the user's function; returns the batch, and the interval in seconds."""
        batch = self._collate_fn(samples)
        self._usual_s = self._usual_s or sys.getswitchinterval()
        quick = self._calls // STRETCH % 2 == 1
        interval_s = min(QUICK_S, self._usual_s) if quick else self._usual_s
        sys.setswitchinterval(interval_s)
        self._calls += 1
        return batch, interval_s
