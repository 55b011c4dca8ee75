"""What a recording alone tells of other settings: bounds, and the call that measures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz import machine
from loaderviz._recommend.memory_budget import FreeBytes, Sizes
from loaderviz._recommend.recommendation import Recommendation, code_of
from loaderviz._recommend.settings_to_try import MARGIN, default_max_workers
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import count, duration, percent, rate
from loaderviz.trace import Trace
from loaderviz.trace.analysis.loader_share import LoaderShare, loader_shares
from loaderviz.trace.analysis.rank_summary import ranks_beside
from loaderviz.trace.analysis.unlike_workers import largest_share, slow_worker
from loaderviz.trace.merge.run_meta import loader_description
from loaderviz.why.pace import Pace, paces
from loaderviz.why.resampled_ratio import Range

if TYPE_CHECKING:
    import pandas as pd

KEPT_BUSY: Final = 0.05  # of the loop's time: waiting less, the model is called busy
STARTS_COST: Final = 0.05  # of an epoch: more is worth a word
MOST_NOTES: Final = 3


@dataclass(frozen=True)
class _Bounds:
    """Between which numbers of workers the fewest that do lie, by a pace; rates in samples/s.

    Attributes:
        pace: of the loader.
        step_s: of a batch, the lowest and the highest.
        read_s: of a batch, the same, without waiting for a CPU that others use.
        cpus: that may be used.
        most: workers to speak of.
        step_is_given: in place of the recorded one.
    """

    pace: Pace
    step_s: Range
    read_s: Range
    cpus: float
    most: int
    step_is_given: bool

    @property
    def demand(self) -> float:
        """What the loop takes where it never waits."""
        step_s = sum(self.step_s) / 2
        return self.pace.batch_size / step_s if step_s > 0 else math.inf

    @property
    def by_cpu(self) -> Range:
        """How many workers have work for all CPUs, as far as their work was measured."""
        low, high = (self.pace.cpu_supply * each / self.pace.batch_size for each in self.read_s)
        return low, MARGIN * high

    @property
    def by_step(self) -> Range:
        """How many workers make what the loop takes; infinite without a step."""
        low, high = self.step_s
        return (
            self.read_s[0] / high if high > 0 else math.inf,
            MARGIN * self.read_s[1] / low if low > 0 else math.inf,
        )

    @property
    def cpus_limit(self) -> bool:
        """Whether the CPUs can make less than the loop takes."""
        return bool(self.pace.cpu_supply < self.demand)

    @property
    def keeps_up(self) -> bool:
        """Whether the recorded settings hardly let the loop wait."""
        return self.pace.waited_share <= KEPT_BUSY

    @property
    def needed(self) -> tuple[int, int]:
        """The fewest workers that may do, and the fewest that do if samples share nothing."""
        now = self.pace.workers
        if not now and self.keeps_up:
            return 0, 1
        low, high = self.by_step
        if self.cpus_limit:
            low, high = (min(*each) for each in zip(self.by_step, self.by_cpu, strict=True))
        if math.isinf(low):  # nobody knows where more of them stop to help
            return max(1, now), max(self.most, now)
        return max(1, math.ceil(low)), max(1, math.ceil(high))

    @property
    def workers(self) -> tuple[int, int]:
        """The same, of those that may be tried."""
        low, high = self.needed
        return min(low, self.most), min(high, self.most)

    @property
    def now(self) -> float:
        """What the recorded settings give."""
        if self.step_is_given:
            return min(self.demand, self.pace.supply)
        waited = self.pace.waited_share
        return self.pace.demand * (1 - waited) if waited < 1 else self.pace.supply

    def rates(self, n: int) -> Range:
        """Between which rates that many workers lie: those recorded, and all that is shared out.

        Fewer than were recorded make their part of it at least. Of more nobody knows whether their
        samples wait for one another.
        """
        part = min(1.0, n / self.pace.workers) if self.pace.workers else 1.0
        making = max(1, n) * self.pace.batch_size / self.read_s[0]
        high = float(np.nanmin([self.demand, making, self.pace.cpu_supply]))
        return min(part * self.now, high), high


def recommend_bounds(
    trace: Trace,
    loader: int | None,
    *,
    step_s: float | None,
    epochs: int | None,
    max_workers: int | None,
) -> Recommendation:
    """The bounds that a trace gives for one loader, in the first rank that took batches of it.

    Args:
        trace: a recording.
        loader: which of its loaders; None: the one that was waited for most.
        step_s: seconds of a step, in place of the recorded ones.
        epochs: how often the training goes through the loader; None: as often as was recorded.
        max_workers: the most to speak of; None: twice the CPUs, at least 16.

    Raises:
        LoaderVizError: for a trace that holds no batch of such a loader.
    """
    share, others = _chosen(trace, loader)
    batches = trace.batches[trace.batches["loader"] == share.loader]
    delivered = batches[batches["delivered_s"].notna()]
    if not share.seen or delivered.empty:
        raise LoaderVizError(
            "the trace does not show where batches were made: the loader is not one of torch's, or "
            "makes them in its own way. trace.summary() says what its loop waits for."
        )
    rank = int(delivered["rank"].min())
    n_ranks = max(machine.local_world_size() or 1, ranks_beside(trace, rank))
    own = delivered[delivered["rank"] == rank]
    allowed = trace.meta.get("cpu_allowance")
    pace = next(each for each in paces(trace.of_ranks([rank])) if each.loader == share.loader)
    pace = replace(pace, cpu_supply=pace.cpu_supply / n_ranks)
    description = loader_description(trace.meta, share.loader)
    if description.get("num_workers") is None:
        description["num_workers"] = pace.workers
    present = LoaderSettings.of(description)
    cpus = (allowed or machine.cpu_allowance()) / n_ranks
    told = _Told(
        trace=trace,
        bounds=_Bounds(
            pace=pace,
            step_s=pace.step_range_s if step_s is None else (step_s, step_s),
            read_s=_without_queueing(pace.read_range_s, own),
            cpus=cpus,
            most=max_workers or default_max_workers(cpus),
            step_is_given=step_s is not None,
        ),
        present=present,
        description=description,
        n_recorded=len(own),
        epochs=epochs or int(own["epoch"].nunique()),
        unlike=_unlike(own, description),
        chosen_of=str(share) if others else "",
        others=others,
        sizes=_sizes(own),
    )
    return told.recommendation()


def _chosen(trace: Trace, loader: int | None) -> tuple[LoaderShare, list[LoaderShare]]:
    """The loader asked for, or the one most waited for; and which others there are then."""
    shares = {share.loader: share for share in loader_shares(trace)}
    if not shares:
        raise LoaderVizError(
            "this trace holds no batch: iterate the loader for a few seconds while it is recorded"
        )
    if loader is None:
        most = max(shares.values(), key=lambda share: share.waited_s)
        return most, [share for share in shares.values() if share is not most]
    if loader not in shares:
        listed = "\n".join(f"  {number}  {share}" for number, share in shares.items())
        raise LoaderVizError(
            f"loader={loader!r}: this recording has no such loader. It has\n{listed}"
        )
    return shares[loader], []


def _without_queueing(read_s: Range, batches: pd.DataFrame) -> Range:
    """Reading times without what workers stood in line for a CPU, as far as it is known."""
    making_s = float((batches["ready_s"] - batches["started_s"]).sum())
    queued = float(batches["queued_s"].sum()) / making_s if making_s > 0 else 0.0
    kept = 1 - min(max(queued, 0.0), 1.0)
    return read_s[0] * kept, read_s[1]


def _unlike(batches: pd.DataFrame, description: Mapping[str, Any]) -> str:
    """How the workers are unlike, as a sentence without its full stop; empty where they are not."""
    if description.get("kind") == "iterable" and (large := largest_share(batches)) is not None:
        worker, part = large
        return f"Worker {worker} reads {percent(part)} of the stream, and the end waits for it"
    if (slow := slow_worker(batches)) is not None:
        worker, times = slow
        return f"Worker {worker} takes {times:.1f} times as long for a sample as the others"
    return ""


def _sizes(batches: pd.DataFrame) -> Sizes:
    rss = batches.loc[batches["worker"] >= 0, "rss_bytes"].dropna()
    n_bytes = batches["n_bytes"].dropna()
    return Sizes(
        worker=int(rss.max()) if len(rss) and rss.max() > 0 else None,
        batch=int(n_bytes.max()) if len(n_bytes) else None,
    )


@dataclass(frozen=True)
class _Told:
    """All that the recommendation is written from."""

    trace: Trace
    bounds: _Bounds
    present: LoaderSettings
    description: Mapping[str, Any]
    n_recorded: int
    epochs: int
    unlike: str
    chosen_of: str
    others: list[LoaderShare]
    sizes: Sizes

    @property
    def more_batches(self) -> int:
        """How many more would have to be recorded; 0: these are enough."""
        pace = self.bounds.pace
        known = np.isfinite([*self.bounds.read_s, *self.bounds.step_s]).all()
        if pace.is_steady and known and (self.bounds.step_is_given or pace.is_enough):
            return 0
        return max(pace.more_batches, self.n_recorded, 8)

    @property
    def settings(self) -> LoaderSettings:
        """Today's with the fewest workers that may do; today's, where that is not known."""
        low, _ = self.bounds.workers if not self.more_batches else (None, None)
        if low is None or low == self.present.num_workers:
            return self.present
        if low == 0:
            return LoaderSettings(pin_memory=self.present.pin_memory)
        prefetch = self.present.prefetch_factor
        return replace(self.present, num_workers=low, prefetch_factor=prefetch)

    def recommendation(self) -> Recommendation:
        settings = self.settings
        options: dict[str, Any] = {}
        if self.description.get("batch_size") is not None:
            options["batch_size"] = self.description["batch_size"]
        options |= {"num_workers": settings.num_workers, **settings.changed_options()}
        source = "simulated" if self.trace.meta.get("simulated") else "recorded"
        n = count(self.n_recorded, f"{source} batch", f"{source} batches")
        return Recommendation(
            settings=settings.options(),
            code=code_of(options),
            verdict=self._verdict(),
            limits=self._limits(),
            notes=tuple(self._notes())[:MOST_NOTES],
            numbers=f"bounds from {n}, not measured · {count(self.bounds.cpus, 'CPU')}",
            memory_bytes=self.sizes.memory_bytes(settings),
            shm_bytes=self.sizes.shm_bytes(settings),
            measured=False,
            demand_per_s=math.nan if self.more_batches else self.bounds.demand,
            candidates=self._candidates(),
            cpu_allowance=self.bounds.cpus,
            trace=self.trace,
        )

    def _verdict(self) -> str:
        if self.more_batches:
            more = count(self.more_batches, "batch", "batches")
            return f"Too little was recorded to tell how many workers do: record {more} more"
        bounds, pace = self.bounds, self.bounds.pace
        now = count(pace.workers, "worker") if pace.workers else "the main process"
        make = "makes" if pace.workers <= 1 else "make"
        takes = f"the loop could take {rate(bounds.demand)}"
        if math.isinf(bounds.demand):
            takes = "the loop takes them as fast as they come"
        rates = f"{now} {make} {rate(pace.supply)} samples/s, {takes}"
        low, high = bounds.workers
        if bounds.keeps_up and low <= pace.workers:
            fewer = "" if low == pace.workers else f", and {_between(low, pace.workers)} may do"
            return f"{rates}: enough{fewer}"
        needed = bounds.needed[0]
        short = f", the most to be tried; {needed} would be needed" if needed > low else ""
        return f"{rates}: try {_between(low, high)}{short}"

    def _limits(self) -> str:
        bounds, pace = self.bounds, self.bounds.pace
        if self.more_batches:
            return "not known yet"
        if bounds.cpus_limit:
            most = rate(pace.cpu_supply)
            return f"CPU: {count(bounds.cpus, 'CPU')} can make {most} samples/s at most"
        if bounds.keeps_up:
            return f"step: it takes {duration(sum(bounds.step_s) / 2)} a batch; hardly a wait"
        if not pace.workers:
            return f"main process: it reads and steps in turn, {duration(pace.read_s)} a batch"
        return (
            f"reading: a worker takes {duration(pace.read_s)} for a batch, a step "
            f"{duration(sum(bounds.step_s) / 2)}"
        )

    def _notes(self) -> Iterator[str]:
        pace = self.bounds.pace
        if self.unlike:
            yield f"{self.unlike}: mend that first. The bounds are for workers that are alike."
        if self.others:
            number = self.others[0].loader
            yield (
                f"Of {len(self.others) + 1} loaders this is for {self.chosen_of}, the most. "
                f"recommend(trace, loader={number}) is for another, or --loader {number}."
            )
        known = not self.more_batches and sum(self.bounds.step_s) > 0
        step = f", step_s={sum(self.bounds.step_s) / 2:.3g}" if known else ""
        yield (
            f"recommend(loader{step}) measures, with the loader in place of its recording: whether "
            "samples wait for one another, and whether workers pay, no recording shows."
        )
        epoch = pace.epoch
        costly = epoch is not None and epoch.start_s > STARTS_COST * epoch.seconds
        if costly and self.epochs > 1 and not self.present.persistent_workers and pace.workers:
            assert epoch is not None
            yield (
                f"An epoch of {duration(epoch.seconds)} begins with {duration(epoch.start_s)} "
                "until its first batch is there: persistent_workers=True keeps workers."
            )

    def _candidates(self) -> pd.DataFrame:
        """A row for each number of workers up to twice the upper bound."""
        import pandas as pd

        low, high = self.bounds.workers if not self.more_batches else (0, 0)
        n_present = self.present.num_workers
        last = min(max(2 * high, n_present, 1), max(self.bounds.most, n_present))
        counts = {n_present} if self.more_batches else {n_present, *range(min(low, 1), last + 1)}
        free = FreeBytes.now()
        rows = [self._row(n, free) for n in sorted(counts)]
        table = pd.DataFrame(rows)
        table["prefetch_factor"] = table["prefetch_factor"].astype("Int64")
        return table.sort_values("high_per_s", ascending=False, kind="stable", ignore_index=True)

    def _row(self, n: int, free: FreeBytes) -> dict[str, Any]:
        is_present = n == self.present.num_workers
        setting = self.present if is_present else LoaderSettings(n)
        pace = self.bounds.pace
        low, high = (math.nan, math.nan) if self.more_batches else self.bounds.rates(n)
        seen = is_present and not self.bounds.step_is_given and pace.is_steady
        memory, shm = self.sizes.memory_bytes(setting), self.sizes.shm_bytes(setting)
        return {
            **setting.options(),
            "samples_per_s": self.bounds.now if seen else math.nan,
            "low_per_s": low,
            "high_per_s": high,
            "start_s": math.nan,
            "wait_share": pace.waited_share if seen else math.nan,
            "cpus": math.nan,
            "runs": 0,
            "batches": self.n_recorded if is_present else 0,
            "memory_bytes": math.nan if memory is None else float(memory),
            "shm_bytes": math.nan if shm is None else float(shm),
            "fits": self.sizes.fit(setting, free),
            "present": is_present,
            "recommended": n == self.settings.num_workers,
        }


def _between(low: int, high: int) -> str:
    return count(high, "worker") if low == high else f"{low} to {high} workers"
