"""``Costs.from_trace``: the costs that one recording shows, at any number of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.simulator.epoch_plan import Floats
from loaderviz.simulator.handover_costs import start, ways
from loaderviz.simulator.simulated_settings import SimulatedSettings
from loaderviz.simulator.simulation import run
from loaderviz.simulator.typical_costs import (
    TYPICAL_SHARE_S,
    TYPICAL_SLICE_S,
    TYPICAL_SWITCHING,
    TYPICAL_WAYS,
)
from loaderviz.trace import Trace
from loaderviz.trace.analysis.rank_summary import ranks_beside

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.simulator.costs import Costs

FIXED_COLLATE_S = 2e-5
AT_LEAST = 0.05  # of the time to collate is not for sharing the bytes
WAYS = ("send_s", "take_s", "transport_s")  # which include waiting for a CPU
MOST_BATCHES = 200  # of the simulations that take out what workers waited for a CPU
HALVINGS = 8
SMALLEST = 0.1  # part of a cost that is no waiting for a CPU
GROWTH = 1.1  # of such a part from one simulation to the next: what few batches show scatters
AS_SLOW = 0.08  # as far as anybody can tell where all CPUs are always busy
CONTENDED = 0.1  # of the CPUs: with less work, hardly anybody waits for one


def fit(trace: Trace, rest: Costs, *, loader: int, cores: float | None) -> Costs:
    """``rest``: what the recording does not tell."""
    trace, beside = _of_one_rank(trace, loader)
    batches, about = _seen(trace, loader)
    tasks = _Tasks.of(trace, batches)
    delivered = batches[batches["delivered_s"].notna()].sort_values("delivered_s")
    steps = (delivered["released_s"] - delivered["delivered_s"]).dropna().to_numpy()
    n_workers = int(about.get("num_workers") or 0)
    rest = replace(
        rest,
        step_s=steps if len(steps) else 0.0,
        cores=cores if cores is not None else _share(trace.meta.get("cpu_allowance"), beside),
        sample_bytes=tasks.sample_bytes,
        slice_s=TYPICAL_SLICE_S,
        switching=TYPICAL_SWITCHING,
    )
    assert rest.cores is not None
    load = n_workers * tasks.busy() / rest.cores
    contended = n_workers + 1 > rest.cores and load > CONTENDED
    in_order = bool(about.get("in_order", True))
    rest = replace(
        rest,
        **{
            **TYPICAL_WAYS,
            **ways(batches, in_order=in_order),
            **start(trace.workers, batches, about),
        },
    )
    if contended and about.get("batch_size"):
        return _without_contention(rest, tasks, batches, _as_recorded(batches, about))
    return tasks.costs(rest, in_worker=n_workers > 0)


@dataclass(frozen=True)
class _Parts:
    """Of what was seen, the parts that are no waiting for a CPU."""

    waiting: float = 1.0  # of the time that was not spent on a CPU
    of: Mapping[str, float] = field(default_factory=dict)  # of the costs that are named, else all

    def shrunk(self, name: str, values: Any) -> Any:
        return values * self.of.get(name, 1.0)


@dataclass(frozen=True)
class _Tasks:
    """What workers did: arrays of one value a batch, and of one a sample."""

    n: Any
    reading_s: Floats
    collate_s: Floats
    cpu_s: Floats  # of both
    read_s: Floats  # of each sample
    sample_bytes: float

    @classmethod
    def of(cls, trace: Trace, batches: pd.DataFrame) -> _Tasks:
        made = batches.dropna(subset=["started_s", "collate_s", "ready_s"])
        n_bytes = (made["n_bytes"] / made["n_samples"].clip(lower=1)).median()
        return cls(
            n=made["n_samples"].to_numpy(),
            reading_s=(made["collate_s"] - made["started_s"]).to_numpy(),
            collate_s=(made["ready_s"] - made["collate_s"]).to_numpy(),
            cpu_s=made["cpu_s"].fillna(0.0).to_numpy(),
            read_s=_read_s(trace, made),
            sample_bytes=0.0 if np.isnan(n_bytes) else float(n_bytes),
        )

    def busy(self) -> float:
        """The part of the time in which they computed."""
        took_s = np.sum(self.reading_s + self.collate_s)
        return float(np.sum(self.cpu_s) / max(took_s, 1e-12))

    def costs(self, rest: Costs, *, in_worker: bool, parts: _Parts | None = None) -> Costs:
        parts = parts or _Parts()
        n = max(1.0, float(np.median(self.n)))
        collate_s = parts.shrunk("collate_s", float(np.median(self.collate_s)))
        n_bytes = n * self.sample_bytes
        share_s, bytes_per_s, steps = TYPICAL_SHARE_S, rest.bytes_per_s, rest.step_s
        if in_worker:
            share_s = min(collate_s, TYPICAL_SHARE_S)
            bytes_s = min(n_bytes / bytes_per_s, (1 - AT_LEAST) * (collate_s - share_s))
            collate_s -= share_s + bytes_s
            if bytes_s:
                bytes_per_s = n_bytes / bytes_s
            release_s = n_bytes / rest.release_bytes_per_s
            steps = np.maximum(parts.shrunk("step_s", steps) - release_s, 0.0)
        fixed_s = min(collate_s, FIXED_COLLATE_S)
        cpu_s = np.clip(self.cpu_s - parts.shrunk("collate_s", self.collate_s), 0.0, self.reading_s)
        share = np.repeat(cpu_s / np.maximum(self.reading_s, 1e-12), self.n)
        part = share + parts.waiting * (1 - share)
        return replace(
            rest,
            sample_s=self.read_s * part if len(part) else 0.0,
            cpu_share=np.minimum(share / np.maximum(part, 1e-12), 1.0) if len(part) else 0.0,
            collate_s=fixed_s,
            collate_sample_s=(collate_s - fixed_s) / n,
            share_s=share_s,
            bytes_per_s=bytes_per_s,
            step_s=steps,
            **{name: parts.shrunk(name, getattr(rest, name)) for name in WAYS},
        )


def _of_one_rank(trace: Any, loader: int) -> tuple[Trace, int]:
    """This loader in the first rank that took its batches; how many ranks shared its machine."""
    if not isinstance(trace, Trace):
        raise LoaderVizError(
            f"Costs.from_trace() takes a Trace, but got {type(trace).__name__}. Take it from a "
            "recording: `with record(loader) as rec: ...`, then Costs.from_trace(rec.trace)."
        )
    ranks = trace.batches["rank"]
    taken = ranks[(trace.batches["loader"] == loader) & trace.batches["delivered_s"].notna()]
    if taken.empty:
        loaders = sorted({int(each) for each in trace.batches["loader"]})
        raise LoaderVizError(
            f"the trace has no delivered batch of loader={loader!r}; those it has are {loaders}. "
            "Record a loop that takes some batches."
        )
    rank = int(taken.min())
    several = ranks.min() != ranks.max()
    alone = trace.of_ranks([rank]) if several else trace
    return alone.of_loader(loader), ranks_beside(trace, rank)


def _share(cpus: float | None, ranks: int) -> float | None:
    return None if cpus is None else cpus / ranks


def _seen(trace: Trace, loader: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The batches, and how the loader was configured."""
    batches = trace.batches
    if batches["ready_s"].isna().all():
        raise LoaderVizError(
            "the trace does not show its batches where they were made: the workers were started "
            "before the recording. Begin to record before the first epoch."
        )
    about: list[Any] = trace.meta.get("loaders") or []
    return batches, dict(about[loader]) if 0 <= loader < len(about) else {}


