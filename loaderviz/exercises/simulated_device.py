"""`feed`: a training loop that feeds a device, worked out by simple rules from stated speeds.

The rules, and whose they are:

- The loop queues work; the device does what is in one stream in the order of queueing, and work of
  different streams side by side ("Asynchronous execution", torch's notes on CUDA semantics).
- A copy from pageable memory waits until its stream is done, and holds up the loop until it has
  been made ("API synchronization behavior", CUDA runtime API; CUDA *may* be better than that).
- ``.to(device)`` without ``non_blocking`` holds up the loop until its stream is done, from pinned
  memory too (``copy_kernel_cuda``, aten/src/ATen/native/cuda/Copy.cu).
- One copy at a time, beside the steps: the device has a copy engine.

Left out: the time of a launch, that a real queue is finite, that copies and steps share memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.figures.display import Figure
from loaderviz.figures.teaching.device_streams import Box, streams
from loaderviz.text import percent
from loaderviz.trace import Trace

WAYS = ("pageable", "pinned", "pinned, non_blocking", "copied ahead")
PREFETCH = 2  # torch's own default
SAMPLES = 4  # of a batch


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """What the work takes. Times are ms for a batch, speeds GB (1e9 bytes) a second."""

    batch_mb: float = 64
    pageable_gb_per_s: float = 4
    pinned_gb_per_s: float = 16
    pinning_gb_per_s: float = 8  # of the pin thread, from memory to memory
    step_ms: float = 20
    load_ms: float = 30  # of one worker
    python_ms: float = 3  # of the loop's own, before it queues a step
    workers: int = 2

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name in ("step_ms", "load_ms", "python_ms") else 1e-9
            if not isinstance(value, int | float) or not least <= value < float("inf"):
                raise LoaderVizError(f"{name}={value!r}: give a finite number above 0")
        if type(self.workers) is not int:
            raise LoaderVizError(f"workers={self.workers!r}: give a whole number, 1 or more")

    def copy_s(self, *, pinned: bool) -> float:
        return self.batch_mb / 1000 / (self.pinned_gb_per_s if pinned else self.pageable_gb_per_s)


@dataclass(frozen=True, repr=False)
class Fed:
    """What the loop, the copies and the steps did. Boxes are (batch, start, end) in seconds.

    Attributes:
        trace: what `record` would have seen of it.
        waits: the loop in ``next()``.
        held: the loop, held up by a copy or by ``.item()``.
        copies: on the device.
        steps: on the device.
    """

    way: str
    trace: Trace
    waits: list[Box]
    held: list[Box]
    copies: list[Box]
    steps: list[Box]

    @property
    def step_share(self) -> float:
        """Of the device's time, from its first step to the end of its last, the part in steps."""
        return sum(end - start for _, start, end in self.steps) / self._span_s

    @property
    def copy_share(self) -> float:
        """The part in which it copied and did nothing else."""
        alone = 0.0
        for _, start, end in self.copies:
            start = max(start, self.steps[0][1])
            beside = sum(max(0, min(end, e) - max(start, s)) for _, s, e in self.steps)
            alone += max(0, end - start) - beside
        return alone / self._span_s

    @property
    def batch_s(self) -> float:
        """Seconds from one step to the next, on average."""
        return (self.steps[-1][1] - self.steps[0][1]) / (len(self.steps) - 1)

    @property
    def _span_s(self) -> float:
        return self.steps[-1][2] - self.steps[0][1]

    @property
    def numbers(self) -> str:
        """The pace, and what the device does between steps, in one line."""
        idle = max(0.0, 1 - self.step_share - self.copy_share)
        return (
            f"simulated · a step every {1000 * self.batch_s:.0f} ms · copying alone "
            f"{percent(self.copy_share)} · nothing to do {percent(idle)}"
        )

    @property
    def verdict(self) -> str:
        """The main thing, in one line."""
        return f"{self.way}: the device steps {percent(self.step_share)} of the time"

    def __repr__(self) -> str:
        return f"{self.verdict}\n  {self.numbers}"

    def figure(self, *, seconds: float | None = None, theme: style.ThemeName = "light") -> Figure:
        """A lane each for the loop, the copies and the steps."""
        return streams(
            {"the loop": [], "copies": self.copies, "steps": self.steps},
            waits=self.waits,
            held=self.held,
            title=self.verdict,
            numbers=self.numbers,
            seconds=seconds,
            theme=theme,
        )


def feed(
    way: str, *, n_batches: int = 16, item: bool = False, speeds: Speeds | None = None, **given: Any
) -> Fed:
    """Work out what a loop does that feeds its device in one of four ``WAYS``.

    >>> feed("copied ahead", batch_mb=64, step_ms=20)

    Args:
        way: ``pageable`` and ``pinned`` are ``batch.to(device)`` from such memory.
        n_batches: 2 or more.
        item: whether the loop asks for the loss after each step, as ``loss.item()`` does.
        speeds: what the work takes.
        given: single speeds, by name, in place of those.

    Raises:
        LoaderVizError: for an unknown way, fewer than 2 batches, or speeds that are none.
    """
    if way not in WAYS:
        raise LoaderVizError(f"way={way!r} is not one of {', '.join(WAYS)}")
    if type(n_batches) is not int or n_batches < 2:
        raise LoaderVizError(f"n_batches={n_batches!r}: give a whole number, 2 or more")
    run = _Run(way, replace(speeds or Speeds(), **given), n_batches, item)
    run.loop()
    return Fed(way, run.trace(), run.waits, run.held, run.copies, run.steps)


