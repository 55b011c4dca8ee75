"""Loops whose phases are known: each step and each reading time is given, queues follow from them.

Workers take batches in turn, each is asked for ``prefetch`` of them ahead, and a batch is asked for
when one is delivered, as torch does (torch/utils/data/dataloader.py, ``_try_put_index``).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderviz import Trace


def made_loop(
    steps_s: Sequence[Sequence[float]],
    reads_s: Any,
    *,
    workers: int = 2,
    prefetch: int = 2,
    start_s: float = 0.05,
    persistent: bool = False,
    batch_size: int = 8,
    clock_s: float = 0.0,
    loader: int = 0,
    length: int | None = None,
) -> Trace:
    """The trace of a loop with these steps, an epoch each.

    ``reads_s``: as the steps, or one number for all batches. ``start_s``: what it takes to start
    the workers. ``length``: of the loader, as ``meta`` has it.
    """
    columns: dict[str, list[float]] = {}
    processes: dict[str, list[float]] = {}
    now = clock_s
    for epoch, steps in enumerate(steps_s):
        n = len(steps)
        reads = [reads_s] * n if np.isscalar(reads_s) else reads_s[epoch]
        if workers and (epoch == 0 or not persistent):
            for worker in range(workers):
                row = {"worker": worker, "asked_s": now, "started_s": now + start_s / 2}
                for name, value in row.items():
                    processes.setdefault(name, []).append(value)
            now += start_s
        dispatched = np.full(n, now)
        free = [now] * max(1, workers)
        for batch, (step, read) in enumerate(zip(steps, reads, strict=True)):
            requested, worker = now, batch % workers if workers else 0
            if not workers:
                dispatched[batch] = now
            began = max(dispatched[batch], free[worker])
            ready = free[worker] = began + read
            delivered = max(requested, ready)
            if workers and batch + workers * prefetch < n:
                dispatched[batch + workers * prefetch] = delivered
            now = delivered + step
            row = {
                "epoch": epoch,
                "batch": batch,
                "worker": worker if workers else -1,
                "n_samples": batch_size,
                "dispatched_s": dispatched[batch],
                "started_s": began,
                "collate_s": ready,
                "ready_s": ready,
                "requested_s": requested,
                "delivered_s": delivered,
                "released_s": now,
            }
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
    about = {
        "dataset": "Made",
        "num_workers": workers,
        "prefetch_factor": prefetch if workers else None,
        "persistent_workers": persistent,
        "n_batches": length,
    }
    same = {"loader": loader}
    return Trace.from_columns(
        batches={**same, **columns, "state": "delivered"},
        workers={**same, **processes} if processes else None,
        meta={"loaders": [{}] * loader + [about]},
    )


def noisy(values: Any, spread: float, seed: int = 0) -> list[float]:
    """The same durations, each longer or shorter by about that part of itself."""
    draws = np.random.default_rng(seed).lognormal(0.0, spread, len(values))
    return list(np.asarray(values) * draws)
