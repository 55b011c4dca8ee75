"""An exercise of notebook 08: what keeps a device busy."""

from __future__ import annotations

import functools
from typing import Any

from loaderviz.course.exercises import Check, Hints, explains_errors, whole_number_between
from loaderviz.course.simulated_device import WAYS, Fed, feed, side_by_side
from loaderviz.text import percent

# As the hints have them; the rest as usual.
SPEEDS: dict[str, Any] = {
    "batch_mb": 80,
    "pageable_gb_per_s": 4,
    "pinned_gb_per_s": 16,
    "step_ms": 20,
    "load_ms": 55,
}
BUSY_SHARE = 0.95  # of the device's time in steps, from which it counts as busy
MOST_WORKERS = 8
SHOWN_S = 0.6  # of the run that the share is worked out from


cheapest_hint = Hints(
    "workers first: one needs 55 ms for a batch, and the model takes one every 20 ms.",
    "then the copies: 80 MB take 20 ms at 4 GB/s and 5 ms at 16 GB/s. In which way does a step not "
    "wait for its copy?",
)


@explains_errors
def cheapest(way: str, workers: int) -> Check:
    """Whether steps fill the device's time, with the fewest workers that can do it; simulated."""
    whole_number_between("workers", workers, 1, MOST_WORKERS)
    fed = _fed(way, workers)
    figure, step_share = side_by_side([fed], seconds=SHOWN_S), fed.step_share
    says = f"In the long run steps take {percent(step_share)} of the device's time."
    if step_share < BUSY_SHARE:
        return Check(False, f"Not yet. {says}", figure)
    if any(_fed(each, workers - 1).step_share >= BUSY_SHARE for each in WAYS if workers > 1):
        return Check(False, "The device is busy, but fewer workers would do.", figure)
    return Check(True, says, figure)


@functools.cache
def _fed(way: str, workers: int) -> Fed:
    return feed(way, n_batches=100, **SPEEDS, workers=workers)
