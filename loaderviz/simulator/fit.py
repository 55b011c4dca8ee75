"""``Costs.from_trace``: the costs that one recording shows, at any number of workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.simulator.costs import TYPICAL_START, Costs, Floats
from loaderviz.simulator.run import run
from loaderviz.simulator.settings import PREFETCH_FACTOR, Setup
from loaderviz.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

# What a batch of few bytes takes where the recording has not shown it, with torch 2.13 on Linux.
TYPICAL_TRANSPORT_S, TYPICAL_TAKE_S, TYPICAL_DISPATCH_S = 3e-4, 3e-4, 4e-5
TYPICAL_SHUTDOWN_S = 2e-3
TYPICAL_SHARE_S = 2.5e-4
SHORT_S = 0.003  # more than most batches are on their way
LONG_S = 0.05  # more than a batch is on its way, also where its sender waits for Python's own lock
FIXED_COLLATE_S = 2e-5
MOST_BATCHES = 200  # of the simulations that take out what workers waited for a CPU
HALVINGS = 8
AS_SLOW = 0.02  # as far as anybody can tell
UNUSUAL = 4  # times as long: such a batch was not there yet
FEW = 3  # measurements do not tell what is usual
CONTENDED = 0.02  # a smaller part of the time spent on a CPU is not worth that


def fit(trace: Trace, *, loader: int, step_cpu_share: float, cores: float | None) -> Costs:
    batches, about = _seen(trace, loader)
    tasks = _Tasks.of(trace, batches)
    delivered = batches[batches["delivered_s"].notna()].sort_values("delivered_s")
    steps = (delivered["released_s"] - delivered["delivered_s"]).dropna().to_numpy()
    ways = _ways(batches)
    rest = Costs(
        step_s=steps if len(steps) else 0.0,
        step_cpu_share=step_cpu_share,
        cores=cores if cores is not None else trace.meta.get("cpu_allowance"),
        **ways,
        **_start(trace, batches, loader, about, ways["dispatch_s"]),
    )
    return _without_contention(rest, tasks, batches, about)


@dataclass(frozen=True)
class _Tasks:
    """What workers did: arrays of one value a batch, and of one a sample."""

    n: Any
    reading_s: Floats
    collate_s: Floats
    cpu_s: Floats  # of both
    read_s: Floats  # of each sample

    @classmethod
    def of(cls, trace: Trace, batches: pd.DataFrame) -> _Tasks:
        made = batches.dropna(subset=["started_s", "collate_s", "ready_s"])
        return cls(
            n=made["n_samples"].to_numpy(),
            reading_s=(made["collate_s"] - made["started_s"]).to_numpy(),
            collate_s=(made["ready_s"] - made["collate_s"]).to_numpy(),
            cpu_s=made["cpu_s"].fillna(0.0).to_numpy(),
            read_s=_read_s(trace, made),
        )

    def costs(self, rest: Costs, in_worker: bool, waiting: float, collating: float) -> Costs:
        """With that part of what was spent without a CPU, and of the time to collate."""
        collate_s = collating * float(np.median(self.collate_s))
        share_s = min(collate_s, TYPICAL_SHARE_S) if in_worker else 0.0
        fixed_s = min(collate_s - share_s, FIXED_COLLATE_S)
        n = max(1.0, float(np.median(self.n)))
        cpu_s = np.clip(self.cpu_s - collating * self.collate_s, 0.0, self.reading_s)
        share = np.repeat(cpu_s / np.maximum(self.reading_s, 1e-12), self.n)
        part = share + waiting * (1 - share)
        return replace(
            rest,
            sample_s=self.read_s * part if len(part) else 0.0,
            cpu_share=np.minimum(share / np.maximum(part, 1e-12), 1.0) if len(part) else 0.0,
            collate_s=fixed_s,
            collate_sample_s=(collate_s - share_s - fixed_s) / n,
            share_s=share_s if in_worker else TYPICAL_SHARE_S,
        )


def _seen(trace: Any, loader: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The batches of one loader, and how it was configured."""
    if not isinstance(trace, Trace):
        raise LoaderVizError(
            f"Costs.from_trace() takes a Trace, but got {type(trace).__name__}. Take it from a "
            "recording: `with record(loader) as rec: ...`, then Costs.from_trace(rec.trace)."
        )
    batches = trace.batches[trace.batches["loader"] == loader]
    delivered = batches[batches["delivered_s"].notna()]
    if delivered.empty:
        loaders = sorted({int(each) for each in trace.batches["loader"]})
        raise LoaderVizError(
            f"the trace has no delivered batch of loader={loader!r}; those it has are {loaders}. "
            "Record a loop that takes some batches."
        )
    rank = delivered["rank"].min()
    batches = batches[batches["rank"] == rank]
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


