"""Notebook 08: a buffer that is filled again too early; an exercise, what keeps a device busy."""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from loaderviz.course.exercises import Check, Hints, explains_errors, whole_number_between
from loaderviz.course.figures.device_streams import Box, streams
from loaderviz.course.simulated_device import WAYS, feed, side_by_side
from loaderviz.figures.display import Figure
from loaderviz.text import percent

COPY_S = 0.02

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


cheapest_hint = Hints(
    "workers first: one needs 55 ms for a batch, and the model takes one every 20 ms.",
    "then the copies: 80 MB take 20 ms at 4 GB/s and 5 ms at 16 GB/s. In which way does a step not "
    "wait for its copy?",
)


def fill_again(loop_waits: bool) -> Figure:
    """Draw what a copy brings that waits behind a step, of a buffer that is filled again.

    A thread works through steps and copies in the order of queueing, as a device does. The buffer
    holds batch 1 when the copy is queued, and then the loop puts batch 2 into it.

    Args:
        loop_waits: whether the loop waits for the copy before it fills the buffer again.
    """
    buffer = [1]
    began_s = time.perf_counter()

    def now_s() -> float:
        return time.perf_counter() - began_s

    def step() -> Box:
        start_s = now_s()
        time.sleep(0.1)
        return 0, start_s, now_s()

    def copy() -> Box:
        start_s, batch = now_s(), buffer[0]
        time.sleep(COPY_S)
        return batch, start_s, now_s()

    with ThreadPoolExecutor(max_workers=1) as stream:
        stepped, copied = stream.submit(step), stream.submit(copy)
        time.sleep(COPY_S)  # the loop's own work
        asked_s = now_s()
        if loop_waits:
            copied.result()
        filled_s = now_s()
        buffer[0] = 2
        brought = copied.result()
    end_s = max(brought[2], filled_s) + COPY_S
    tells = "the loop waited for it" if loop_waits else "the loop did not wait"
    return streams(
        {
            "the loop": [],
            "the buffer holds": [(1, 0.0, filled_s), (2, filled_s, end_s)],
            "the step before": [stepped.result()],
            "the copy brings": [brought],
        },
        held=[(1, asked_s, filled_s)] if loop_waits else [],
        title=f"Queued for batch 1, the copy brings batch {brought[0]}: {tells}",
        numbers="measured, a thread in place of the device · a number is a batch's",
    )


@explains_errors
def cheapest(way: str, workers: int) -> Check:
    """Whether steps fill the device's time, with the fewest workers that can do it; simulated."""
    whole_number_between("workers", workers, 1, MOST_WORKERS)
    figure = side_by_side([feed(way, **SPEEDS, workers=workers)])
    step_share = _step_share(way, workers)
    says = f"In the long run steps take {percent(step_share)} of the device's time."
    if step_share < BUSY_SHARE:
        return Check(False, f"Not yet. {says}", figure)
    if any(_step_share(each, workers - 1) >= BUSY_SHARE for each in WAYS if workers > 1):
        return Check(False, "The device is busy, but fewer workers would do.", figure)
    return Check(True, says, figure)


@functools.cache
def _step_share(way: str, workers: int) -> float:
    return feed(way, n_batches=100, **SPEEDS, workers=workers).step_share
