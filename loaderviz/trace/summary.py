"""What limits a run, in numbers and in words: pure arithmetic on the tables of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

NEVER_WAITS = 0.02  # a smaller share of the time is not worth a change of settings
KEEPS_WAITING = 0.1  # past the first batch: a longer run waits as much, whatever the start cost
NO_STEP = 0.05  # a step that is a smaller part of the waiting is no training step

WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}


@dataclass(frozen=True)
class Summary:
    """The run of a trace in numbers. Times are seconds of the consumer; shares are 0 to 1.

    The consumer's time is ``startup_s + wait_s + step_s``; what it did between two epochs is not
    in it.
    """

    n_batches: int  # delivered
    n_samples: int  # delivered
    n_workers: int  # of all loaders together; 0 where the main process loads
    epochs: int
    startup_s: float  # in iter(), starting workers
    wait_s: float  # in next()
    first_wait_s: float  # the part of it that went into each epoch's first batch
    handover_s: float  # the part, first batches aside, that went into batches that lay ready
    step_s: float  # between delivery and the next request
    samples_per_s: float  # from each epoch's first batch to its last
    failed_batch: int | None = None  # the first one whose making raised an exception

    @property
    def elapsed_s(self) -> float:
        return self.startup_s + self.wait_s + self.step_s

    @property
    def wait_share(self) -> float:
        """Of the consumer's time, the part that is not its own work: waiting and starting."""
        return 1 - self.step_s / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def verdict(self) -> str:
        """The main thing, in one line."""
        if self.failed_batch is not None:
            return f"Batch {self.failed_batch} failed: making it raised an exception"
        if self.n_batches == 0:
            return "No batch was delivered"
        if self.n_batches > self.epochs:
            return self._verdict_of_many()
        if self.step_s < NO_STEP * self.wait_s:
            return "One batch in all: it shows what the start costs, not the pace"
        return f"The model waits {_percent(self.wait_share)} of the time: one batch, no overlap"

    def _verdict_of_many(self) -> str:
        share = _percent(self.wait_share)
        later_wait_s = self.wait_s - self.first_wait_s
        later_share = later_wait_s / ((later_wait_s + self.step_s) or 1.0)
        first = "the first batch" if self.epochs == 1 else "the first batch of each epoch"
        if self.step_s < NO_STEP * self.wait_s:
            pace = f": {_rate(self.samples_per_s)} samples/s" if self.n_samples else ""
            return f"Loading alone sets the pace{pace}"
        if self.n_workers == 0:
            return f"The model waits {share} of the time: one process loads and steps in turn"
        if later_share <= NEVER_WAITS:
            keep = "keeps" if self.n_workers == 1 else "keep"
            return f"After {first} the model never waits: {self._workers} {keep} up"
        if later_share < KEEPS_WAITING and later_wait_s < self.startup_s + self.first_wait_s:
            return f"The model waits {share} of the time, mostly for {first}"
        if self.handover_s > later_wait_s / 2:
            return f"The model waits {share} of the time, mostly while batches are handed over"
        return f"The model waits {share} of the time: {self._workers} cannot keep up"

    @property
    def numbers(self) -> str:
        """The numbers that the verdict rests on, in one line."""
        starting = f" + {_s(self.startup_s)} starting" if self.startup_s >= 0.0005 else ""
        return (
            f"{_count(self.n_batches, 'batch', 'batches')} · "
            f"{_count(self.n_samples, 'sample', 'samples')} · "
            f"{_count(self.n_workers, 'worker', 'workers')} · {_s(self.elapsed_s)} in all: "
            f"{_s(self.step_s)} in steps + {_s(self.wait_s)} waiting{starting}"
        )

    @property
    def _workers(self) -> str:
        number = WORDS.get(self.n_workers, str(self.n_workers))
        return f"{number} worker{'s' * (self.n_workers != 1)}"

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.numbers}"


def summarize(trace: Trace) -> Summary:
    failed = trace.batches.loc[trace.batches["state"] == "failed", "batch"]
    batches = trace.batches[trace.batches["delivered_s"].notna()]
    waits = batches["delivered_s"] - batches["requested_s"]
    epochs = batches.groupby(["rank", "loader", "epoch"], sort=False)
    first = epochs["delivered_s"].idxmin()
    lay_ready = (batches["ready_s"] <= batches["requested_s"]) & ~batches.index.isin(first)
    ends = batches["released_s"].fillna(batches["delivered_s"])
    workers = batches[batches["worker"] >= 0].groupby(["rank", "loader"])["worker"].nunique()
    if not trace.workers.empty:
        workers = trace.workers.groupby(["rank", "loader"])["worker"].nunique()
    return Summary(
        n_batches=len(batches),
        n_samples=int(batches["n_samples"].sum()),
        n_workers=int(workers.sum()),
        epochs=epochs.ngroups,
        startup_s=float(sum(end - start for start, end in startup_spans(trace))),
        wait_s=float(waits.sum()),
        first_wait_s=float(waits[first].sum()),
        handover_s=float(waits[lay_ready].sum()),
        step_s=float((ends - batches["delivered_s"]).sum()),
        samples_per_s=_pace(trace),
        failed_batch=None if failed.empty else int(failed.iloc[0]),
    )


def startup_spans(trace: Trace) -> list[tuple[float, float]]:
    """When the consumer was busy starting workers: from the first one's start to a first request.

    The loop is in ``iter(loader)`` then, which starts them one after another
    (torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter.__init__``).
    """
    spans = []
    first = trace.workers[(trace.workers["worker"] == 0) & trace.workers["started_s"].notna()]
    asked = trace.batches[trace.batches["requested_s"].notna()]
    for (rank, loader), workers in first.groupby(["rank", "loader"]):
        own = asked[(asked["rank"] == rank) & (asked["loader"] == loader)]
        requests = own.groupby("epoch")["requested_s"].min()
        # New workers for each epoch, or, where they persist, for the first one only.
        for start, request in zip(workers["started_s"], requests, strict=False):
            if request > start:
                spans.append((float(start), float(request)))
    return spans


def _pace(trace: Trace) -> float:
    """Samples a second, the start of each epoch left out where it has more than one batch."""
    n_samples, seconds = 0, 0.0
    batches = trace.batches[trace.batches["delivered_s"].notna()]
    for _, epoch in batches.groupby(["rank", "loader", "epoch"], sort=False):
        ordered = epoch.sort_values("delivered_s")
        rest = ordered.iloc[1:] if len(ordered) > 1 else ordered
        begun = ordered["delivered_s" if len(ordered) > 1 else "requested_s"].iloc[0]
        n_samples += int(rest["n_samples"].sum())
        seconds += float(np.nanmax(rest[["delivered_s", "released_s"]].to_numpy()) - begun)
    return n_samples / seconds if seconds > 0 else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _s(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    return f"{round(seconds, 3):.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"
