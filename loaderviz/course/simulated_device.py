"""`feed`: a training loop that feeds a device, computed by simple rules from stated self.

The rules and their sources:

- The loop queues work. The device does the work of one stream in the order of queueing, and the
  work of different streams side by side ("Asynchronous execution", torch's notes on CUDA
  semantics).
- A copy from pageable memory waits until its stream is done, and holds up the loop until the copy
  is done ("API synchronization behavior", CUDA runtime API; CUDA *may* be better than that).
- ``.to(device)`` without ``non_blocking`` holds up the loop until its stream is done, also from
  pinned memory (``copy_kernel_cuda``, aten/src/ATen/native/cuda/Copy.cu).
- There is one copy at a time, beside the steps: the device has a copy engine.

Left out: the time of a launch, the limited length of a real queue, and that copies and steps share
the memory's bandwidth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.argument_checks import number, whole_number
from loaderviz.course.figures.device_streams import Box, Streams, compared_streams
from loaderviz.errors import LoaderVizError
from loaderviz.figures.display import Figure
from loaderviz.text import percent
from loaderviz.trace import Trace

WAYS = ("pageable", "pinned", "pinned, non_blocking", "copied ahead")
PREFETCH = 2  # torch's default prefetch_factor
SAMPLES = 4  # in a batch


@dataclass(frozen=True)
class Fed:
    """What the loop, the copies and the steps did. Boxes are (batch, start, end) in seconds.

    Attributes:
        way: one of ``WAYS``.
        trace: what ``record`` would have recorded.
        waits: when the loop waited in ``next()``.
        held: when a copy or ``.item()`` held up the loop.
        copies: when the device copied.
        steps: when the device worked on steps.
    """

    way: str
    trace: Trace
    waits: list[Box]
    held: list[Box]
    copies: list[Box]
    steps: list[Box]

    @property
    def step_share(self) -> float:
        """The share of the device's time in steps, from the first step to the end of the last."""
        span_s = self.steps[-1][2] - self.steps[0][1]
        return sum(end - start for _, start, end in self.steps) / span_s

    @property
    def batch_s(self) -> float:
        """Seconds from one step to the next, on average."""
        return (self.steps[-1][1] - self.steps[0][1]) / (len(self.steps) - 1)

    @property
    def verdict(self) -> str:
        """One line: the share of the time in which the GPU computes."""
        return f"{self.way}: the GPU computes {percent(self.step_share)} of the time"

    @property
    def overlaps(self) -> bool:
        """Whether a copy runs while a step does."""
        return any(
            start < step_end and step_start < end
            for _, start, end in self.copies
            for _, step_start, step_end in self.steps
        )


def side_by_side(feds: Sequence[Fed], *, seconds: float | None = None) -> Figure:
    """The timelines of loops, one above the other, on one axis with one zero.

    Each has a lane for the loop, one for the copies and one for the steps. The title names the
    fastest and the slowest.

    Args:
        feds: one or more loops.
        seconds: how much of it to show; None shows all.
    """
    slow, fast = (choose(feds, key=lambda fed: fed.batch_s) for choose in (max, min))
    every_ms = [f"{1000 * fed.batch_s:.0f} ms" for fed in (fast, slow)]
    title = f"{fast.way}: a step every {every_ms[0]}; {slow.way}: every {every_ms[1]}"
    if every_ms[0] == every_ms[1]:
        title = f"A step every {every_ms[0]}"
    groups = [
        (
            f"{fed.verdict}, a step every {1000 * fed.batch_s:.0f} ms",
            Streams(
                {"the loop": [], "copies": fed.copies, "steps": fed.steps}, fed.waits, fed.held
            ),
        )
        for fed in feds
    ]
    return compared_streams(
        groups,
        title=title,
        numbers="simulated · one axis · the loop waits, grey: for the device, hatched: for a batch "
        "· gaps in copies and steps: idle",
        seconds=seconds,
    )


