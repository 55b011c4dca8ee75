"""What would be saved without a cause: the same run, simulated with it and without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.simulator import Costs, simulate
from loaderviz.trace.analysis.attribution import attribute
from loaderviz.trace.analysis.reading_time import Reading
from loaderviz.trace.merge.run_meta import loader_description

if TYPE_CHECKING:
    from loaderviz.trace import Trace

MOST_BATCHES = 2000  # of an epoch that are simulated: what a batch costs is known by then
MOST_EPOCHS = 20
MOST_SAMPLES = 1 << 24  # in all of them
LEAST_S = 1e-3  # a cause of less is not looked into
UNLIKE = 0.5  # of a cause's seconds: as far as the simulation may be off
NEGLIGIBLE = 0.02  # of the run
PLENTY = 1000.0  # CPUs: nobody waits for one
SELDOM = 0.5  # of the samples: from more that are not known nothing follows
HELPED = 1.2  # times the CPU time of the thread that reads: it has helpers
DEEP = 4  # times the prefetch_factor, and at least twice this


def savings(
    trace: Trace, loader: int, seconds: Mapping[str, float], reading: Reading
) -> dict[str, float]:
    """How many seconds shorter the run would be without each of the causes, by cause.

    ``seconds`` are those of the causes, of all ranks; what is saved is that of one rank.

    Without ``workers`` means one worker more, without ``main_process`` two workers. A cause is left
    out where nobody can tell: where it is unknown, where the trace does not say enough to simulate
    it, or where the simulation of the run as it was does not show it as the trace does.
    """
    n_ranks = max(1, trace.batches["rank"].nunique())
    try:
        recorded = _Recorded.of(trace, loader, reading)
        as_seen = recorded.run(cores=PLENTY)  # samples took what they took
        sharing = as_seen  # ... and would take longer with more workers
        if any(cause in SHARING for cause in seconds):
            sharing = recorded.run(cores=None)
        shown = as_seen.causes()
    except LoaderVizError:
        return {}
    saved = {}
    for cause, all_spent_s in seconds.items():
        spent_s = all_spent_s / n_ranks
        if spent_s < LEAST_S:
            saved[cause] = 0.0
        elif cause in WITHOUT and _is_shown(cause, spent_s, shown, as_seen.elapsed_s):
            run = sharing if cause in SHARING else as_seen
            run = replace(run, epochs=1) if cause == "start" else run
            part = 1.0 if cause in ("start", "restart") else run.scale
            part *= _of_shown(cause, spent_s, shown)
            with suppress(LoaderVizError):
                saved[cause] = max(0.0, run.elapsed_s - WITHOUT[cause](run).elapsed_s) * part
    return saved


def _of_shown(cause: str, spent_s: float, shown: Mapping[str, float]) -> float:
    """Recorded seconds for each that the simulated run has of this cause, as far as that goes."""
    if cause not in SHOWN_ALIKE or not shown.get(cause):
        return 1.0
    return min(max(spent_s / shown[cause], 1 - UNLIKE), 1 / (1 - UNLIKE))


def _is_shown(cause: str, spent_s: float, shown: Mapping[str, float], elapsed_s: float) -> bool:
    """Whether the simulated run has this cause too, at something like its size."""
    if cause not in SHOWN_ALIKE:
        return True
    off_s = abs(shown.get(cause, 0.0) - spent_s)
    return off_s <= max(UNLIKE * spent_s, NEGLIGIBLE * elapsed_s)


@dataclass(frozen=True)
class _Run:
    """A recorded loop over one loader, as ``simulate`` takes it."""

    costs: Costs
    settings: dict[str, Any]
    epochs: int
    part_read: Mapping[str, Any]  # of the samples' time, by cause, for each sample
    scale: float  # seconds recorded for each that is simulated

    @cached_property
    def _simulated(self) -> Trace:
        return simulate(self.costs, epochs=self.epochs, **self.settings)

    @property
    def elapsed_s(self) -> float:
        """Seconds that the simulated loop takes, with what it does between epochs."""
        released_s = self._simulated.batches["released_s"].max()
        return float(np.nanmax([released_s, self._simulated.workers["ended_s"].max()]))

    def causes(self) -> dict[str, float]:
        """Seconds of the simulated loop's waits by cause, as much as the whole run would have."""
        totals = attribute(self._simulated).totals()
        return {cause: seconds * self.scale for cause, seconds in totals.items()}

    def costing(self, **costs: Any) -> _Run:
        return replace(self, costs=replace(self.costs, **costs))

    def set(self, **settings: Any) -> _Run:
        return replace(self, settings={**self.settings, **settings})

    def reading_less(self, cause: str) -> _Run:
        """Samples take what they would without the part that is due to this cause."""
        part = self.part_read.get(cause)
        sample_s = np.asarray(self.costs.sample_s)
        if part is None or np.isnan(part).mean() > SELDOM:
            raise LoaderVizError(
                f"the trace does not tell how much of its samples' time is {cause}"
            )
        part = np.nan_to_num(part)
        left = 1 - part if sample_s.size == len(part) else 1 - float(np.mean(part))
        return self.costing(sample_s=sample_s * left)

    def keeping_workers(self) -> _Run:
        """Workers start once. What they set up for their first sample is kept, too.

        But for a stream, which even a kept worker begins anew in each epoch (torch/utils/data/
        _utils/worker.py, ``_worker_loop``): whether it sets that up again, nobody knows.
        """
        kept = self.set(persistent_workers=True)
        return kept if self.settings.get("kind") == "iterable" else kept.reading_less("restart")

    def with_workers(self, n: int) -> _Run:
        """As many workers, to which a stream is dealt out in equal shares."""
        settings: dict[str, Any] = {"num_workers": n}
        if "shards" in self.settings:
            settings["shards"] = _equal(sum(self.settings["shards"]), n)
        return self.set(**settings)


