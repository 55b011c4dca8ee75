"""Exercise of notebook 00: the fewest workers that keep the model busy."""

from __future__ import annotations

import math

from loaderviz.course.exercises import Check, Hints, explains_errors, whole_number_between
from loaderviz.figures import timeline
from loaderviz.simulator import Costs, simulate
from loaderviz.text import count, percent

SAMPLE_S, STEP_S, BATCH_SIZE, N_BATCHES = 0.05, 0.06, 4, 16
N_NEEDED = math.ceil(BATCH_SIZE * SAMPLE_S / STEP_S)

hint = Hints(
    "one worker needs 4 x 0.05 s for a batch, and the model takes one every 0.06 s.",
    "two workers deliver a batch every 0.1 s: is that fast enough?",
    "divide the seconds per batch by the seconds per step, and round up.",
)


@explains_errors
def enough_workers(num_workers: int) -> Check:
    """Whether this is the fewest workers with which the model does not wait; simulated."""
    whole_number_between("num_workers", num_workers, 0, 16)
    costs = Costs(sample_s=SAMPLE_S, step_s=STEP_S)
    trace = simulate(costs, num_workers=num_workers, batch_size=BATCH_SIZE, n_batches=N_BATCHES)
    waits = percent(trace.summary().later_wait_share)
    pace = f"waits {waits} of the time" if num_workers < N_NEEDED else "never waits"
    paced = f"With {count(num_workers, 'worker')}, the model {pace} after the first batch"
    figure = timeline(trace, title=paced)
    if num_workers < N_NEEDED:
        return Check(False, f"Not yet. {paced}.", figure)
    if num_workers > N_NEEDED:
        return Check(False, f"{paced}, but fewer workers would do.", figure)
    return Check(True, f"{paced}, and no worker is spare.", figure)
