"""Ranks that wait for each other: after each batch they add up their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from loaderviz.course.figures.device_streams import Streams, compared_streams
from loaderviz.figures.display import Figure
from loaderviz.simulator import Costs, simulate
from loaderviz.text import count
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


FOR_EVER = 2.0  # steps that one without end is drawn as: past the edge of the figure


def unequal_ends(samples: int, ranks: int, batch_size: int) -> Figure:
    """Draw how a training ends whose ranks may have unequal numbers of batches; worked out.

    The samples are dealt out in turn, and nobody pads or drops. A rank that has a batch more than
    another waits in ``all_reduce`` for one that has left.
    """
    shares = [len(range(rank, samples, ranks)) for rank in range(ranks)]
    n_batches = [math.ceil(share / batch_size) for share in shares]
    fewest = min(n_batches)
    waiting = [n > fewest for n in n_batches]
    steps = [(step, step, step + 0.92) for step in range(fewest)]
    without_end = (fewest, fewest, fewest + FOR_EVER)
    names = [
        f"rank {rank} · {count(share, 'sample')}, {count(n, 'batch', 'batches')}"
        for rank, (share, n) in enumerate(zip(shares, n_batches, strict=True))
    ]
    groups = [
        ("", Streams({name: [*steps, without_end] if waits else steps}))
        for name, waits in zip(names, waiting, strict=True)
    ]
    title = f"All ranks end after {count(fewest, 'step')}"
    if n := sum(waiting):
        wait, have = "waits" if n == 1 else "wait", "has" if ranks - n == 1 else "have"
        gone = _ranks(n, ranks - 1)
        title = f"{_ranks(0, n - 1).capitalize()} {wait} in vain: {gone} {have} no batch {fewest}"
    numbers = "worked out · a box is a step with its all_reduce"
    if any(waiting):
        numbers += ", and the last one never ends"
    return compared_streams(groups, title=title, numbers=numbers, x="steps", seconds=fewest + 1.5)


def _ranks(first: int, last: int) -> str:
    """These ranks in words: "rank 0", "ranks 0 and 1", "ranks 2 to 4"."""
    if first == last:
        return f"rank {first}"
    return f"ranks {first} {'and' if last == first + 1 else 'to'} {last}"