@dataclass(frozen=True)
class _Recorded:
    """One loader of a recording, in one rank, as far as it is to be simulated."""

    beginning: Trace  # of each epoch, which the costs are fitted to
    loader: int
    settings: dict[str, Any]
    epochs: int
    part_read: Mapping[str, Any]
    scale: float

    def run(self, cores: float | None) -> _Run:
        """It, with as many CPUs as that; None: as many as it had."""
        costs = Costs.from_trace(self.beginning, loader=self.loader, cores=cores)
        return _Run(costs, self.settings, self.epochs, self.part_read, self.scale)

    @classmethod
    def of(cls, trace: Trace, loader: int, reading: Reading) -> _Recorded:
        about = loader_description(trace.meta, loader)
        if not about:
            raise LoaderVizError(f"the trace does not describe its loader {loader}")
        rank = int(trace.batches["rank"].min()) if len(trace.batches) else 0
        rows = ((trace.batches["loader"] == loader) & (trace.batches["rank"] == rank)).to_numpy()
        batches = trace.batches[rows]
        delivered = batches[batches["delivered_s"].notna()]
        n_epochs = max(1, int(delivered["epoch"].nunique()))
        epochs = min(n_epochs, MOST_EPOCHS)
        per_epoch = max(1, round(len(delivered) / n_epochs))
        workers = about.get("num_workers") or 0
        size = int(max(1, delivered["n_samples"].max()))
        most_samples = size * min(per_epoch, MOST_BATCHES) * epochs
        if most_samples > MOST_SAMPLES:
            raise LoaderVizError(f"{most_samples:,} samples are too many to simulate")
        settings: dict[str, Any] = {
            "num_workers": workers,
            "batch_size": size,
            "in_order": bool(about.get("in_order", True)),
            "pin_memory": bool(about.get("pinned", False)),
        }
        if workers:
            settings["prefetch_factor"] = about.get("prefetch_factor") or None
            settings["persistent_workers"] = bool(about.get("persistent_workers", False))
            settings["start_method"] = about.get("start_method") or None
        under_way = workers * (about.get("prefetch_factor") or 1)
        per_simulated_epoch = min(1.0, (MOST_BATCHES + under_way) / per_epoch) / n_epochs
        n_samples = delivered["n_samples"].sum() * per_simulated_epoch
        if about.get("kind") == "iterable":
            settings["kind"] = "iterable"
            own = delivered.groupby("worker")["n_samples"].sum() * per_simulated_epoch
            settings["shards"] = [round(own.get(i, 0)) for i in range(workers)] or [
                round(n_samples)
            ]
        else:
            settings["n_samples"] = max(1, round(n_samples))
        if per_epoch > MOST_BATCHES:
            settings["n_batches"] = MOST_BATCHES
        rows = rows & _begins_its_epoch(trace.batches)
        beginning = _rows_of_rank(trace, rank, rows)
        batches = beginning.batches
        made = batches[["started_s", "collate_s", "ready_s"]].notna().all(axis=1).to_numpy()
        n = batches["n_samples"].to_numpy()[made]
        part_read = {
            cause: np.repeat(part[rows][made], n)
            for cause, part in reading.by_cause.items()
            if cause in ("start", "restart", "slow_samples", "drift", "throttled")
        }
        part_read["cpu"] = np.repeat(_queued_part(batches[made]), n)
        n_simulated = min(per_epoch, MOST_BATCHES) * epochs
        return cls(beginning, loader, settings, epochs, part_read, len(delivered) / n_simulated)