def _ways(batches: pd.DataFrame) -> dict[str, Any]:
    """What it takes to send a task, and to get a batch."""
    came = batches[batches["delivered_s"].notna() & (batches["worker"] >= 0)]
    if came.empty:
        return {
            "transport_s": TYPICAL_TRANSPORT_S,
            "take_s": TYPICAL_TAKE_S,
            "dispatch_s": TYPICAL_DISPATCH_S,
            "shutdown_s": TYPICAL_SHUTDOWN_S,
        }
    dispatch_s = _dispatch_s(batches, came)
    requested_s, delivered_s = came["requested_s"].to_numpy(), came["delivered_s"].to_numpy()
    pinned_s, ready_s = came["pinned_s"].to_numpy(), came["ready_s"].to_numpy()
    # A batch that was surely there when it was asked for shows what it takes to take it.
    lay_s = requested_s - np.fmax(ready_s, pinned_s)
    there = lay_s > (LONG_S if (lay_s > LONG_S).sum() >= FEW else SHORT_S)
    handed_s = np.maximum((delivered_s - requested_s)[there] - dispatch_s, 0.0)
    usual_s = _median(handed_s, TYPICAL_TAKE_S)
    take_s = np.minimum(handed_s, UNUSUAL * usual_s) if len(handed_s) >= FEW else TYPICAL_TAKE_S
    # One that was not ready yet shows how long it was on its way.
    waited = requested_s < ready_s
    pins = not np.isnan(pinned_s).all()
    arrived_s = pinned_s if pins else delivered_s - usual_s - dispatch_s
    on_way_s = np.maximum((arrived_s - ready_s)[waited | pins], 0.0)
    pin_s = 0.0
    if pins:
        free_s = np.append(-np.inf, np.sort(pinned_s)[:-1])[np.argsort(np.argsort(pinned_s))]
        pin_s = max(0.0, _median(pinned_s - np.fmax(ready_s, free_s), 0.0) / 2)
        on_way_s = np.maximum(on_way_s - pin_s, 0.0)
    on_way_s = on_way_s[np.isfinite(on_way_s)]
    return {
        "transport_s": on_way_s if len(on_way_s) >= FEW else TYPICAL_TRANSPORT_S,
        "take_s": take_s,
        "pin_s": pin_s,
        "dispatch_s": dispatch_s,
    }


def _dispatch_s(batches: pd.DataFrame, came: pd.DataFrame) -> float:
    """A new task is sent just before a batch is handed over."""
    sent = np.sort(batches["dispatched_s"].dropna().to_numpy())
    handed = came["delivered_s"].to_numpy()
    last = sent[np.maximum(np.searchsorted(sent, handed) - 1, 0)]
    within = (last >= came["requested_s"].to_numpy()) & (last <= handed)
    return _median((handed - last)[within], TYPICAL_DISPATCH_S)


