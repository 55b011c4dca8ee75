"""An exercise of notebook 03: workers that are started once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.figures import timeline
from loaderviz.recorder import Recording

WORKERS, EPOCHS = 2, 3

once_hint = Hints(
    "how many loaders does the function make, and how often does each start its workers?",
    "persistent workers live as long as their loader: make it before the loop over the epochs.",
)


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