def feed(way: str, *, n_batches: int = 16, item: bool = False, **speeds: Any) -> Fed:
    """Compute what a loop does that feeds its device in one of the four ``WAYS``.

    >>> feed("copied ahead", batch_mb=64, step_ms=20)

    Args:
        way: one of ``WAYS``; "pageable" and "pinned" are ``batch.to(device)`` from such memory.
        n_batches: number of batches, 2 or more.
        item: whether the loop asks for the loss after each step, as ``loss.item()`` does.
        speeds: how long the work takes, where it differs from the defaults: ``batch_mb`` (64),
            ``pageable_gb_per_s`` (4), ``pinned_gb_per_s`` (16) and ``pinning_gb_per_s`` (8), with
            GB of 1e9 bytes; ``load_ms`` (30) of a worker, ``step_ms`` (20) of the device and
            ``python_ms`` (3) of the loop itself, for a batch; ``workers`` (2).

    Raises:
        LoaderVizError: for an unknown way, fewer than 2 batches, a negative or infinite number, a
            speed of 0, or a number of workers that is not whole.
    """
    if way not in WAYS:
        raise LoaderVizError(f"way={way!r} is not one of {', '.join(map(repr, WAYS))}")
    whole_number("n_batches", n_batches, at_least=2)
    loop = _Loop(way, n_batches, item, **speeds)
    loop.run()
    return Fed(way, loop.trace(), loop.waits, loop.held, loop.copies, loop.steps)


