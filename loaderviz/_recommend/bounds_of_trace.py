"""What a recording alone tells of other settings: bounds, and the call that measures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz import machine
from loaderviz._recommend.memory_budget import Sizes
from loaderviz._recommend.recommendation import WORTH, Recommendation, candidates_table, code_of
from loaderviz._recommend.settings_to_try import MARGIN
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import count, duration, rate
from loaderviz.trace import Trace
from loaderviz.trace.described_loaders import loader_description
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.why.causes.savings import most_workers
from loaderviz.why.loader_share import LoaderShare, loader_shares
from loaderviz.why.pace import Pace, paces
from loaderviz.why.phases import FEWEST
from loaderviz.why.rank_summary import ranks_beside
from loaderviz.why.resampled_ratio import Range
from loaderviz.why.seen_batches import seen_batches
from loaderviz.why.unlike_workers import slow_worker

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED: Final = 5  # loaders, in a list that is read


def recommend_bounds(
    trace: Trace, loader: int | None, *, step_s: float | None, max_workers: int | None
) -> Recommendation:
    """The bounds that a trace gives for one loader, in the first rank that took batches of it.

    Args:
        trace: a recording.
        loader: which of its loaders; None: the one that was waited for most. Those that are made
            anew at one line of code are one, under the number of the first.
        step_s: seconds of a step, in place of the recorded ones.
        max_workers: the most to speak of; None: twice the CPUs, at least 16.

    Raises:
        LoaderVizError: for a trace that holds no batch of such a loader.
    """
    whole = as_one(trace)
    if loader is None or (whole.batches["loader"] == loader).any():
        trace = whole  # else it is the number of one life among several
    share, chosen = _chosen(trace, loader)
    batches = seen_batches(trace, share.loader)
    description = loader_description(trace.meta, share.loader)
    bounds = _bounds(trace, batches, description, step_s, max_workers)
    settings, sizes = bounds.settings, _sizes(batches)
    source = "simulated" if trace.meta.get("simulated") else "recorded"
    recorded = count(len(batches), f"{source} batch", f"{source} batches")
    return Recommendation(
        settings=settings.options(),
        code=code_of(settings, description),
        verdict=_verdict(bounds),
        limits=_limits(bounds),
        notes=tuple(filter(None, [chosen, _slow_worker(batches), _how_to_measure(bounds)])),
        numbers=f"bounds from {recorded}, not measured · {count(bounds.cpus, 'CPU')}",
        memory_bytes=sizes.memory_bytes(settings),
        shm_bytes=sizes.shm_bytes(settings),
        measured=False,
        demand_per_s=math.nan if bounds.more_batches else bounds.demand,
        candidates=candidates_table(_candidates(bounds), sizes, best="high_per_s"),
        cpu_allowance=bounds.cpus,
        trace=trace,
    )


def _bounds(
    trace: Trace,
    batches: pd.DataFrame,
    description: Mapping[str, Any],
    step_s: float | None,
    max_workers: int | None,
) -> _Bounds:
    """The bounds that the ``batches`` of one loader and rank give."""
    loader, rank = int(batches["loader"].iloc[0]), int(batches["rank"].iloc[0])
    n_ranks = max(machine.local_world_size() or 1, ranks_beside(trace, rank))
    cpus = (trace.meta.get("cpu_allowance") or machine.cpu_allowance()) / n_ranks
    pace = next(each for each in paces(trace.of_ranks([rank])) if each.loader == loader)
    if description.get("num_workers") is None:
        description = {**description, "num_workers": pace.workers}
    return _Bounds(
        pace=pace,
        given_s=step_s,
        not_queued=_not_queued(batches),
        cpus=cpus,
        cpu_supply=pace.cpu_supply / n_ranks,
        most=max_workers or most_workers(cpus),
        n_recorded=len(batches),
        present=LoaderSettings.of(description),
    )


def _chosen(trace: Trace, loader: int | None) -> tuple[LoaderShare, str]:
    """The loader asked for; or the one most waited for, and a note that names the others."""
    shares = sorted(loader_shares(trace), key=lambda share: -share.waited_s)
    if not shares:
        raise LoaderVizError(
            "this trace holds no batch: iterate the loader for a few seconds while it is recorded"
        )
    if loader is None:
        most, *others = [share for share in shares if share.n_batches] or shares
        if not others:
            return most, ""
        named = "; ".join(f"loader={each.loader} is {each.name}" for each in others[:MOST_NAMED])
        return most, (
            f"This is {most.name}, the one of {len(others) + 1:,} loaders that is waited for "
            f"most. loader=NUMBER, or --loader NUMBER, asks for another: {named}."
        )
    for share in shares:
        if share.loader == loader:
            return share, ""
    listed = "\n".join(f"  {share.loader}  {share}" for share in shares[:MOST_NAMED])
    raise LoaderVizError(f"loader={loader!r}: this recording has no such loader. It has\n{listed}")


def _not_queued(batches: pd.DataFrame) -> float:
    """The part of their reading in which workers did not stand in line for a CPU, if known."""
    making_s = float((batches["ready_s"] - batches["started_s"]).sum())
    queued = float(batches["queued_s"].sum()) / making_s if making_s > 0 else 0.0
    return 1 - min(max(queued, 0.0), 1.0)


def _slow_worker(batches: pd.DataFrame) -> str:
    """A note, where one worker is slower than the others."""
    if (slow := slow_worker(batches)) is None:
        return ""
    worker, times = slow
    return (
        f"Worker {worker} takes {times:.1f} times as long for a sample as the others: mend that "
        "first. The bounds are for workers that are alike."
    )


def _sizes(batches: pd.DataFrame) -> Sizes:
    rss = batches.loc[batches["worker"] >= 0, "rss_bytes"].dropna()
    n_bytes = batches["n_bytes"].dropna()
    return Sizes(
        worker=int(rss.max()) if len(rss) and rss.max() > 0 else None,
        batch=int(n_bytes.max()) if len(n_bytes) else None,
    )


@dataclass(frozen=True)
class _Bounds:
    """Between which numbers of workers the fewest that do lie, by a pace; rates in samples/s.

    Attributes:
        pace: of the loader.
        given_s: seconds of a step in place of the recorded ones; None: as recorded.
        not_queued: the part of reading in which workers did not stand in line for a CPU.
        cpus: of this rank.
        cpu_supply: what they can make; NaN: not known.
        most: workers to speak of.
        n_recorded: batches.
        present: today's settings.
    """

    pace: Pace
    given_s: float | None
    not_queued: float
    cpus: float
    cpu_supply: float
    most: int
    n_recorded: int
    present: LoaderSettings

    @property
    def step_s(self) -> float:
        """Of a batch."""
        return self.pace.step_s if self.given_s is None else self.given_s

    @property
    def more_batches(self) -> int:
        """How many more would have to be recorded; 0: these are enough."""
        known = self.pace.is_steady and not math.isnan(self.pace.read_range_s[0])
        if known and (self.given_s is not None or self.pace.is_enough):
            return 0
        return max(self.pace.more_batches, self.n_recorded, FEWEST)

    @property
    def demand(self) -> float:
        """What the loop takes where it never waits; infinite: as fast as they come."""
        return self.pace.batch_size / self.step_s if self.step_s > 0 else math.inf

    @property
    def now(self) -> float:
        """What the recorded settings give."""
        waited = self.pace.waited_share
        if self.given_s is not None or waited == 1:
            return min(self.demand, self.pace.supply)
        return min(self.pace.demand * (1 - waited), self.pace.supply)

    @property
    def cpus_limit(self) -> bool:
        """Whether the CPUs are known to make less than the loop takes."""
        return self.cpu_supply < self.demand

    @property
    def keeps_up(self) -> bool:
        """Whether the recorded settings hardly let the loop wait."""
        return self.now >= (1 - WORTH) * self.demand

    @property
    def needed(self) -> tuple[int, int]:
        """The fewest workers that may do, and the fewest that do if samples share nothing."""
        if not self.pace.workers and self.keeps_up:
            return 0, 1
        read_s = (self.pace.read_range_s[0] * self.not_queued, MARGIN * self.pace.read_range_s[1])
        step_s = self.pace.step_range_s if self.given_s is None else (self.given_s, self.given_s)
        enough = [
            read / step if step > 0 else math.inf
            for read, step in zip(read_s, step_s[::-1], strict=True)
        ]
        if self.cpus_limit:  # as many as have work for all CPUs
            full = [self.cpu_supply * read / self.pace.batch_size for read in read_s]
            enough = [min(each) for each in zip(enough, full, strict=True)]
        if math.isinf(enough[0]):  # nobody knows where more of them stop to help
            return max(1, self.pace.workers), max(self.most, self.pace.workers)
        return max(1, math.ceil(enough[0])), max(1, math.ceil(enough[1]))

    @property
    def workers(self) -> tuple[int, int]:
        """The same, of those that may be tried."""
        low, high = self.needed
        return min(low, self.most), min(high, self.most)

    @property
    def settings(self) -> LoaderSettings:
        """Those to begin with: the fewest workers that may do."""
        return self.present if self.more_batches else self.with_workers(self.workers[0])

    def with_workers(self, n: int) -> LoaderSettings:
        """Today's settings, or as many workers with torch's own."""
        if n == self.present.num_workers:
            return self.present
        return LoaderSettings(n, pin_memory=self.present.pin_memory)

    def rates(self, n: int) -> Range:
        """Between which rates that many workers lie: those recorded, and all that is shared out.

        Fewer than were recorded make their part of it at least. Of more nobody knows whether their
        samples wait for one another.
        """
        if self.more_batches:
            return math.nan, math.nan
        part = min(1.0, n / self.pace.workers) if self.pace.workers else 1.0
        read_s = self.pace.read_range_s[0] * self.not_queued
        making = max(1, n) * self.pace.batch_size / read_s if read_s > 0 else math.inf
        high = float(np.nanmin([self.demand, making, self.cpu_supply]))
        return min(part * self.now, high), high


def _verdict(bounds: _Bounds) -> str:
    if bounds.more_batches:
        more = count(bounds.more_batches, "batch", "batches")
        return f"Too little was recorded to tell how many workers do: record {more} more"
    now, (low, high) = bounds.pace.workers, bounds.workers
    makers = f"{count(now, 'worker')} make{'s' * (now == 1)}" if now else "the main process makes"
    takes = f"the loop could take {rate(bounds.demand)}"
    if math.isinf(bounds.demand):
        takes = "the loop takes them as fast as they come"
    rates = f"{makers} {rate(bounds.pace.supply)} samples/s, {takes}"
    if bounds.keeps_up and low <= now:
        return f"{rates}: enough" + (f", and {_between(low, now)} may do" if low < now else "")
    needed = bounds.needed[0]
    more = f", up to {high} if the loop still waits" if high > low else ""
    short = f", the most to be tried; {needed} would be needed" if needed > low else ""
    return f"{rates}: try {count(low, 'worker')}{more}{short}"


def _between(low: int, high: int) -> str:
    return count(high, "worker") if low == high else f"{low} to {high} workers"


def _limits(bounds: _Bounds) -> str:
    if bounds.more_batches:
        return "not known yet"
    if bounds.cpus_limit:
        supply = f"{rate(bounds.cpu_supply)} samples/s"
        return f"CPU: {count(bounds.cpus, 'CPU')} can make {supply} at most"
    if bounds.keeps_up:
        return f"step: it takes {duration(bounds.step_s)} a batch; hardly a wait"
    times = f"{duration(bounds.pace.read_s)} for a batch, a step {duration(bounds.step_s)}"
    if not bounds.pace.workers:
        return f"main process: it reads and steps in turn; reading takes {times}"
    return f"reading: a worker takes {times}"


def _how_to_measure(bounds: _Bounds) -> str:
    step = "" if bounds.more_batches or not bounds.step_s else f", step_s={bounds.step_s:.3g}"
    return (
        f"recommend(loader{step}) measures, with the loader in place of its recording: whether "
        "samples wait for one another, and whether workers pay, no recording shows."
    )


def _candidates(bounds: _Bounds) -> Iterator[tuple[LoaderSettings, dict[str, Any]]]:
    """Each number of workers up to twice the upper bound; today's alone without one."""
    counts = {bounds.present.num_workers}
    if not bounds.more_batches:
        low, high = bounds.workers
        counts |= {*range(min(low, 1), min(2 * high, bounds.most) + 1)}
    for n in sorted(counts):
        is_present = n == bounds.present.num_workers
        low_per_s, high_per_s = bounds.rates(n)
        known = {
            "low_per_s": low_per_s,
            "high_per_s": high_per_s,
            "batches": bounds.n_recorded if is_present else 0,
            "present": is_present,
            "recommended": n == bounds.settings.num_workers,
        }
        if is_present and bounds.given_s is None and bounds.pace.is_steady:
            known |= {"samples_per_s": bounds.now, "wait_share": bounds.pace.waited_share}
        yield bounds.with_workers(n), known