def _begins_its_epoch(table: Any) -> Any:
    """Which rows are of an epoch, and a batch of it, that is simulated."""
    begins = (table["batch"] < MOST_BATCHES) & (table["epoch"] < MOST_EPOCHS)
    return begins.to_numpy()


def _rows_of_rank(trace: Trace, rank: int, rows: Any) -> Trace:
    """The trace of that rank with these of all batches, and their samples."""
    own = trace if trace.batches["rank"].nunique() == 1 else trace.of_ranks([rank])
    samples = own.samples
    if not rows.all():
        loaders = trace.batches["loader"][rows].unique()
        samples = samples[_begins_its_epoch(samples) & samples["loader"].isin(loaders)]
    return replace(own, batches=trace.batches[rows], samples=samples)


def _queued_part(batches: Any) -> Any:
    """Of each batch the part of its reading time in which its worker had no CPU; NaN: unknown."""
    read_s = (batches["collate_s"] - batches["started_s"]).to_numpy()
    helpers = batches["process_cpu_s"] > HELPED * batches["cpu_s"] + LEAST_S
    queued_s = batches["queued_s"].mask(helpers).to_numpy()  # of helper threads nobody knows
    queued_s = queued_s - np.nan_to_num(np.minimum(batches["throttled_s"], queued_s))
    return np.clip(np.divide(queued_s, read_s, out=np.zeros_like(read_s), where=read_s > 0), 0, 1)


def _equal(total: int, n: int) -> list[int]:
    return [total // n + (i < total % n) for i in range(n)]


SHARING = ("workers", "main_process", "prefetch")
SHOWN_ALIKE = ("handover", "pin", "sampler", "collate", "slow_samples", "drift")
WITHOUT: Mapping[str, Callable[[_Run], _Run]] = {
    "start": lambda run: run.costing(startup_s=0.0, boot_s=0.0).reading_less("start"),
    "restart": lambda run: run.keeping_workers(),
    "workers": lambda run: run.with_workers(run.settings["num_workers"] + 1),
    "main_process": lambda run: run.with_workers(2),
    "cpu": lambda run: run.reading_less("cpu"),
    "throttled": lambda run: run.reading_less("throttled"),
    "slow_samples": lambda run: run.reading_less("slow_samples"),
    "drift": lambda run: run.reading_less("drift"),
    "uneven": lambda run: run.with_workers(run.settings["num_workers"]),
    "collate": lambda run: run.costing(collate_s=0.0, collate_sample_s=0.0),
    "handover": lambda run: run.costing(transport_s=0.0, take_s=0.0, take_gil_s=0.0, send_s=0.0),
    "pin": lambda run: run.set(pin_memory=False),
    "sampler": lambda run: run.costing(sampler_s=0.0),
    "prefetch": lambda run: run.set(
        prefetch_factor=DEEP * max(2, run.settings.get("prefetch_factor") or 2)
    ),
}