@dataclass
class _Loop:
    """The simulation of one loop; all times are in seconds from its start."""

    way: str
    n_batches: int
    item: bool
    batch_mb: float = 64
    pageable_gb_per_s: float = 4
    pinned_gb_per_s: float = 16
    pinning_gb_per_s: float = 8  # of the pin thread, from memory to memory
    load_ms: float = 30  # that one worker takes for a batch
    step_ms: float = 20
    python_ms: float = 3  # that the loop itself takes before it queues a step
    workers: int = 2

    def __post_init__(self) -> None:
        whole_number("workers", self.workers, at_least=1)
        for name, value in vars(self).items():
            if name.endswith(("_mb", "_ms", "_per_s")):
                number(name, value)
            if name.endswith("_per_s") and not value:
                raise LoaderVizError(f"{name}={value!r}: give a speed above 0")
        self.now_s = 0.0  # where the loop is
        self.stream_free_s = 0.0  # when all that is queued in the steps' stream will be done
        self.copier_free_s = 0.0  # when the copy engine will be done
        self.pin_thread_free_s = 0.0
        self.worker_free_s = [0.0] * self.workers
        names = "dispatched started ready pinned requested delivered released device_start "
        self.columns: dict[str, list[float]] = {
            f"{name}_s": [] for name in (names + "device_end").split()
        }
        self.waits: list[Box] = []
        self.held: list[Box] = []
        self.copies: list[Box] = []
        self.steps: list[Box] = []
        self.spans: list[tuple[str, float, float, float]] = []

    def run(self) -> None:
        """Go through all batches."""
        for _ in range(PREFETCH * self.workers):
            self._dispatch()
        ahead = self.way == "copied ahead"
        for batch in range(self.n_batches):
            self._next(batch)
            if ahead:
                self._copy(batch, beside=True)
                if batch:
                    self._step(batch - 1)
            else:
                self._copy(batch)
                self._step(batch)
            self.columns["released_s"].append(self.now_s)
            self.columns["device_end_s"].append(max(self.now_s, self.stream_free_s))
        if ahead:
            self._step(self.n_batches - 1)

    def _dispatch(self) -> None:
        """Send the next batch to the next worker, and from there to the pin thread."""
        columns = self.columns
        batch = len(columns["dispatched_s"])
        if batch >= self.n_batches:
            return
        worker = batch % self.workers
        started_s = max(self.now_s, self.worker_free_s[worker])
        ready_s = self.worker_free_s[worker] = started_s + self.load_ms / 1000
        pinned_s = float("nan")
        if self.way != "pageable":
            pinning_s = self.batch_mb / 1000 / self.pinning_gb_per_s
            pinned_s = self.pin_thread_free_s = max(ready_s, self.pin_thread_free_s) + pinning_s
        columns["dispatched_s"].append(self.now_s)
        columns["started_s"].append(started_s)
        columns["ready_s"].append(ready_s)
        columns["pinned_s"].append(pinned_s)

    def _next(self, batch: int) -> None:
        """Wait for the batch, as ``next()`` does, and send out another."""
        requested_s = self.now_s
        available_s = self.columns["ready_s" if self.way == "pageable" else "pinned_s"][batch]
        self.now_s = max(self.now_s, available_s)
        self.waits.append((batch, requested_s, self.now_s))
        self._dispatch()
        self.columns["requested_s"].append(requested_s)
        self.columns["delivered_s"].append(self.now_s)
        self.columns["device_start_s"].append(max(self.now_s, self.stream_free_s))

    def _copy(self, batch: int, *, beside: bool = False) -> None:
        """Queue a copy in the steps' stream or, with ``beside``, in a second stream."""
        start_s = max(self.now_s, self.copier_free_s)
        if not beside:
            start_s = max(start_s, self.stream_free_s)
        gb_per_s = self.pageable_gb_per_s if self.way == "pageable" else self.pinned_gb_per_s
        end_s = start_s + self.batch_mb / 1000 / gb_per_s
        self.copies.append((batch, start_s, end_s))
        self.copier_free_s = end_s
        if not beside:
            self.stream_free_s = end_s
        called_s = self.now_s
        if self.way in ("pageable", "pinned"):
            self._hold(batch, end_s)
        self.spans.append(("copy", called_s, self.now_s, end_s - start_s))

    def _step(self, batch: int) -> None:
        """Queue a step. It waits for its own batch's copy, but not for a copy queued since."""
        called_s, copied_s = self.now_s, self.copies[batch][2]
        self.now_s += self.python_ms / 1000
        start_s = max(self.now_s, self.stream_free_s, copied_s)
        self.stream_free_s = start_s + self.step_ms / 1000
        self.steps.append((batch, start_s, self.stream_free_s))
        if self.item:
            self._hold(batch, self.stream_free_s)
        self.spans.append(("step", called_s, self.now_s, self.stream_free_s - start_s))

    def _hold(self, batch: int, until_s: float) -> None:
        """Hold up the loop until then."""
        if until_s > self.now_s:
            self.held.append((batch, self.now_s, until_s))
            self.now_s = until_s

    def trace(self) -> Trace:
        """The run as a trace; a batch's samples take equal parts of its time."""
        batch, position = (index.ravel() for index in np.indices((self.n_batches, SAMPLES)))
        workers = np.arange(self.n_batches) % self.workers
        started_s, ready_s = (np.array(self.columns[f"{name}_s"]) for name in ("started", "ready"))
        sample_s = (ready_s - started_s)[batch] / SAMPLES
        names = ("name", "start_s", "end_s", "device_s")
        return Trace.from_columns(
            batches={
                **self.columns,
                "collate_s": ready_s,
                "batch": range(self.n_batches),
                "worker": workers,
                "n_samples": SAMPLES,
                "cpu_s": 0.0,  # loading here is waiting
                "n_bytes": float(self.batch_mb * 1e6),
                "state": "delivered",
            },
            samples={
                "batch": batch,
                "worker": workers[batch],
                "position": position,
                "key": SAMPLES * batch + position,
                "start_s": started_s[batch] + sample_s * position,
                "end_s": ready_s[batch] - sample_s * (SAMPLES - 1 - position),
            },
            spans=dict(zip(names, map(list, zip(*self.spans, strict=True)), strict=True)),
            meta={"simulated": True, "complete": True, "left_out": 0},
        )
