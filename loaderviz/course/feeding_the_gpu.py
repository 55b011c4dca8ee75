"""Exercises of notebook 08: a batch that pins itself, copying ahead, what keeps a device busy."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from unittest import mock

from torch.utils.data import DataLoader

from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.figures.device_streams import Box, streams
from loaderviz.course.hints import Check, Hints
from loaderviz.course.pinning import Part, Plain, as_with_a_gpu, to_plain
from loaderviz.course.simulated_device import WAYS, Fed, Speeds, feed
from loaderviz.figures import timeline
from loaderviz.recorder import record
from loaderviz.text import duration, percent

N_BATCHES = 8
COPY_S, STEP_S = 0.02, 0.03

SPEEDS = Speeds(batch_mb=80, pageable_gb_per_s=4, pinned_gb_per_s=16, step_ms=20, load_ms=55)
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
        return Check(False, f"pin(batch) raised {type(errors[0]).__name__}: {errors[0]}")
    figure = timeline(rec.trace)
    for number, batch in enumerate(batches):
        if not isinstance(batch, Plain):
            kind = type(batch).__name__
            return Check(False, f"The loop got {kind} instead of the batch.", figure)
        samples = list(range(4 * number, 4 * number + 4))
        expected = {"images": samples, "labels": [-sample for sample in samples]}
        for name, values in expected.items():
            part = getattr(batch, name, None)
            if not isinstance(part, Part) or part.values != values:
                return Check(False, f"batch.{name} is not what it was.", figure)
            if not part.is_pinned():
                return Check(False, f"Not yet: batch.{name} is not pinned.", figure)
    return Check(True, f"{len(batches)} batches came, each fully pinned.", figure)


class _CopyingThread:
    """Copies and steps of a loop, timed. A thread makes the copies: `copy` returns at once."""

    def __init__(self) -> None:
        self.n_begun = 0
        self._began = time.perf_counter()
        self.copies: list[Box] = []
        self.steps: list[Box] = []
        self._copier = ThreadPoolExecutor(max_workers=1)

    def copy(self, batch: Any) -> Future[int]:
        self.n_begun += 1
        return self._copier.submit(self._copy, int(batch))

    def step(self, batch: int) -> None:
        self._work(self.steps, batch, STEP_S)

    def close(self) -> None:
        self._copier.shutdown(wait=True, cancel_futures=True)

    def _copy(self, batch: int) -> int:
        self._work(self.copies, batch, COPY_S)
        return batch

    def _work(self, log: list[Box], batch: int, seconds: float) -> None:
        start = time.perf_counter() - self._began
        time.sleep(seconds)
        log.append((batch, start, time.perf_counter() - self._began))


def copies_ahead(ahead: Callable[[Iterable[Any], Any], Iterable[Any]]) -> Check:
    """Whether each step begins with the next batch's copy under way, and only that one.

    ``ahead(loader, copy)`` is the reader's generator: it yields each batch once it is copied.
    ``copy(batch)`` begins a copy and returns a ``Future`` of it.
    """
    try:
        return _copies_ahead(ahead)
    except Exception as error:  # raised by the reader's code
        return Check(False, f"ahead raised {type(error).__name__}: {error}")


def _copies_ahead(ahead: Callable[[Iterable[Any], Any], Iterable[Any]]) -> Check:
    if list(ahead([], _no_copy)):
        return Check(False, "Something came from an empty loader.")
    thread = _CopyingThread()
    batches: list[int] = []
    n_on_device: list[int] = []  # when the loop gets a batch: it, and the copies begun ahead
    try:
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
    figure = _measured(thread)
    if missing := [number for number in range(N_BATCHES) if number not in batches]:
        return Check(False, f"Batch {missing[0]} never came.", figure)
    if batches != list(range(N_BATCHES)):
        return Check(False, f"The batches came in the order {batches}.", figure)
    if max(n_on_device) > 2:
        return Check(
            False,
            f"{max(n_on_device)} batches were on the device at once: its memory is scarce, and 2 "
            "are enough.",
            figure,
        )
    if min(n_on_device[:-1]) < 2:
        return Check(False, "Not yet: a copy begins only when the step before it is done.", figure)
    return Check(True, "While the model steps on a batch, the next one is copied.", figure)


def _no_copy(batch: Any) -> Any:
    raise AssertionError("there is nothing to copy")


def _measured(thread: _CopyingThread) -> Any:
    """The figure of the thread's copies and the loop's steps."""
    period_s = (thread.steps[-1][1] - thread.steps[0][1]) / max(1, len(thread.steps) - 1)
    return streams(
        {"copies": thread.copies, "steps": thread.steps},
        title=f"A step every {duration(period_s)}",
        numbers=f"measured, a thread makes the copies · a copy takes {duration(COPY_S)}, a "
        f"step {duration(STEP_S)}",
    )


def cheapest(way: str, workers: int) -> Check:
    """Whether steps fill the device's time, with the fewest workers that can do it; simulated."""
    if way not in WAYS:
        return Check(False, f"way={way!r} is none of {', '.join(WAYS)}.")
    if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
        return Check(False, f"workers={workers!r}: give a whole number, 1 to {MOST_WORKERS}.")
    step_share = _fed(way, workers).step_share
    figure = feed(way, speeds=SPEEDS, workers=workers).figure()
    needed = next(n for n in range(1, MOST_WORKERS + 1) if _is_busy(n))
    if step_share < BUSY_SHARE:
        message = f"Not yet: in the long run steps take {percent(step_share)} of the device's time."
        return Check(False, message, figure)
    if workers > needed:
        return Check(False, "The device is busy, but fewer workers would do.", figure)
    message = f"In the long run steps take {percent(step_share)} of the device's time."
    return Check(True, message, figure)


def _is_busy(workers: int) -> bool:
    return any(_fed(way, workers).step_share >= BUSY_SHARE for way in WAYS)


@functools.cache
def _fed(way: str, workers: int) -> Fed:
    return feed(way, n_batches=100, speeds=SPEEDS, workers=workers)
