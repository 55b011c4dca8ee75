"""How late the main process comes back from a wait while workers keep every CPU busy.

Linux lets a process that has just got a CPU keep it for a slice, whoever wakes up meanwhile, and
then looks again at the next tick (kernel/sched/fair.c, ``protect_slice`` and ``entity_tick``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loaderviz.simulator.epoch_plan import Floats, Plan, Seconds

TICK_S = 4e-3  # 250 a second
SHORTEST_S, LEAST = 1e-4, 0.1  # and part of what is computed: of a wait that is seen to be one
MOST_SAMPLES = 1 << 14  # tell enough of what workers do


class Lateness(NamedTuple):
    """Mean seconds, where as many processes compute as there are CPUs, and where more do."""

    alone_s: float  # each has its CPU for itself, until it waits
    in_turns_s: float  # from tick to tick

    @classmethod
    def of(cls, plan: Plan, slice_s: float) -> Lateness:
        bursts = _bursts(plan)
        in_all = float(np.sum(bursts))
        if slice_s <= 0 or in_all <= 0:
            return cls(0.0, 0.0)
        ticks, rest = np.divmod(bursts, TICK_S)
        alone = _left(bursts, slice_s)
        in_turns = ticks * _left(TICK_S, slice_s) + _left(rest, slice_s)
        return cls(float(np.sum(alone)) / in_all, float(np.sum(in_turns)) / in_all)


def _left(bursts: Seconds, slice_s: float) -> Seconds:
    """What is left until the burst or the tick ends, summed up over all moments in the slice."""
    kept = np.minimum(bursts, slice_s)
    return np.asarray(kept * np.minimum(bursts, TICK_S) - kept**2 / 2, np.float64)


def _bursts(plan: Plan) -> Floats:
    """What is computed in one go: from one wait to the next, within a fetch."""
    n = np.asarray(plan.n, np.int64)
    n = n[np.cumsum(n) <= MOST_SAMPLES]
    n = n[n > 0]
    last = np.cumsum(n) - 1
    cpu_s = plan.cpu_s[: n.sum()].copy()
    cpu_s[last] += np.asarray(plan.collate_s)[np.asarray(plan.n) > 0][: len(n)]
    wait_s = plan.wait_s[: n.sum()]
    begins = (wait_s > SHORTEST_S) & (wait_s > LEAST * cpu_s)
    begins[last - n + 1] = True
    return np.asarray(np.bincount(np.cumsum(begins) - 1, cpu_s), np.float64)