def _read_s(trace: Trace, made: pd.DataFrame) -> Floats:
    """Of each sample, so that those of a batch add up to what reading it took.

    All have the same part where they are not known one by one: read in one call, or left out.
    """
    n = made["n_samples"].to_numpy()
    reading_s = (made["collate_s"] - made["started_s"]).to_numpy()
    each = np.repeat(reading_s / np.maximum(n, 1), n)
    which = ["rank", "loader", "epoch", "batch"]
    rows = trace.samples.dropna(subset=["start_s", "end_s"])
    rows = rows.merge(made[which].assign(row=np.arange(len(made))), on=which)
    row, position = rows["row"].to_numpy(), rows["position"].to_numpy()
    took_s = (rows["end_s"] - rows["start_s"]).to_numpy()
    in_all_s = np.bincount(row, took_s, len(made))
    one_by_one = (np.bincount(row, minlength=len(made)) == n) & (in_all_s > 0)
    scale = np.divide(reading_s, in_all_s, out=np.zeros_like(reading_s), where=one_by_one)
    known = one_by_one[row]
    place = (np.cumsum(n) - n)[row] + position
    each[place[known]] = (took_s * scale[row])[known]
    return np.asarray(each, np.float64)


def _without_contention(
    rest: Costs, tasks: _Tasks, batches: pd.DataFrame, settings: SimulatedSettings
) -> Costs:
    """With less waiting in it, where part of it was for a CPU.

    A recording tells how long a batch took and how long it computed. The rest is what it waited
    for, a disk or its turn on a CPU. How much is of the first kind is found by simulating what was
    recorded: the least that makes the simulation as slow. Where all CPUs were always busy more of
    it would hardly show. What only computes shrinks too, until the same look at the simulation
    shows as much of it as at the recording.
    """
    assert rest.cores is not None
    n = settings.n_samples // settings.batch_size
    load = min(1.0, settings.loader.num_workers * tasks.busy() / rest.cores)
    reading_s = float(np.mean(tasks.reading_s[:n])) * (1 - AS_SLOW * load**4)
    seen = _shown(batches, settings.loader.in_order)
    low, high = 0.0, 1.0
    parts = _Parts(of={"collate_s": min(1.0, rest.cores / (settings.loader.num_workers + 1))})
    for _ in range(HALVINGS):
        made = run(tasks.costs(rest, in_worker=True, parts=parts), settings).batches
        if float((made["collate_s"] - made["started_s"]).mean()) > reading_s:
            high = parts.waiting
        else:
            low = parts.waiting
        shown = _shown(made, settings.loader.in_order)
        of = {
            name: min(1.0, max(SMALLEST, part * min(seen[name] / max(shown[name], 1e-9), GROWTH)))
            for name, part in ((each, parts.of.get(each, 1.0)) for each in seen.keys() & shown)
        }
        parts = _Parts((low + high) / 2, {**parts.of, **of})
    return tasks.costs(rest, in_worker=True, parts=parts)


def _shown(batches: pd.DataFrame, in_order: bool) -> dict[str, float]:
    """The mean costs at first sight: what they waited for a CPU is in them."""
    found = {name: float(np.mean(each)) for name, each in ways(batches, in_order=in_order).items()}
    step_s = float((batches["released_s"] - batches["delivered_s"]).mean())
    collate_s = float((batches["ready_s"] - batches["collate_s"]).median())
    shown = {name: found[name] for name in WAYS if name in found}
    return {**shown, "step_s": step_s, "collate_s": collate_s}


def _as_recorded(batches: pd.DataFrame, about: dict[str, Any]) -> SimulatedSettings:
    """The first epoch, as far as it is needed; a stream as a map-style dataset of as much."""
    size = int(about["batch_size"])
    first = batches[batches["epoch"] == batches["epoch"].min()]
    n = max(1, min(int(first["delivered_s"].notna().sum()), MOST_BATCHES))
    return SimulatedSettings(
        LoaderSettings.of(about),
        batch_size=size,
        n_samples=n * size,
        start_method=about.get("start_method"),
    )
