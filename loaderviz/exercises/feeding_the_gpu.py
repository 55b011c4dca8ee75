"""Exercises of notebook 08: a batch that pins itself, copies begun ahead, what a device needs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from unittest import mock

from torch.utils.data import DataLoader

from loaderviz.datasets import SleepingDataset
from loaderviz.exercises.hints import Check, Hints
from loaderviz.exercises.pinning import Part, Plain, as_with_a_gpu, to_plain
from loaderviz.exercises.simulated_device import WAYS, Fed, Speeds, feed
from loaderviz.figures import timeline
from loaderviz.figures.teaching.device_streams import Box, streams
from loaderviz.recorder import record
from loaderviz.text import duration, percent

N_BATCHES = 8
COPY_S, STEP_S = 0.02, 0.03

SPEEDS = Speeds(batch_mb=80, pageable_gb_per_s=4, pinned_gb_per_s=16, step_ms=20, load_ms=55)
BUSY = 0.95
MOST_WORKERS = 8

pin_hint = Hints(
    "`tensor.pin_memory()` changes nothing: it returns a pinned copy. Who keeps it?",
    "the batch holds two tensors.",
    "the loop gets what pin(batch) returns.",
)

ahead_hint = Hints(
    "when the loop gets batch 0, the copy of batch 1 should have begun: keep what copy() returned, "
    "take the next batch from the loader, begin its copy, and only then yield.",
    "one variable holds the copy begun before. In the first round there is none.",
    "when the loader has ended, one copy has been begun and not been yielded.",
)

cheapest_hint = Hints(
    "workers first: one needs 55 ms for a batch, and the model takes one every 20 ms.",
    "then the copies: 80 MB take 20 ms at 4 GB/s and 5 ms at 16 GB/s. In which of the ways does a "
    "step not wait for its copy?",
)


def pins(pin: Callable[[Any], Any]) -> Check:
    """Run torch's loader and pin thread on batches that pin themselves by the reader's function."""
    loader = DataLoader(
        SleepingDataset(4 * N_BATCHES, 0.003),
        batch_size=4,
        collate_fn=to_plain,
        num_workers=1,
        pin_memory=True,
    )
    failed: list[Exception] = []

    def told(batch: Any) -> Any:
        """An error is kept: raised in the pin thread, it would end the loop halfway."""
        try:
            return pin(batch)
        except Exception as error:
            failed.append(error)
            return batch

    method = mock.patch.object(Plain, "pin_memory", told, create=True)
    with as_with_a_gpu(), method, record(loader) as rec:
        came: list[Any] = list(loader)
    if failed:
        return Check(False, f"pin(batch) raised {type(failed[0]).__name__}: {failed[0]}")
    figure = timeline(rec.trace)
    if not all(isinstance(batch, Plain) for batch in came):
        kind = type(next(each for each in came if not isinstance(each, Plain))).__name__
        return Check(False, f"The loop got {kind} instead of the batch.", figure)
    for at, batch in enumerate(came):
        samples = list(range(4 * at, 4 * at + 4))
        expected = {"images": samples, "labels": [-each for each in samples]}
        for name, values in expected.items():
            part = getattr(batch, name, None)
            if not isinstance(part, Part) or part.values != values:
                return Check(False, f"batch.{name} is not what it was.", figure)
            if not part.is_pinned():
                return Check(False, f"Not yet: batch.{name} is not pinned.", figure)
    return Check(True, f"{len(came)} batches came, and all of each was pinned.", figure)


class _Bench:
    """A loop whose copies are made by a thread: `copy` begins one and returns at once."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.begun = 0
        self.copies: list[Box] = []
        self.steps: list[Box] = []
        self._copier = ThreadPoolExecutor(max_workers=1)

    def copy(self, batch: Any) -> Future[int]:
        self.begun += 1
        return self._copier.submit(self._copy, int(batch))

    def step(self, batch: int) -> None:
        self._work(self.steps, batch, STEP_S)

    def close(self) -> None:
        self._copier.shutdown(wait=True, cancel_futures=True)

    def _copy(self, batch: int) -> int:
        self._work(self.copies, batch, COPY_S)
        return batch

    def _work(self, log: list[Box], batch: int, seconds: float) -> None:
        start = time.perf_counter() - self.began
        time.sleep(seconds)
        log.append((batch, start, time.perf_counter() - self.began))


def copies_ahead(ahead: Callable[[Iterable[Any], Any], Iterable[Any]]) -> Check:
    """Run a loop on the reader's generator: is the next copy under way when a step begins?

    ``ahead(loader, copy)`` yields each batch once it is copied; ``copy(batch)`` begins a copy and
    returns a ``Future`` of it.
    """
    if list(ahead([], _no_copy)):
        return Check(False, "From an empty loader something came.")
    bench = _Bench()
    came: list[int] = []
    under_way: list[int] = []  # begun and not stepped on, when the loop gets a batch
    try:
        for batch in ahead(DataLoader(SleepingDataset(N_BATCHES, 0.002)), bench.copy):
            if type(batch) is not int:
                what = type(batch).__name__
                return Check(False, f"A {what} came: the loop wants the copied batch, .result().")
            under_way.append(bench.begun - len(came))
            came.append(batch)
            bench.step(batch)
    finally:
        bench.close()
    if not came:
        return Check(False, "No batch came: yield them.")
    figure = _measured(bench)
    if missing := [each for each in range(N_BATCHES) if each not in came]:
        return Check(False, f"Batch {missing[0]} never came.", figure)
    if came != list(range(N_BATCHES)):
        return Check(False, f"The batches came as {came}.", figure)
    if max(under_way) > 2:
        return Check(
            False,
            f"{max(under_way)} batches were on the device at once: its memory is dear, 2 will do.",
            figure,
        )
    if min(under_way[:-1]) < 2:
        return Check(False, "Not yet: a copy begins only when the step before it is done.", figure)
    return Check(True, "While the model steps on a batch, the next one is copied.", figure)


def _no_copy(batch: Any) -> Any:
    raise AssertionError("there is nothing to copy")


def _measured(bench: _Bench) -> Any:
    """The figure of the copies and steps as they were measured."""
    period_s = (bench.steps[-1][1] - bench.steps[0][1]) / max(1, len(bench.steps) - 1)
    return streams(
        {"copies": bench.copies, "steps": bench.steps},
        title=f"A step every {duration(period_s)}",
        numbers=f"measured, with a thread that copies · a copy takes {duration(COPY_S)}, a "
        f"step {duration(STEP_S)}",
    )


def cheapest(way: str, workers: int) -> Check:
    """Simulate the exercise's loop: do its steps fill the device's time, and with no more?"""
    if way not in WAYS:
        return Check(False, f"way={way!r} is none of {', '.join(WAYS)}.")
    if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
        return Check(False, f"workers={workers!r}: give a whole number, 1 to {MOST_WORKERS}.")
    share = _fed(way, workers).step_share
    figure = feed(way, speeds=SPEEDS, workers=workers).figure()
    needed = next(n for n in range(1, MOST_WORKERS + 1) if _is_busy(n))
    if share < BUSY:
        return Check(
            False, f"Not yet: in the long run steps take {percent(share)} of its time.", figure
        )
    if workers > needed:
        return Check(False, "The device is busy, but fewer workers would do.", figure)
    return Check(True, f"In the long run steps take {percent(share)} of the device's time.", figure)


def _is_busy(workers: int) -> bool:
    return any(_fed(way, workers).step_share >= BUSY for way in WAYS)


@functools.cache
def _fed(way: str, workers: int) -> Fed:
    return feed(way, n_batches=100, speeds=SPEEDS, workers=workers)