def _start(
    trace: Trace, batches: pd.DataFrame, loader: int, about: dict[str, Any], dispatch_s: float
) -> dict[str, Any]:
    """Of workers: to start one, until it can take a task, and to end it."""
    workers = trace.workers[trace.workers["loader"] == loader]
    method = about.get("start_method") or "fork"
    startup_s, boot_s = TYPICAL_START.get(method, (0.0, 0.0))
    seen = workers.dropna(subset=["started_s", "first_task_s"])
    if seen.empty:
        return {"startup_s": startup_s, "boot_s": boot_s, "start_method": method}
    n = int(about.get("num_workers") or seen["worker"].nunique())
    primed = batches.loc[batches["dispatched_s"] < batches["requested_s"].min(), "dispatched_s"]
    first = seen["started_s"].min()
    if len(primed) and primed.max() > first:  # the threads of the queues start with the first tasks
        startup_s = max(0.0, float(primed.max() - first) - len(primed) * dispatch_s) / n
    boots = (seen["first_task_s"] - seen["started_s"]).to_numpy()
    over = workers["ended_s"].max() - batches["released_s"].max()
    found = {
        "startup_s": startup_s,
        "boot_s": max(0.0, float(np.min(boots))),
        "start_method": method,
    }
    return {**found, "shutdown_s": float(over) / n} if over > 0 else found


def _without_contention(
    rest: Costs, tasks: _Tasks, batches: pd.DataFrame, about: dict[str, Any]
) -> Costs:
    """With less waiting in it, where part of it was for a CPU.

    A recording tells how long a batch took and how long it computed. The rest is what it waited
    for, a disk or its turn on a CPU. How much is of the first kind is found by simulating what was
    recorded: the least that makes the simulation as slow. Where all CPUs were always busy more of
    it would hardly show. Collating only computes, and shrinks too.
    """
    assert rest.cores is not None
    n_workers = int(about.get("num_workers") or 0)
    busy = float(np.sum(tasks.cpu_s) / max(np.sum(tasks.reading_s + tasks.collate_s), 1e-12))
    computing = n_workers + (1 if rest.step_cpu_share else 0)
    if computing <= rest.cores or busy < CONTENDED or not about.get("batch_size"):
        return tasks.costs(rest, n_workers > 0, 1.0, 1.0)
    setup = _as_recorded(batches, about)
    n = setup.n_samples // setup.batch_size
    reading_s = float(np.mean(tasks.reading_s[:n])) * (1 - AS_SLOW)
    collate_s = float(np.median(tasks.collate_s[:n]))
    low, high, waiting, collating = 0.0, 1.0, 0.0, rest.cores / computing
    for _ in range(HALVINGS):
        made = run(tasks.costs(rest, True, waiting, collating), setup).batches
        if float((made["collate_s"] - made["started_s"]).mean()) > reading_s:
            high = waiting
        else:
            low = waiting
        took_s = float((made["ready_s"] - made["collate_s"]).median())
        collating = min(1.0, collating * collate_s / max(took_s, 1e-12))
        waiting = (low + high) / 2
    return tasks.costs(rest, True, waiting, collating)


def _as_recorded(batches: pd.DataFrame, about: dict[str, Any]) -> Setup:
    """The first epoch, as far as it is needed; a stream as a map-style dataset of as much."""
    size = int(about["batch_size"])
    first = batches[batches["epoch"] == batches["epoch"].min()]
    n = max(1, min(int(first["delivered_s"].notna().sum()), MOST_BATCHES))
    return Setup(
        num_workers=int(about["num_workers"]),
        batch_size=size,
        prefetch_factor=int(about.get("prefetch_factor") or PREFETCH_FACTOR),
        in_order=bool(about.get("in_order", True)),
        pin_memory=bool(about.get("pinned", False)),
        persistent_workers=False,
        drop_last=False,
        start_method=about.get("start_method"),
        n_samples=n * size,
        shards=None,
        naive=False,
        most=None,
        epochs=1,
        seed=0,
    )


def _median(values: Any, otherwise: float) -> float:
    values = np.asarray(values, np.float64)
    values = values[~np.isnan(values)]
    return float(np.median(values)) if len(values) else otherwise
