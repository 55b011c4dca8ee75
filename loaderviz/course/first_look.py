"""Exercise of notebook 00: the fewest workers that keep the model busy."""

from __future__ import annotations

import math
import time
import warnings

from torch.utils.data import DataLoader

from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.hints import Check, Hints
from loaderviz.figures import timeline
from loaderviz.recorder import record
from loaderviz.text import count, percent

SAMPLE_S, STEP_S, BATCH_SIZE, N_BATCHES = 0.05, 0.06, 4, 16
MOST_WORKERS = 16

hint = Hints(
    "one worker needs 4 x 0.05 s for a batch, and the model takes one every 0.06 s.",
    "two workers deliver a batch every 0.1 s: is that fast enough?",
    "divide the seconds per batch by the seconds per step, and round up.",
)


def enough_workers(num_workers: int) -> Check:
    """Whether this is the fewest workers with which the model does not wait; records a loader."""
    if type(num_workers) is not int or not 0 <= num_workers <= MOST_WORKERS:
        return Check(False, f"num_workers={num_workers!r}: give a whole number, 0 to 16.")
    dataset = SleepingDataset(N_BATCHES * BATCH_SIZE, SAMPLE_S)
    with warnings.catch_warnings():
        # torch warns of more workers than CPUs; these only sleep, and need no CPU each.
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        loader = DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=num_workers)
        with record(loader) as rec:
            for _ in loader:
                time.sleep(STEP_S)
    trace = rec.trace
    batch_s = (trace.batches["ready_s"] - trace.batches["started_s"]).median()
    n_needed = math.ceil(batch_s / STEP_S)
    waits = trace.summary().later_wait_share
    if num_workers < n_needed:
        paces = f"the model waits {percent(waits)} of the time"
    else:
        paces = f"the model is busy {percent(1 - waits)} of the time"
    paced = f"With {count(num_workers, 'worker')}, after the first batch {paces}"
    figure = timeline(trace)
    figure.layout.title.text = f"<b>{paced}</b>"
    if num_workers < n_needed:
        return Check(False, f"Not yet. {paced}.", figure)
    if num_workers > n_needed:
        return Check(False, f"{paced}, but fewer workers would do.", figure)
    return Check(True, f"{paced}, and no worker is spare.", figure)
