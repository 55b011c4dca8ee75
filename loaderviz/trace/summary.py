"""What limits a run, in numbers and in words: pure arithmetic on the tables of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.moments import groups, startup_spans, step_ends, united

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

NEVER_WAITS = 0.02  # a smaller share of the time is not worth a change of settings
KEEPS_WAITING = 0.1  # past the first batch: a longer run waits as much, whatever the start cost
NO_STEP = 0.05  # a step that is a smaller part of the waiting is no training step

WORKER = ("rank", "loader", "worker")
COLUMNS = (
    *WORKER,
    *(
        "epoch",
        "batch",
        "n_samples",
        "ready_s",
        "requested_s",
        "delivered_s",
        "released_s",
        "state",
    ),
)
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
            pace = f": {rate(self.samples_per_s)} samples/s" if self.n_samples else ""
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
    every = {column: trace.batches[column].to_numpy() for column in COLUMNS}
    failed = every["batch"][np.flatnonzero(every["state"] == "failed")]
    taken = ~np.isnan(every["delivered_s"])
    batches = {column: values[taken] for column, values in every.items()}
    epoch = groups(*(batches[column] for column in ("rank", "loader", "epoch")))
    order = np.lexsort((batches["delivered_s"], epoch))
    firsts = np.flatnonzero(np.diff(epoch[order], prepend=-1))  # of each epoch, in this order
    first = order[firsts]
    requested, delivered = batches["requested_s"], batches["delivered_s"]
    waits = np.nan_to_num(delivered - requested)
    lay_ready = batches["ready_s"] <= requested
    lay_ready[first] = False
    released = step_ends(batches)
    spans = zip(
        batches["rank"][first], requested[first], _last(delivered, order, firsts), strict=True
    )
    return Summary(
        n_batches=len(delivered),
        n_samples=int(batches["n_samples"].sum()),
        n_workers=_n_workers(trace, batches),
        epochs=len(united(spans)),
        startup_s=float(sum(end - start for start, end in startup_spans(trace))),
        wait_s=float(waits.sum()),
        first_wait_s=float(waits[first].sum()),
        handover_s=float(waits[lay_ready].sum()),
        step_s=float((released - delivered).sum()),
        samples_per_s=_pace(batches, released, order, firsts),
        failed_batch=int(failed[0]) if len(failed) else None,
    )


def _n_workers(trace: Trace, batches: dict[str, Any]) -> int:
    if not trace.workers.empty:
        of_workers = [trace.workers[column].to_numpy() for column in WORKER]
    else:
        of_workers = [batches[column][batches["worker"] >= 0] for column in WORKER]
    return len(np.unique(groups(*of_workers)))


def _pace(batches: dict[str, Any], released: Any, order: Any, firsts: Any) -> float:
    """Samples a second, the start of each epoch left out where it has more than one batch.

    ``order`` sorts the batches by epoch and delivery; in it each epoch begins at one of ``firsts``.
    """
    if not len(order):
        return 0.0
    sizes = np.diff(firsts, append=len(order))
    first = order[firsts]
    n_samples = batches["n_samples"].sum() - batches["n_samples"][first[sizes > 1]].sum()
    begun = np.where(sizes > 1, batches["delivered_s"][first], batches["requested_s"][first])
    ends = np.maximum(batches["delivered_s"], released)
    ends[first[sizes > 1]] = -np.inf
    spans = zip(batches["rank"][first], begun, _last(ends, order, firsts), strict=True)
    seconds = float(sum(end - start for _, start, end in united(spans)))
    return float(n_samples) / seconds if seconds > 0 else 0.0


def _last(times: Any, order: Any, firsts: Any) -> Any:
    """Of each epoch the latest."""
    return np.maximum.reduceat(times[order], firsts) if len(order) else times


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _s(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    return f"{round(seconds, 3):.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"
