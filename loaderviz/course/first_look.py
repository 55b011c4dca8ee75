"""Exercise of notebook 00: the fewest workers that keep the model busy."""

from __future__ import annotations

import math
import warnings

from torch.utils.data import DataLoader

from loaderviz._plot_timings import take
from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.exercises import Check, Hints, explains_errors, whole_number_between
from loaderviz.figures import timeline
from loaderviz.recorder import record
from loaderviz.text import count, percent

SAMPLE_S, STEP_S, BATCH_SIZE, N_BATCHES = 0.05, 0.06, 4, 16

hint = Hints(
    "one worker needs 4 x 0.05 s for a batch, and the model takes one every 0.06 s.",
    "two workers deliver a batch every 0.1 s: is that fast enough?",
    "divide the seconds per batch by the seconds per step, and round up.",
)


@explains_errors
def enough_workers(num_workers: int) -> Check:
    """Whether this is the fewest workers with which the model does not wait; records a loader."""
    whole_number_between("num_workers", num_workers, 0, 16)
    dataset = SleepingDataset(N_BATCHES * BATCH_SIZE, SAMPLE_S)
    with warnings.catch_warnings():
        # torch warns of more workers than CPUs; these only sleep, and need no CPU each.
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        loader = DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=num_workers)
    with record(loader) as rec:
        take(loader, STEP_S)
    batches = rec.trace.batches
    n_needed = math.ceil((batches["ready_s"] - batches["started_s"]).median() / STEP_S)
    waits = rec.trace.summary().later_wait_share
    if num_workers < n_needed:
        pace = f"the model waits {percent(waits)} of the time"
    else:
        pace = f"the model is busy {percent(1 - waits)} of the time"
    paced = f"With {count(num_workers, 'worker')}, after the first batch {pace}"
    figure = timeline(rec.trace, title=paced)
    if num_workers < n_needed:
        return Check(False, f"Not yet. {paced}.", figure)
    if num_workers > n_needed:
        return Check(False, f"{paced}, but fewer workers would do.", figure)
    return Check(True, f"{paced}, and no worker is spare.", figure)
