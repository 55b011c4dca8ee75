"""Exercises of notebook 03: enough prefetching, and workers that are started once."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._plot_timings import take
from loaderviz.datasets import SleepingDataset
from loaderviz.exercises.hints import Check, Hints
from loaderviz.figures import timeline
from loaderviz.recorder import Recording, record
from loaderviz.simulator import Costs, simulate

STEP_S, BATCH_SIZE, N_BATCHES, WORKERS = 0.06, 4, 20, 2
SLOW_BATCH = 14
MOST_PREFETCH = 16
SAMPLE_S = [0.01] * (BATCH_SIZE * N_BATCHES)
SAMPLE_S[BATCH_SIZE * SLOW_BATCH] = 0.39  # the whole batch: 0.42 s, seven steps

EPOCHS = 3

prefetch_hint = Hints(
    "while the slow batch is read, the model lives on the batches before it. How many steps of "
    "0.06 s does the slow batch take?",
    "batch 14 is sent out when the batch prefetch_factor x 2 before it is handed over. From then "
    "on the model has that many steps to take.",
    "0.42 s are 7 steps, so prefetch_factor x 2 must be at least 7.",
)

once_hint = Hints(
    "how many loaders does the function make, and how many times does each start its workers?",
    "persistent workers live as long as their loader: make it before the loop over the epochs.",
)


def enough_prefetch(prefetch_factor: int) -> Check:
    """Record the exercise's loader: does the slow batch make the model wait?"""
    if type(prefetch_factor) is not int or not 1 <= prefetch_factor <= MOST_PREFETCH:
        return Check(
            False,
            f"prefetch_factor={prefetch_factor!r}: give a whole number, 1 to {MOST_PREFETCH}.",
        )
    dataset = SleepingDataset(len(SAMPLE_S), SAMPLE_S)
    loader = DataLoader(
        dataset, batch_size=BATCH_SIZE, num_workers=WORKERS, prefetch_factor=prefetch_factor
    )
    with record(loader) as rec:
        take(loader, STEP_S)
    figure = timeline(rec.trace)
    if prefetch_factor < _needed():
        return Check(False, f"Not yet: the model waits for batch {SLOW_BATCH}.", figure)
    if prefetch_factor > _needed():
        return Check(False, "The model never waits, but fewer batches in memory would do.", figure)
    held = prefetch_factor * WORKERS
    return Check(True, f"{held} batches under way bridge the slow one, and no fewer do.", figure)


@functools.cache
def _needed() -> int:
    """The smallest factor with which nothing but the first batch is waited for, simulated."""
    costs = Costs(sample_s=SAMPLE_S, step_s=STEP_S, cores=WORKERS)
    for prefetch_factor in range(1, MOST_PREFETCH):
        summary = simulate(
            costs,
            num_workers=WORKERS,
            batch_size=BATCH_SIZE,
            n_batches=N_BATCHES,
            prefetch_factor=prefetch_factor,
        ).summary()
        if summary.wait_s - summary.first_wait_s < STEP_S / 10:
            return prefetch_factor
    raise AssertionError("no factor is enough")


def start_once(batches: Callable[[Any], Iterable[Any]]) -> Check:
    """Run the reader's three epochs: did they start two workers, once?

    ``batches(dataset)`` yields the batches of all epochs.
    """
    dataset = SleepingDataset(16, 0.02)
    seen: list[int] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        with Recording([], every_loader=True) as recording:
            for batch in batches(dataset):
                seen += batch.tolist()
                time.sleep(0.02)
    trace = recording.trace
    if trace.batches.empty:
        return Check(False, "No batch came: yield them from a DataLoader.")
    figure = timeline(trace)
    if sorted(seen) != sorted([*range(16)] * EPOCHS):
        return Check(
            False, f"{EPOCHS} epochs of 16 samples should give each {EPOCHS} times.", figure
        )
    started = len(trace.workers)
    if started == WORKERS:
        return Check(True, f"{started} workers, started once, served {EPOCHS} epochs.", figure)
    if started < WORKERS:
        return Check(False, f"{started} workers: the exercise wants {WORKERS} of them.", figure)
    return Check(
        False,
        f"Not yet: {started} worker processes were started, where {WORKERS} would do.",
        figure,
    )