@dataclass
class _Run:
    way: str
    speeds: Speeds
    n_batches: int
    item: bool
    now: float = 0.0  # of the loop
    stream: float = 0.0  # when all that is queued in the steps' stream will be done
    copier: float = 0.0  # the same of the copy engine
    columns: dict[str, list[float]] = field(default_factory=dict)
    waits: list[Box] = field(default_factory=list)
    held: list[Box] = field(default_factory=list)
    copies: list[Box] = field(default_factory=list)
    steps: list[Box] = field(default_factory=list)
    spans: list[tuple[str, float, float, float]] = field(default_factory=list)

    def loop(self) -> None:
        names = "dispatched started ready pinned requested delivered released device_start "
        self.columns = {f"{name}_s": [] for name in (names + "device_end").split()}
        self._free = [0.0] * self.speeds.workers
        self._pin_free = 0.0
        for _ in range(PREFETCH * self.speeds.workers):
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
            self.columns["released_s"].append(self.now)
            self.columns["device_end_s"].append(max(self.now, self.stream))
        if ahead:
            self._step(self.n_batches - 1)

    def _dispatch(self) -> None:
        """The next batch goes to the next worker, and on to the pin thread."""
        columns, speeds = self.columns, self.speeds
        batch = len(columns["dispatched_s"])
        if batch >= self.n_batches:
            return
        worker = batch % speeds.workers
        started = max(self.now, self._free[worker])
        ready = self._free[worker] = started + speeds.load_ms / 1000
        pinned = float("nan")
        if self.way != "pageable":
            pinning_s = speeds.batch_mb / 1000 / speeds.pinning_gb_per_s
            pinned = self._pin_free = max(ready, self._pin_free) + pinning_s
        for name, at in zip(
            ("dispatched_s", "started_s", "ready_s", "pinned_s"),
            (self.now, started, ready, pinned),
            strict=True,
        ):
            columns[name].append(at)

    def _next(self, batch: int) -> None:
        requested = self.now
        ready, pinned = (self.columns[name][batch] for name in ("ready_s", "pinned_s"))
        self.now = max(self.now, ready if self.way == "pageable" else pinned)
        self.waits.append((batch, requested, self.now))
        self._dispatch()
        self.columns["requested_s"].append(requested)
        self.columns["delivered_s"].append(self.now)
        self.columns["device_start_s"].append(max(self.now, self.stream))

    def _copy(self, batch: int, *, beside: bool = False) -> None:
        """Queue a copy; ``beside``: in a stream of its own."""
        begun = max(self.now, self.copier if beside else max(self.stream, self.copier))
        done = begun + self.speeds.copy_s(pinned=self.way != "pageable")
        self.copies.append((batch, begun, done))
        self.copier = done
        if not beside:
            self.stream = done
        called = self.now
        if self.way in ("pageable", "pinned"):
            self._hold(batch, done)
        self.spans.append(("copy", called, self.now, done - begun))

    def _step(self, batch: int) -> None:
        """Queue a step. It waits for its own batch's copy, not for one queued since."""
        called, copied = self.now, self.copies[batch][2]
        self.now += self.speeds.python_ms / 1000
        begun = max(self.now, self.stream, copied)
        self.stream = begun + self.speeds.step_ms / 1000
        self.steps.append((batch, begun, self.stream))
        if self.item:
            self._hold(batch, self.stream)
        self.spans.append(("step", called, self.now, self.stream - begun))

    def _hold(self, batch: int, until: float) -> None:
        if until > self.now:
            self.held.append((batch, self.now, until))
            self.now = until

    def trace(self) -> Trace:
        n, workers = self.n_batches, self.speeds.workers
        columns: dict[str, Any] = self.columns
        worker = [batch % workers for batch in range(n)]
        samples = [
            (b, p, columns["started_s"][b], columns["ready_s"][b])
            for b in range(n)
            for p in range(SAMPLES)
        ]
        return Trace.from_columns(
            batches={
                **columns,
                "collate_s": columns["ready_s"],
                "batch": range(n),
                "worker": worker,
                "n_samples": SAMPLES,
                "cpu_s": 0.0,  # loading here is waiting
                "n_bytes": float(self.speeds.batch_mb * 1e6),
                "state": "delivered",
            },
            samples={
                "batch": [b for b, *_ in samples],
                "worker": [worker[b] for b, *_ in samples],
                "position": [p for _, p, *_ in samples],
                "key": [SAMPLES * b + p for b, p, *_ in samples],
                "start_s": [s + (e - s) * p / SAMPLES for _, p, s, e in samples],
                "end_s": [e - (e - s) * (SAMPLES - 1 - p) / SAMPLES for _, p, s, e in samples],
            },
            spans=dict(
                zip(
                    ("name", "start_s", "end_s", "device_s"),
                    map(list, zip(*self.spans, strict=True)),
                    strict=True,
                )
            ),
            meta={"simulated": True, "complete": True, "left_out": 0},
        )
