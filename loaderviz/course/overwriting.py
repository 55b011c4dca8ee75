"""`fill_again`: a buffer that is filled anew while its copy is queued, run for real and drawn."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from loaderviz.course.figures.device_streams import Box, streams
from loaderviz.figures.display import Figure

STEP_S, COPY_S, PYTHON_S = 0.1, 0.02, 0.02


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
        time.sleep(STEP_S)
        return 0, start_s, now_s()

    def copy() -> Box:
        start_s, batch = now_s(), buffer[0]
        time.sleep(COPY_S)
        return batch, start_s, now_s()

    with ThreadPoolExecutor(max_workers=1) as stream:
        stepped, copied = stream.submit(step), stream.submit(copy)
        time.sleep(PYTHON_S)  # the loop's own work
        asked_s = now_s()
        if loop_waits:
            copied.result()
        filled_s = now_s()
        buffer[0] = 2
        brought = copied.result()
    end_s = max(brought[2], filled_s) + PYTHON_S
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
