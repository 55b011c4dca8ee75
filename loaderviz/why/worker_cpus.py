"""The CPUs of workers: fewer than they should share, or more threads than there are of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loaderviz.machine import cpus_in

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

HELPED: Final = 1.5  # times the CPU time of the thread that reads: other threads compute, too
LITTLE: Final = 0.25  # of the CPU time: the thread that reads mostly waits for others
SIDE_BY_SIDE: Final = 1.1  # CPUs that a worker has used in some batch: its threads computed at once
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
