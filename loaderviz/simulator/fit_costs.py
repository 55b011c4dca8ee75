"""``Costs.from_trace``: the costs that one recording shows, at any number of workers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.simulator.epoch_plan import Floats
from loaderviz.simulator.handover_costs import handover_costs
from loaderviz.simulator.simulated_settings import SimulatedSettings
from loaderviz.simulator.simulation import run_simulation
from loaderviz.simulator.start_costs import begun_elsewhere_s, start_costs
from loaderviz.simulator.typical_costs import (
    TYPICAL_HANDOVER,
    TYPICAL_SHARE_S,
)
from loaderviz.trace import Trace
from loaderviz.trace.analysis.loader_share import is_unseen
from loaderviz.trace.analysis.rank_summary import ranks_beside
from loaderviz.trace.check_trace import MOST_SAMPLES
from loaderviz.trace.columns_of_rows import BATCH, arrays, batch_rows
from loaderviz.trace.merge.run_meta import loader_description

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.simulator.costs import Costs

FIXED_COLLATE_S = 2e-5
LEAST_S = 2e-4  # of CPU time a batch: less is the threads of queues
LEAST_COLLATING = 0.05  # at least this part of the time to collate is not sharing bytes
# As recorded, they include waiting for a CPU.
HANDOVER = ("send_s", "take_s", "take_gil_s", "transport_s")
COMPUTED = ("startup_s", "boot_s", "shutdown_s", "dispatch_s", "sampler_s", "first_key_s")
# To take out what processes waited for a CPU:
MOST_BATCHES = 200  # in each simulation
HALVINGS = 8  # of the range in which the part that was waiting lies, with a simulation each
SMALLEST_PART = 0.1  # of a cost that was not waiting for a CPU
GROWTH = 1.1  # of such a part from one simulation to the next at most, as few batches scatter
HELPED = 1.2  # times the CPU time of the thread that reads: helper threads computed, too
AS_SLOW = 0.08  # a smaller difference does not show where all CPUs are always busy
BY_CHANCE = 0.18  # of standing in line: simulations of the same costs differ by this
COMPUTE = 0.5  # of the time in which they wait for no CPU: the others hardly need more of them
FEWEST_CORES = 0.05  # left over by other processes
CONTENDED = 0.1  # of the CPUs: with less work than that, processes hardly ever wait for one


def fit(trace: Trace, assumed: Costs, *, loader: int, cores: float | None) -> Costs:
    """``Costs.from_trace``; costs that the recording does not tell stay as ``assumed``.

    Where ``cores`` is None, the CPUs that were allowed are shared evenly among the machine's ranks.
    """
    whole, n_ranks = _of_one_rank(trace, loader)
    trace = whole.of_loader(loader)
    batches, description = _batches_and_description(trace, loader)
    tasks = _Tasks.from_trace(trace, batches)
    delivered = batches[batches["delivered_s"].notna()].sort_values("delivered_s")
    steps = (delivered["released_s"] - delivered["delivered_s"]).dropna().to_numpy()
    n_workers = int(description.get("num_workers") or 0)
    costs = replace(
        assumed,
        step_s=steps if len(steps) else 0.0,
        cores=cores if cores is not None else _per_rank(trace.meta.get("cpu_allowance"), n_ranks),
        sample_bytes=tasks.sample_bytes,
    )
    assert costs.cores is not None
    load = n_workers * tasks.busy() / costs.cores
    contended = n_workers + 1 > costs.cores and load > CONTENDED
    in_order = bool(description.get("in_order", True))
    costs = replace(
        costs,
        **{
            **TYPICAL_HANDOVER,
            **handover_costs(batches, in_order=in_order),
            **start_costs(trace.workers, batches, description, begun_elsewhere_s(whole, loader)),
        },
    )
    crowded = tasks.queued > CONTENDED and tasks.computing() > COMPUTE
    if description.get("batch_size") and n_workers and crowded:
        return _with_cpus_it_had(costs, tasks, batches, _as_recorded(batches, description))
    if contended and description.get("batch_size"):
        return _without_contention(costs, tasks, batches, _as_recorded(batches, description))
    return tasks.costs(costs, in_worker=n_workers > 0)


@dataclass(frozen=True)
class _Parts:
    """The parts, 0 to 1, of recorded times that are not waiting for a CPU."""

    waiting: float = 1.0  # of the time of reading in which no CPU was used
    by_cost: Mapping[str, float] = field(default_factory=dict)  # all of a cost that is not named

    def shrunk(self, name: str, values: Any) -> Any:
        """The values of a cost without the waiting for a CPU."""
        return values * self.by_cost.get(name, 1.0)


@dataclass(frozen=True)
class _Tasks:
    """What workers did: arrays of one value a batch, where nothing else is said."""

    n: Any  # samples
    reading_s: Floats
    collate_s: Floats
    cpu_s: Floats  # of reading and collating: how long, whatever the number of threads
    threads: float  # that compute at once
    sample_s: Floats  # of each sample
    sample_bytes: float  # of a sample: the median of the batches
    queued: float = math.nan  # the part of all this time that they waited for a CPU, by the kernel

    @classmethod
    def from_trace(cls, trace: Trace, batches: pd.DataFrame) -> _Tasks:
        """The tasks whose batches are complete."""
        made = batches.dropna(subset=["started_s", "collate_s", "ready_s"])
        made = made[made["n_samples"].cumsum() <= MOST_SAMPLES]
        cpu_s, threads, helped = _computing(made)
        took_s = float((made["ready_s"] - made["started_s"]).sum())
        # How long helpers wait for a CPU nobody knows.
        queued_s = math.nan if helped else float(made["queued_s"].sum(skipna=False))
        n_bytes = (made["n_bytes"] / made["n_samples"].clip(lower=1)).median()
        return cls(
            n=made["n_samples"].to_numpy(),
            reading_s=(made["collate_s"] - made["started_s"]).to_numpy(),
            collate_s=(made["ready_s"] - made["collate_s"]).to_numpy(),
            cpu_s=cpu_s,
            threads=threads,
            sample_s=_sample_s(trace, made),
            sample_bytes=0.0 if np.isnan(n_bytes) else float(n_bytes),
            # Where a worker hardly ran, clocks that are read one after the other make it over 1.
            queued=float(np.minimum(queued_s / took_s, 1.0)) if took_s > 0 else math.nan,
        )

    def busy(self) -> float:
        """How many CPUs a worker kept busy, on average."""
        took_s = np.sum(self.reading_s + self.collate_s)
        return float(np.sum(self.cpu_s) * self.threads / max(took_s, 1e-12))

    def computing(self) -> float:
        """Of the time in which they waited for no CPU, the part that they computed, 0 to 1."""
        took_s = np.sum(self.reading_s + self.collate_s)
        return float(np.sum(self.cpu_s) / max((1 - self.queued) * took_s, 1e-12))

    def costs(self, known: Costs, *, in_worker: bool, parts: _Parts | None = None) -> Costs:
        """``known`` with the costs of reading, collating and sharing, shrunk to their ``parts``."""
        parts = parts or _Parts()
        n = max(1.0, float(np.median(self.n)))
        collate_s = parts.shrunk("collate_s", float(np.median(self.collate_s)))
        n_bytes = n * self.sample_bytes
        share_s, bytes_per_s, steps = TYPICAL_SHARE_S, known.bytes_per_s, known.step_s
        if in_worker:
            share_s = min(collate_s, TYPICAL_SHARE_S)
            bytes_s = min(n_bytes / bytes_per_s, (1 - LEAST_COLLATING) * (collate_s - share_s))
            collate_s -= share_s + bytes_s
            if bytes_s:
                bytes_per_s = n_bytes / bytes_s
            release_s = n_bytes / known.release_bytes_per_s
            steps = np.maximum(parts.shrunk("step_s", steps) - release_s, 0.0)
        fixed_s = min(collate_s, FIXED_COLLATE_S)
        cpu_s = np.clip(self.cpu_s - parts.shrunk("collate_s", self.collate_s), 0.0, self.reading_s)
        share = np.repeat(cpu_s / np.maximum(self.reading_s, 1e-12), self.n)
        part = share + parts.waiting * (1 - share)
        return replace(
            known,
            sample_s=self.sample_s * part if len(part) else 0.0,
            cpu_share=np.minimum(share / np.maximum(part, 1e-12), 1.0) if len(part) else 0.0,
            threads=self.threads,
            collate_s=fixed_s,
            collate_sample_s=(collate_s - fixed_s) / n,
            share_s=share_s,
            bytes_per_s=bytes_per_s,
            step_s=steps,
            **{name: parts.shrunk(name, getattr(known, name)) for name in HANDOVER},
        )


def _of_one_rank(trace: Any, loader: int) -> tuple[Trace, int]:
    """The first rank that took this loader's batches, and how many ranks share its machine."""
    if not isinstance(trace, Trace):
        raise LoaderVizError(
            f"Costs.from_trace() takes a Trace, but got {type(trace).__name__}. Take it from a "
            "recording: `with record(loader) as rec: ...`, then Costs.from_trace(rec.trace)."
        )
    ranks = trace.batches["rank"]
    taken = ranks[(trace.batches["loader"] == loader) & trace.batches["delivered_s"].notna()]
    if taken.empty:
        loaders = sorted({int(number) for number in trace.batches["loader"]})
        raise LoaderVizError(
            f"the trace has no delivered batch of loader={loader!r}; those it has are {loaders}. "
            "Record a loop that takes some batches."
        )
    rank = int(taken.min())
    several = ranks.min() != ranks.max()
    of_rank = trace.of_ranks([rank]) if several else trace
    return of_rank, ranks_beside(trace, rank)


