"""Notebook 08: a buffer that is filled again too early, and the exercises.

They are a batch that pins itself, copying ahead, and what keeps a device busy.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from unittest import mock

from torch.utils.data import DataLoader

from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.exercises import Check, Hints, explains_errors, whole_number_between
from loaderviz.course.figures.device_streams import Box, streams
from loaderviz.course.pinning import Part, Plain, as_with_a_gpu, to_plain
from loaderviz.course.simulated_device import WAYS, feed, side_by_side
from loaderviz.figures import timeline
from loaderviz.figures.display import Figure
from loaderviz.recorder import record
from loaderviz.text import duration, percent

N_BATCHES = 8
COPY_S, STEP_S = 0.02, 0.03

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

pin_hint = Hints(
    "`tensor.pin_memory()` does not change the tensor: it returns a pinned copy. Who keeps it?",
    "the batch holds two tensors.",
    "the loop gets what pin(batch) returns.",
)

ahead_hint = Hints(
    "when the loop gets batch 0, the copy of batch 1 should have begun: keep what copy() returned, "
    "take the next batch from the loader, begin its copy, and only then yield.",
    "one variable holds the copy that was begun in the round before. In the first it is None.",
    "when the loader has ended, the last copy has been begun, but not yielded yet.",
)

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
def pins(pin: Callable[[Any], Any]) -> Check:
    """Whether ``pin(batch)`` returns the batch with all of its parts pinned.

    Runs torch's loader and pin thread on batches whose ``pin_memory()`` is the reader's ``pin``.
    """
    loader = DataLoader(
        SleepingDataset(4 * N_BATCHES, 0.003),
        batch_size=4,
        collate_fn=to_plain,
        num_workers=1,
        pin_memory=True,
    )
    errors: list[Exception] = []

    def pin_or_keep_error(batch: Any) -> Any:
        """Raised in the pin thread, an error would end the loop halfway."""
        try:
            return pin(batch)
        except Exception as error:
            errors.append(error)
            return batch

    method = mock.patch.object(Plain, "pin_memory", pin_or_keep_error, create=True)
    with as_with_a_gpu(), method, record(loader) as rec:
        batches: list[Any] = list(loader)
    if errors:
        raise errors[0]
    figure = timeline(rec.trace)
    for number, batch in enumerate(batches):
        if not isinstance(batch, Plain):
            kind = type(batch).__name__
            return Check(False, f"The loop got {kind} instead of the batch.", figure)
        samples = list(range(4 * number, 4 * number + 4))
        expected = {"images": samples, "labels": [-sample for sample in samples]}
        for name, values in expected.items():
            part = getattr(batch, name)
            if not isinstance(part, Part) or part.values != values:
                return Check(False, f"batch.{name} is not what it was.", figure)
            if not part.is_pinned():
                return Check(False, f"Not yet: batch.{name} is not pinned.", figure)
    return Check(True, f"{len(batches)} batches came, each fully pinned.", figure)


class _CopyingThread:
    """Copies and steps of a loop, timed. A thread makes the copies: `copy` returns at once."""

    def __init__(self) -> None:
        self.n_begun = 0
        self.copies: list[Box] = []
        self.steps: list[Box] = []
        self._began_s = time.perf_counter()
        self._copier = ThreadPoolExecutor(max_workers=1)

    def copy(self, batch: Any) -> Future[int]:
        self.n_begun += 1
        return self._copier.submit(self._work, self.copies, int(batch), COPY_S)

    def step(self, batch: int) -> None:
        self._work(self.steps, batch, STEP_S)

    def close(self) -> None:
        self._copier.shutdown(wait=True, cancel_futures=True)

    def figure(self) -> Figure:
        period_s = (self.steps[-1][1] - self.steps[0][1]) / max(1, len(self.steps) - 1)
        return streams(
            {"copies": self.copies, "steps": self.steps},
            title=f"A step every {duration(period_s)}",
            numbers=f"measured, a thread makes the copies · a copy takes {duration(COPY_S)}, a "
            f"step {duration(STEP_S)}",
        )

    def _work(self, log: list[Box], batch: int, seconds: float) -> int:
        start_s = time.perf_counter() - self._began_s
        time.sleep(seconds)
        log.append((batch, start_s, time.perf_counter() - self._began_s))
        return batch


@explains_errors
def copies_ahead(ahead: Callable[[Iterable[Any], Any], Iterable[Any]]) -> Check:
    """Whether each step begins with the next batch's copy under way, and only that one.

    ``ahead(loader, copy)`` is the reader's generator: it yields each batch once it is copied.
    ``copy(batch)`` begins a copy and returns a ``Future`` of it.
    """
    thread = _CopyingThread()
    batches: list[int] = []
    n_on_device: list[int] = []  # when the loop gets a batch: it, and the copies begun ahead
    try:
        if list(ahead([], thread.copy)):
            return Check(False, "Something came from an empty loader.")
        for batch in ahead(DataLoader(SleepingDataset(N_BATCHES, 0.002)), thread.copy):
            if type(batch) is not int:
                kind = type(batch).__name__
                return Check(False, f"The loop got a {kind}, not the copied batch: its .result().")
            n_on_device.append(thread.n_begun - len(batches))
            batches.append(batch)
            thread.step(batch)
    finally:
        thread.close()
    if not batches:
        return Check(False, "No batch came: yield them.")
    figure = thread.figure()
    if missing := [number for number in range(N_BATCHES) if number not in batches]:
        return Check(False, f"Batch {missing[0]} never came.", figure)
    if batches != list(range(N_BATCHES)):
        return Check(False, f"The batches came in the order {batches}.", figure)
    if max(n_on_device) > 2:
        message = f"{max(n_on_device)} batches were on the device at once"
        return Check(False, f"{message}: its memory is scarce, and 2 are enough.", figure)
    if min(n_on_device[:-1]) < 2:
        return Check(False, "Not yet: a copy begins only when the step before it is done.", figure)
    return Check(True, "While the model steps on a batch, the next one is copied.", figure)


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
