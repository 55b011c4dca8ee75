"""How late the main process goes on after a wait while workers keep every CPU busy.

Linux lets a process that has just got a CPU keep it for a slice, whichever process wakes up
meanwhile, and decides anew at the next tick (kernel/sched/fair.c, ``protect_slice`` and
``entity_tick``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loaderviz.simulator.epoch_plan import Floats, Plan, Seconds

TICK_S = 4e-3  # 250 ticks a second
SHORTEST_WAIT_S = 1e-4  # a wait ends a burst if it is longer than this,
SHORTEST_WAIT = 0.1  # and than this part of the computing before it
MOST_SAMPLES = 1 << 14  # tell enough of what workers do


class Lateness(NamedTuple):
    """Mean seconds of delay: with as many computing processes as CPUs, and with more."""

    alone_s: float  # each process has a CPU to itself until it waits
    in_turns_s: float  # processes take turns from tick to tick

    @classmethod
    def from_plan(cls, plan: Plan, slice_s: float) -> Lateness:
        """The delays that the workers of this plan cause, with slices of ``slice_s`` seconds."""
        bursts = _bursts(plan)
        total_s = float(np.sum(bursts))
        if slice_s <= 0 or total_s <= 0:
            return cls(0.0, 0.0)
        ticks, remainders = np.divmod(bursts, TICK_S)
        alone = _summed_delay(bursts, slice_s)
        in_turns = ticks * _summed_delay(TICK_S, slice_s) + _summed_delay(remainders, slice_s)
        return cls(float(np.sum(alone)) / total_s, float(np.sum(in_turns)) / total_s)


def _summed_delay(bursts: Seconds, slice_s: float) -> Seconds:
    """Time until the burst or the tick ends, integrated over the slice: in seconds squared."""
    in_slice_s = np.minimum(bursts, slice_s)
    return np.asarray(in_slice_s * np.minimum(bursts, TICK_S) - in_slice_s**2 / 2, np.float64)


def _bursts(plan: Plan) -> Floats:
    """Seconds of computing in one go: from one wait to the next, within a fetch."""
    n = np.asarray(plan.n, np.int64)
    n = n[np.cumsum(n) <= MOST_SAMPLES]
    n = n[n > 0]
    last = np.cumsum(n) - 1
    cpu_s = plan.cpu_s[: n.sum()].copy()
    cpu_s[last] += np.asarray(plan.collate_s)[np.asarray(plan.n) > 0][: len(n)]
    wait_s = plan.wait_s[: n.sum()]
    begins = (wait_s > SHORTEST_WAIT_S) & (wait_s > SHORTEST_WAIT * cpu_s)
    begins[last - n + 1] = True
    return np.asarray(np.bincount(np.cumsum(begins) - 1, cpu_s), np.float64)