def _per_rank(cpus: float | None, n_ranks: int) -> float | None:
    return None if cpus is None else cpus / n_ranks


def _batches_and_description(trace: Trace, loader: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The batches, and the loader as the recorder describes it."""
    batches = trace.batches
    if batches[["started_s", "collate_s", "ready_s"]].isna().any(axis=1).all():
        why = (
            "the loader is not one of torch's, or makes them in its own way. trace.summary() "
            "says what its loop waits for."
            if is_unseen(batches)
            else "the workers were started before the recording. Begin to record before the first "
            "epoch."
        )
        raise LoaderVizError(f"the trace does not show its batches where they were made: {why}")
    return batches, loader_description(trace.meta, loader)


def _computing(made: pd.DataFrame) -> tuple[Floats, float, bool]:
    """Seconds by the clock in which each batch's worker computed, and in how many threads at once.

    And whether others than the thread that reads did, in this process or in children of it. Where
    CPUs are too few for all threads, no more are seen than ran.
    """
    thread_s = made["cpu_s"].fillna(0.0).to_numpy()
    process_s = made["process_cpu_s"].fillna(0.0).to_numpy()
    took_s = np.maximum((made["ready_s"] - made["started_s"]).to_numpy(), 1e-9)
    if not len(made) or np.sum(process_s) < HELPED * np.sum(thread_s) + LEAST_S * len(made):
        return thread_s, 1.0, False
    threads = max(1.0, float(np.quantile(process_s / took_s, 0.9)))
    return np.maximum(np.minimum(process_s / threads, took_s), 0.0), threads, True


def _sample_s(trace: Trace, made: pd.DataFrame) -> Floats:
    """Seconds of each sample, scaled so that a batch's samples add up to what reading it took.

    Samples of a batch share its time evenly where they were read in one call or some are missing.
    """
    n = made["n_samples"].to_numpy()
    reading_s = (made["collate_s"] - made["started_s"]).to_numpy()
    sample_s = np.repeat(reading_s / np.maximum(n, 1), n)
    samples = arrays(trace.samples[[*BATCH, "position", "start_s", "end_s"]])
    took_s = samples["end_s"] - samples["start_s"]
    row = batch_rows(samples, arrays(made[[*BATCH]]))
    read = (row >= 0) & ~np.isnan(took_s)
    row, position, took_s = row[read], samples["position"][read], took_s[read]
    total_s = np.bincount(row, took_s, len(made))
    one_by_one = (np.bincount(row, minlength=len(made)) == n) & (total_s > 0)
    scale = np.divide(reading_s, total_s, out=np.zeros_like(reading_s), where=one_by_one)
    known = one_by_one[row]
    place = (np.cumsum(n) - n)[row] + position
    sample_s[place[known]] = (took_s * scale[row])[known]
    return np.asarray(sample_s, np.float64)


def _with_cpus_it_had(
    known: Costs, tasks: _Tasks, batches: pd.DataFrame, settings: SimulatedSettings
) -> Costs:
    """The costs of tasks without the time that processes waited for a CPU, which the kernel tells.

    What workers of this loader wait for one another is simulated. Where they waited longer, other
    processes had the CPUs: ``cores`` is then what was left, with which the simulation takes as long
    as the recording.
    """
    assert known.cores is not None
    n = settings.n_samples // settings.batch_size
    reading_s = float(np.mean(tasks.reading_s[:n]))
    took_s = float(np.sum(tasks.reading_s + tasks.collate_s))
    idle_s = max(took_s - float(np.sum(tasks.cpu_s)), 1e-12)
    waiting = 1 - min(1.0, tasks.queued * took_s / idle_s)
    recorded = _mean_costs(batches, settings.loader.in_order)
    low, high, cores = FEWEST_CORES, known.cores, known.cores
    parts = _Parts(waiting, {"collate_s": 1 - tasks.queued})
    for _ in range(HALVINGS):
        costs = tasks.costs(replace(known, cores=cores), in_worker=True, parts=parts)
        made = _simulated(costs, settings)
        if float((made["collate_s"] - made["started_s"]).mean()) > reading_s:
            low = cores
        else:
            high = cores
        cores = math.sqrt(low * high)
        parts = _Parts(
            waiting, _grown(parts, recorded, _mean_costs(made, settings.loader.in_order))
        )
    # As recorded, these were stretched, too, where less than one CPU was left.
    computing = {name: getattr(known, name) * min(1.0, cores) for name in COMPUTED}
    return tasks.costs(replace(known, cores=cores, **computing), in_worker=True, parts=parts)


def _without_contention(
    known: Costs, tasks: _Tasks, batches: pd.DataFrame, settings: SimulatedSettings
) -> Costs:
    """The costs of tasks without the time that processes waited for a CPU.

    A recording tells how long a batch took, and how long a CPU worked on it. Otherwise it waited:
    for a disk, or for its turn on a CPU. How much of it was for a disk is found by simulating what
    was recorded: the least that makes the simulation as slow. Where all CPUs were always busy, more
    of it would hardly show. Costs that only compute shrink, too, until they look in the simulation
    as they do in the recording.
    """
    assert known.cores is not None
    n = settings.n_samples // settings.batch_size
    load = min(1.0, settings.loader.num_workers * tasks.busy() / known.cores)
    reading_s = float(np.mean(tasks.reading_s[:n])) * (1 - AS_SLOW * load**4)
    recorded = _mean_costs(batches, settings.loader.in_order)
    collating = min(1.0, known.cores / (settings.loader.num_workers + 1))
    by_chance = BY_CHANCE * (1 - min(1.0, tasks.busy()))
    for most in (0.0, 1.0):  # that they waited for nothing else is supposed if that suffices
        low, high = 0.0, most
        parts = _Parts(high, {"collate_s": collating})
        readings_s = []
        for _ in range(HALVINGS):
            costs = tasks.costs(known, in_worker=True, parts=parts)
            made = _simulated(costs, settings)
            readings_s.append(float((made["collate_s"] - made["started_s"]).mean()))
            if readings_s[-1] > reading_s:
                high = parts.waiting
            else:
                low = parts.waiting
            simulated = _mean_costs(made, settings.loader.in_order)
            parts = _Parts((low + high) / 2, _grown(parts, recorded, simulated))
        if mean(readings_s[-HALVINGS // 2 :]) > reading_s * (1 - by_chance):
            break
    return tasks.costs(known, in_worker=True, parts=parts)


def _simulated(costs: Costs, settings: SimulatedSettings) -> pd.DataFrame:
    """The times of simulated batches; a ``Trace`` of them would take longer to make."""
    import pandas as pd

    columns = run_simulation(costs, settings).batches()
    del columns["state"]
    return pd.DataFrame(columns, copy=False)


def _grown(
    parts: _Parts, recorded: Mapping[str, float], simulated: Mapping[str, float]
) -> dict[str, float]:
    """The parts of costs, nearer to those with which the simulation looks like the recording."""
    by_cost = dict(parts.by_cost)
    for name in recorded.keys() & simulated:
        growth = min(recorded[name] / max(simulated[name], 1e-9), GROWTH)
        by_cost[name] = min(1.0, max(SMALLEST_PART, by_cost.get(name, 1.0) * growth))
    return by_cost


def _mean_costs(batches: pd.DataFrame, in_order: bool) -> dict[str, float]:
    """Costs as the batches show them, on average, with the waiting for a CPU in them."""
    handover = handover_costs(batches, in_order=in_order)
    means = {name: float(np.mean(handover[name])) for name in HANDOVER if name in handover}
    step_s = float((batches["released_s"] - batches["delivered_s"]).mean())
    collate_s = float((batches["ready_s"] - batches["collate_s"]).median())
    return {**means, "step_s": step_s, "collate_s": collate_s}


def _as_recorded(batches: pd.DataFrame, description: dict[str, Any]) -> SimulatedSettings:
    """The first epoch, as far as it is needed; a stream as a map-style dataset of that size."""
    size = int(description["batch_size"])
    first = batches[batches["epoch"] == batches["epoch"].min()]
    n = max(1, min(int(first["delivered_s"].notna().sum()), MOST_BATCHES))
    return SimulatedSettings(
        LoaderSettings.of(description),
        batch_size=size,
        n_samples=n * size,
        start_method=description.get("start_method"),
    )
