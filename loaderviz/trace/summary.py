"""What limits a run, in numbers and in words: pure arithmetic on the tables of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

NEVER_WAITS = 0.02  # a smaller share of the time is not worth a change of settings

WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}


@dataclass(frozen=True)
class Summary:
    """The run of a trace in numbers. Times are seconds of the consumer; shares are 0 to 1."""

    n_batches: int  # delivered
    n_samples: int  # delivered
    n_workers: int  # 0 where the main process loads
    epochs: int
    elapsed_s: (
        float  # from the start of the first worker, or the first request, to the last release
    )
    startup_s: float  # in iter(), starting workers
    wait_s: float  # in next()
    first_wait_s: float  # the part of it that went into each epoch's first batch
    step_s: float  # between delivery and the next request

    @property
    def wait_share(self) -> float:
        total = self.wait_s + self.step_s
        return self.wait_s / total if total > 0 else 0.0

    @property
    def samples_per_s(self) -> float:
        return self.n_samples / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def verdict(self) -> str:
        """The main thing, in one line."""
        if self.n_batches == 0:
            return "No batch was delivered"
        share = f"{self.wait_share:.0%}".replace("%", " %")
        if self.step_s < 0.05 * self.wait_s:
            return f"Loading alone sets the pace: {_rate(self.samples_per_s)} samples/s"
        if self.n_workers == 0:
            return f"The model waits {share} of the time: one process loads and steps in turn"
        later_wait_s = self.wait_s - self.first_wait_s
        if later_wait_s <= NEVER_WAITS * (later_wait_s + self.step_s):
            keep = "keeps" if self.n_workers == 1 else "keep"
            return f"After the first batch the model never waits: {self._workers} {keep} up"
        if later_wait_s < self.first_wait_s:
            return f"The model waits {share} of the time, mostly for the first batch"
        return f"The model waits {share} of the time: {self._workers} cannot keep up"

    @property
    def numbers(self) -> str:
        """The numbers that the verdict rests on, in one line."""
        where = f"{self.n_workers} worker{'s' * (self.n_workers != 1)}"
        text = (
            f"{self.n_batches:,} batches · {self.n_samples:,} samples · {where} · "
            f"{self.elapsed_s:.3g} s in all, {self.wait_s:.3g} s of it waiting"
        )
        if self.startup_s > NEVER_WAITS * self.elapsed_s:
            text += f", {self.startup_s:.2g} s starting the workers"
        return text

    @property
    def _workers(self) -> str:
        number = WORDS.get(self.n_workers, str(self.n_workers))
        return f"{number} worker{'s' * (self.n_workers != 1)}"

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.numbers}"


def summarize(trace: Trace) -> Summary:
    batches = trace.batches[trace.batches["delivered_s"].notna()]
    if batches.empty:
        return Summary(0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    waits = batches["delivered_s"] - batches["requested_s"]
    iterators = batches.groupby(["rank", "loader", "epoch"], sort=False)["delivered_s"]
    ends = batches["released_s"].fillna(batches["delivered_s"])
    startups = startup_spans(trace)
    begun = min([batches["requested_s"].min(), *(start for start, _ in startups)])
    return Summary(
        n_batches=len(batches),
        n_samples=int(batches["n_samples"].sum()),
        n_workers=_workers_at_once(trace),
        epochs=iterators.ngroups,
        elapsed_s=float(ends.max() - begun),
        startup_s=float(sum(end - start for start, end in startups)),
        wait_s=float(waits.sum()),
        first_wait_s=float(waits[iterators.idxmin()].sum()),
        step_s=float((ends - batches["delivered_s"]).sum()),
    )


def startup_spans(trace: Trace) -> list[tuple[float, float]]:
    """When the consumer was busy starting workers: from the first one's start to a first request.

    The loop is in ``iter(loader)`` then, which starts them one after another
    (torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter.__init__``).
    """
    spans = []
    first = trace.workers[(trace.workers["worker"] == 0) & trace.workers["started_s"].notna()]
    for rank, loader, start in zip(
        *(first[c] for c in ("rank", "loader", "started_s")), strict=True
    ):
        own = trace.batches[(trace.batches["rank"] == rank) & (trace.batches["loader"] == loader)]
        later = own["requested_s"][own["requested_s"] >= start]
        if not later.empty:
            spans.append((float(start), float(later.min())))
    return spans


def _workers_at_once(trace: Trace) -> int:
    """The largest number of workers that one loader had."""
    workers = trace.batches.loc[trace.batches["worker"] >= 0]
    if not trace.workers.empty:
        workers = trace.workers
    if workers.empty:
        return 0
    return int(workers.groupby(["rank", "loader"])["worker"].nunique().max())


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"
