"""One loader of a recording as ``simulate`` takes it: costs, settings, and their causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.simulator import Costs
from loaderviz.simulator.simulated_settings import checked
from loaderviz.simulator.simulated_trace import SimulatedRun
from loaderviz.simulator.simulation import run_simulation
from loaderviz.simulator.start_costs import begun_elsewhere_s, start_costs
from loaderviz.trace.analysis.around_epochs import startups
from loaderviz.trace.analysis.attribution import attribute
from loaderviz.trace.analysis.reading_time import Reading
from loaderviz.trace.analysis.steps import leaves_early
from loaderviz.trace.analysis.unlike_workers import slow_worker
from loaderviz.trace.merge.run_meta import loader_description

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

MOST_BATCHES = 2000  # of an epoch that are simulated: what a batch costs is known by then
MOST_EPOCHS = 20
MOST_AHEAD = 8  # times the batches that are under way: left behind by a loop that ends early
MOST_SAMPLES = 1 << 24  # in all of them
LEAST_S = 1e-3  # of CPU time a batch: less is the threads of queues
SELDOM = 0.5  # of the samples: from more that are not known nothing follows
HELPED = 1.2  # times the CPU time of the thread that reads: it has helpers
PLENTY = 1000.0  # CPUs: nobody waits for one


@dataclass(frozen=True)
class Run:
    """A recorded loop over one loader, as ``simulate`` takes it."""

    costs: Costs
    settings: dict[str, Any]
    epochs: int
    part_read: Mapping[str, Any]  # of the samples' time, by cause, for each sample
    scale: float  # seconds recorded for each that is simulated

    @cached_property
    def _simulated(self) -> SimulatedRun:
        of_dataset = dict(self.settings)
        names = [field.name for field in fields(LoaderSettings) if field.name in of_dataset]
        loader = LoaderSettings(**{name: of_dataset.pop(name) for name in names})
        if loader.num_workers:
            of_dataset["start_method"] = of_dataset.get("start_method") or self.costs.start_method
        return run_simulation(self.costs, checked(loader, epochs=self.epochs, **of_dataset))

    @property
    def elapsed_s(self) -> float:
        """Seconds that the simulated loop takes, with what it does between epochs."""
        return self._simulated.elapsed_s

    def causes(self) -> dict[str, float]:
        """Seconds of the simulated loop's waits by cause, as much as the whole run would have."""
        totals = attribute(self._simulated.trace()).totals()
        return {cause: seconds * self.scale for cause, seconds in totals.items()}

    def costing(self, **costs: Any) -> Run:
        return replace(self, costs=replace(self.costs, **costs))

    def set(self, **settings: Any) -> Run:
        return replace(self, settings={**self.settings, **settings})

    def reading_less(self, cause: str) -> Run:
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

    def keeping_workers(self) -> Run:
        """Workers start once. What they set up for their first sample is kept, too.

        But for a stream, which even a kept worker begins anew in each epoch (torch/utils/data/
        _utils/worker.py, ``_worker_loop``): whether it sets that up again, nobody knows.
        """
        kept = self.set(persistent_workers=True)
        return kept if self.settings.get("kind") == "iterable" else kept.reading_less("restart")

    def with_workers(self, n: int) -> Run:
        """As many workers, to which a stream is dealt out in equal shares."""
        settings: dict[str, Any] = {"num_workers": n}
        if "shards" in self.settings:
            settings["shards"] = _equal(sum(self.settings["shards"]), n)
        return self.set(**settings)


