"""Exercises of notebook 03: enough prefetching, and workers that are started once."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._plot_timings import take
from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.exercises import Check, Hints, explains_errors, whole_number_between
from loaderviz.figures import timeline
from loaderviz.recorder import Recording, record
from loaderviz.simulator import Costs, simulate

STEP_S, BATCH_SIZE, N_BATCHES, WORKERS = 0.06, 4, 20, 2
SLOW_BATCH = 14
MOST_PREFETCH = 16
SAMPLE_S = [0.01] * (BATCH_SIZE * N_BATCHES)
SAMPLE_S[BATCH_SIZE * SLOW_BATCH] = 0.39  # the whole batch takes 0.42 s, seven steps

EPOCHS = 3

prefetch_hint = Hints(
    "while the slow batch is read, the model lives on the batches before it. How many steps of "
    "0.06 s does the slow batch take?",
    "batch 14 is sent out when the model gets the batch that is prefetch_factor x 2 before it. "
    "From then on the model has that many steps to take.",
    "0.42 s are 7 steps, so prefetch_factor x 2 must be at least 7.",
)

once_hint = Hints(
    "how many loaders does the function make, and how often does each start its workers?",
    "persistent workers live as long as their loader: make it before the loop over the epochs.",
)


@explains_errors
def enough_prefetch(prefetch_factor: int) -> Check:
    """Whether this is the smallest factor with which the slow batch does not make the model wait.

    Records the exercise's loader.
    """
    whole_number_between("prefetch_factor", prefetch_factor, 1, MOST_PREFETCH)
    dataset = SleepingDataset(len(SAMPLE_S), SAMPLE_S)
    loader = DataLoader(
        dataset, batch_size=BATCH_SIZE, num_workers=WORKERS, prefetch_factor=prefetch_factor
    )
    with record(loader) as rec:
        take(loader, STEP_S)
    figure = timeline(rec.trace)
    if prefetch_factor < _smallest_factor():
        return Check(False, f"Not yet: the model waits for batch {SLOW_BATCH}.", figure)
    if prefetch_factor > _smallest_factor():
        return Check(False, "The model never waits, but fewer batches in memory would do.", figure)
    n_under_way = prefetch_factor * WORKERS
    message = f"{n_under_way} batches under way bridge the slow one, and fewer do not."
    return Check(True, message, figure)


@functools.cache
def _smallest_factor() -> int:
    """The smallest factor with which the model waits for the first batch only; simulated."""
    costs = Costs(sample_s=SAMPLE_S, step_s=STEP_S, cores=WORKERS)
    run = functools.partial(
        simulate, costs, num_workers=WORKERS, batch_size=BATCH_SIZE, n_batches=N_BATCHES
    )
    for prefetch_factor in range(1, MOST_PREFETCH):
        summary = run(prefetch_factor=prefetch_factor).summary()
        if summary.wait_s - summary.first_wait_s < STEP_S / 10:
            return prefetch_factor
    raise AssertionError("no factor is enough")


@explains_errors
def start_once(batches: Callable[[Any], Iterable[Any]]) -> Check:
    """Whether three epochs start two workers, once.

    ``batches(dataset)`` yields the batches of all epochs; it is run and recorded.
    """
    dataset = SleepingDataset(16, 0.02)
    samples: list[int] = []
    with Recording([], every_loader=True) as recording:
        for batch in batches(dataset):
            samples += batch.tolist()
            time.sleep(0.02)
    trace = recording.trace
    if trace.batches.empty:
        return Check(False, "No batch came: yield them from a DataLoader.")
    figure = timeline(trace)
    if sorted(samples) != sorted([*range(16)] * EPOCHS):
        message = f"{EPOCHS} epochs of 16 samples should deliver each {EPOCHS} times."
        return Check(False, message, figure)
    n_started = len(trace.workers)
    if n_started == WORKERS:
        return Check(True, f"{n_started} workers, started once, served {EPOCHS} epochs.", figure)
    if n_started < WORKERS:
        return Check(False, f"{n_started} workers: the exercise asks for {WORKERS}.", figure)
    message = f"{n_started} worker processes were started, where {WORKERS} would do."
    return Check(False, f"Not yet: {message}", figure)
