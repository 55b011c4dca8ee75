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
    """Ranks that all begin the next batch together, as ``all_reduce`` makes them.

    A step lasts until the last rank has done its own part of it.

    Args:
        costs: of each rank, with a number for ``step_s``: what it takes for itself.
        n_batches: of each rank.
        settings: of each rank's loader, as in ``simulate``.

    Returns:
        One trace; times are in seconds from the start of all ranks.

    Raises:
        LoaderVizError: for what ``simulate`` refuses.
    """
    own_s = np.array([[each.step_s] for each in costs])
    steps_s = np.broadcast_to(own_s, (len(costs), n_batches))
    # Each pass is right for one batch more, at least: a step changes only what comes after it.
    for _ in range(n_batches + 1):
        traces = [
            simulate(replace(each, step_s=steps), n_batches=n_batches, **settings)
            for each, steps in zip(costs, steps_s, strict=True)
        ]
        delivered_s = np.array([trace.batches["delivered_s"] for trace in traces])
        before_s, steps_s = steps_s, (delivered_s + own_s).max(axis=0) - delivered_s
        if np.allclose(before_s, steps_s, rtol=0, atol=1e-9):
            break
    return _as_one(traces)


def _as_one(traces: list[Trace]) -> Trace:
    tables = {
        name: pd.concat(
            [getattr(trace, name).assign(rank=rank) for rank, trace in enumerate(traces)],
            ignore_index=True,
        )
        for name in ("batches", "samples", "workers", "spans")
    }
    return Trace(**tables, meta={**traces[0].meta, "world_size": len(traces)})