@dataclass(frozen=True)
class RecordedLoader:
    """One loader of a recording, in one rank, as far as it is to be simulated."""

    beginning: Trace  # of each epoch, which the costs are fitted to; of other loaders all batches
    loader: int
    settings: dict[str, Any]
    epochs: int
    part_read: Mapping[str, Any]
    scale: float

    @property
    def batches(self) -> pd.DataFrame:
        """Its own of these."""
        batches = self.beginning.batches
        return batches[batches["loader"] == self.loader]

    @cached_property
    def has_slow_worker(self) -> bool:
        """Whether one of its workers is far slower than all others."""
        return slow_worker(self.batches) is not None

    def run(self, *, sharing_cpus: bool = False) -> Run:
        """It, with samples that take what they took; or longer, the more workers share the CPUs."""
        cores = None if sharing_cpus else PLENTY
        costs = Costs.from_trace(self.beginning, loader=self.loader, cores=cores)
        return Run(costs, self.settings, self.epochs, self.part_read, self.scale)

    def costs_of_a_restart(self, run: Run) -> dict[str, float]:
        """To start workers once more, which may take less than a process's first ones did."""
        n, workers = self.settings["num_workers"], self.beginning.workers
        own = workers[workers["loader"] == self.loader].sort_values("started_s")
        again = [own.iloc[row : row + n] for row in range(n, len(own), n)] if n else []
        spans = [span for span in startups(self.beginning) if span[1] == self.loader][1:]
        if not spans or len(spans) != len(again):
            return {}
        lengths_s = [end - start - self._drawing_s(start, end) for _, _, start, end in spans]
        usual = int(np.argsort(lengths_s)[len(lengths_s) // 2])
        about = loader_description(self.beginning.meta, self.loader)
        elsewhere_s = begun_elsewhere_s(self.beginning, self.loader)
        boot_s = start_costs(again[usual], self.batches, about, elsewhere_s)["boot_s"]
        # As recorded, that was stretched, too, where the run had less than one CPU.
        boot_s *= min(1.0, run.costs.cores or 1.0)
        return {"startup_s": lengths_s[usual] / n, "boot_s": boot_s}

    def _drawing_s(self, start_s: float, end_s: float) -> float:
        """How much of that time it drew keys."""
        begun_s, sent_s = (self.batches[name].to_numpy() for name in ("drawing_s", "dispatched_s"))
        return float((sent_s - begun_s)[(begun_s >= start_s) & (sent_s <= end_s)].sum())

    @classmethod
    def of(cls, trace: Trace, loader: int, reading: Reading) -> RecordedLoader:
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
        leaves = bool(workers) and leaves_early(batches)
        unread = MOST_AHEAD * under_way * size if leaves else 0
        per_simulated_epoch = min(1.0, (MOST_BATCHES + under_way) / per_epoch) / n_epochs
        n_samples = delivered["n_samples"].sum() * per_simulated_epoch
        if about.get("kind") == "iterable":
            settings["kind"] = "iterable"
            own = delivered.groupby("worker")["n_samples"].sum() * per_simulated_epoch
            settings["shards"] = [round(own.get(i, 0)) + unread for i in range(workers)] or [
                round(n_samples)
            ]
        else:
            settings["n_samples"] = max(1, round(n_samples)) + unread
        if leaves or per_epoch > MOST_BATCHES:
            settings["n_batches"] = min(per_epoch, MOST_BATCHES)
        rows = rows & _begins_its_epoch(trace.batches)
        beginning = _beginning(trace, rank, loader, rows)
        batches = trace.batches[rows]
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


def _beginning(trace: Trace, rank: int, loader: int, rows: Any) -> Trace:
    """The trace of that rank with these of the loader's batches and samples, and those of others.

    When other loaders begin shows what the loop did between two epochs of this one.
    """
    several = trace.batches["rank"].nunique() > 1
    own = trace.of_ranks([rank]) if several else trace
    if rows.all():
        return own
    batches, samples = trace.batches, own.samples
    others = (batches["loader"] != loader) & (batches["rank"] == rank)
    samples = samples[_begins_its_epoch(samples) & (samples["loader"] == loader)]
    return replace(own, batches=batches[rows | others], samples=samples)


def _queued_part(batches: Any) -> Any:
    """Of each batch the part of its reading time in which its worker had no CPU; NaN: unknown."""
    read_s = (batches["collate_s"] - batches["started_s"]).to_numpy()
    helpers = batches["process_cpu_s"] > HELPED * batches["cpu_s"] + LEAST_S
    queued_s = batches["queued_s"].mask(helpers).to_numpy()  # of helper threads nobody knows
    queued_s = queued_s - np.nan_to_num(np.minimum(batches["throttled_s"], queued_s))
    return np.clip(np.divide(queued_s, read_s, out=np.zeros_like(read_s), where=read_s > 0), 0, 1)


def _equal(total: int, n: int) -> list[int]:
    return [total // n + (i < total % n) for i in range(n)]
