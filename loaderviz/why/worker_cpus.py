"""The CPUs of workers: fewer than they should share, or more threads than there are of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from loaderviz.machine import cpus_in
from loaderviz.trace.steps import seconds_within

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

HELPED: Final = 1.5  # times the CPU time of the thread that reads: other threads compute, too
LITTLE: Final = 0.25  # of the CPU time: the thread that reads mostly waits for others
SIDE_BY_SIDE: Final = 1.1  # CPUs that a worker has used in some batch: its threads computed at once
MOSTLY: Final = 0.6  # of the CPUs: where less is in use, they are not what is lacking
LEAST_BATCH_S: Final = 0.01  # to measure how many CPUs were in use while it was made


def shared_cpus(trace: Trace, loader: int, rank: int) -> set[int] | None:
    """The CPUs that all workers of a loader share where these are too few, by their affinity.

    Too few are fewer than there are workers, and than the main process may use: something that the
    workers import or run has set it. None where that is not so, or not known.
    """
    workers = trace.workers
    own = workers[(workers["loader"] == loader) & (workers["rank"] == rank)]
    cpus = {cpu for listed in own["cpus_allowed"].dropna().unique() for cpu in cpus_in(listed)}
    allowed = trace.meta.get("cpu_allowance")
    if not cpus or not allowed or own["cpus_allowed"].isna().any():
        return None
    return cpus if len(cpus) < min(allowed, own["worker"].nunique()) else None


@dataclass(frozen=True)
class CpusInUse:
    """How many CPUs main process and workers use while a loader's batches are made, on average.

    Attributes:
        of_workers: those of all its loaders.
        of_main: its main process, in all threads, at least: over the whole recording. 0: unknown.
        at_most: both, where the main process computed at no other time. Infinity: unknown. What
            samples start, and what they ask, is in neither.
    """

    of_workers: float
    of_main: float
    at_most: float

    @classmethod
    def of(cls, trace: Trace, loader: int) -> CpusInUse:
        """Of all ranks together, where there are several."""
        batches = trace.batches
        own = batches[(batches["loader"] == loader) & (batches["ready_s"] > batches["started_s"])]
        lanes = own.groupby(["rank", "epoch"])
        begin, end = lanes["started_s"].min(), lanes["ready_s"].max()
        within = seconds_within(begin.to_numpy(), end.to_numpy(), as_one=True)
        span_s = max(float(within(np.array([begin.min()]), np.array([end.max()]))[0]), 1e-9)
        by_workers = batches[batches["worker"] >= 0]
        worked_s = float(by_workers["process_cpu_s"].fillna(by_workers["cpu_s"]).sum())
        main_s, recorded_s = (trace.meta.get(name) for name in ("main_cpu_s", "recorded_s"))
        if main_s is None or not recorded_s or batches["rank"].nunique() > 1:
            return cls(worked_s / span_s, 0.0, math.inf)
        return cls(worked_s / span_s, main_s / recorded_s, (worked_s + main_s) / span_s)


def others_compute(trace: Trace, loader: int) -> bool:
    """Whether it is neither the main process nor its workers that the CPUs are full of."""
    return CpusInUse.of(trace, loader).at_most < MOSTLY * (trace.meta["cpu_allowance"] or 0.0)


def helping_threads(
    batches: pd.DataFrame, allowed: float, *, handing_over_s: float = 0.0, known: bool = False
) -> tuple[float, float] | None:
    """CPU seconds of a batch: of the thread that reads, and of all threads of its worker.

    None where no others compute beside it, or that is not known. A thread that pickles takes turns
    with the one that reads; ``handing_over_s``: its CPU seconds of a batch. ``known``: whether a
    worker is known to have several that compute.
    """
    if not len(batches) or batches["process_cpu_s"].isna().all():
        return None
    thread_s = float(batches["cpu_s"].sum()) / len(batches)
    process_s = float(_own_s(batches).sum()) / len(batches)  # of some after several
    process_s -= handing_over_s
    if process_s < HELPED * thread_s:
        return None
    if not known and allowed > 1 and thread_s > LITTLE * process_s and not _side_by_side(batches):
        return None
    return thread_s, process_s


def _own_s(batches: pd.DataFrame) -> pd.Series[float]:
    return batches["process_cpu_s"] - batches["children_cpu_s"].fillna(0.0)


def _side_by_side(batches: pd.DataFrame) -> bool:
    """Whether a worker has used more than one CPU, which threads that take turns never do.

    From the end of a batch to that of the next: meanwhile the one before is handed over.
    """
    lanes = batches.sort_values("ready_s").groupby(["rank", "loader", "epoch", "worker"])
    span_s = lanes["ready_s"].diff().reindex(batches.index)
    long = span_s >= LEAST_BATCH_S
    return bool((_own_s(batches)[long] / span_s[long]).max() >= SIDE_BY_SIDE)
