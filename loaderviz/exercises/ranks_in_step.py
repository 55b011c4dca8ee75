"""Simulated ranks that wait for each other: after each batch they add up their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from loaderviz.simulator import Costs, simulate
from loaderviz.trace import Trace


def simulate_in_step(costs: Sequence[Costs], *, n_batches: int, **settings: Any) -> Trace:
    """Simulate ranks that end each step together, as ``all_reduce`` makes them do.

    A step lasts until the slowest rank has done its own part of it.

    Args:
        costs: the costs of each rank; ``step_s`` is a number, the time of the rank's own part.
        n_batches: batches of each rank.
        settings: settings of each rank's loader, as in ``simulate``.

    Returns:
        One trace of all ranks; times are in seconds from their common start.

    Raises:
        LoaderVizError: for what ``simulate`` refuses.
    """
    own_steps_s = np.array([[rank_costs.step_s] for rank_costs in costs])
    steps_s = np.broadcast_to(own_steps_s, (len(costs), n_batches))
    # Each pass gets one more batch right, at least: a step changes only what comes after it.
    for _ in range(n_batches + 1):
        traces = [
            simulate(replace(rank_costs, step_s=rank_steps_s), n_batches=n_batches, **settings)
            for rank_costs, rank_steps_s in zip(costs, steps_s, strict=True)
        ]
        delivered_s = np.array([trace.batches["delivered_s"] for trace in traces])
        previous_s, steps_s = steps_s, (delivered_s + own_steps_s).max(axis=0) - delivered_s
        if np.allclose(previous_s, steps_s, rtol=0, atol=1e-9):
            break
    return _as_one(traces)


def _as_one(traces: list[Trace]) -> Trace:
    """One trace of all ranks, from a trace of each."""
    tables = {
        name: pd.concat(
            [getattr(trace, name).assign(rank=rank) for rank, trace in enumerate(traces)],
            ignore_index=True,
        )
        for name in ("batches", "samples", "workers", "spans")
    }
    return Trace(**tables, meta={**traces[0].meta, "world_size": len(traces)})
