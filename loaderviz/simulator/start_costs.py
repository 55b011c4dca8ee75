"""What it costs to start workers and to end them, as a trace shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.simulator.epoch_plan import Floats
from loaderviz.simulator.typical_costs import TYPICAL_START
from loaderviz.trace.analysis.around_epochs import still_making

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

UNLIKE, LEAST_S = 3.0, 0.05  # more than CPUs alone make starts differ
SOON_GONE_S = 0.1  # for each worker: from its end, as it notes it, to that of its process


def begun_elsewhere_s(trace: Trace, loader: int) -> Floats:
    """When the loop began something with another loader than this, in order."""
    moments = [
        table.loc[table["loader"] != loader, name].to_numpy()
        for table, name in ((trace.workers, "started_s"), (trace.batches, "drawing_s"))
    ]
    return np.sort(np.concatenate(moments))


def start_costs(
    workers: pd.DataFrame,
    batches: pd.DataFrame,
    description: dict[str, Any],
    elsewhere_s: Floats,
) -> dict[str, Any]:
    """What it takes to start a worker, until it can take a task, and to end it.

    ``elsewhere_s`` are ``begun_elsewhere_s``.
    """
    method = description.get("start_method") or "fork"
    startup_s, boot_s = TYPICAL_START.get(method, (0.0, 0.0))
    with_task = workers.dropna(subset=["started_s", "first_task_s"])
    if with_task.empty:
        return {"startup_s": startup_s, "boot_s": boot_s, "start_method": method}
    n = int(description.get("num_workers") or with_task["worker"].nunique())
    # The first of each: one that is given no task, in a short epoch, is started all the same.
    began = workers.dropna(subset=["started_s"]).sort_values("started_s")
    started_s = began.drop_duplicates("worker")["started_s"].to_numpy()
    pickle_s = float(np.nan_to_num(with_task["pickle_s"].to_numpy()[0]))  # before it is started
    asked_s = float(began["asked_s"].iloc[0])
    if np.isnan(asked_s):  # a recording of an older version, or a simulation
        asked_s = float(started_s.min() - startup_s - pickle_s)
    startup_s = max(0.0, float(started_s.max() - asked_s)) / len(started_s)
    boots = (with_task["first_task_s"] - with_task["started_s"]).to_numpy()
    boots = boots - _idle_before_first_task(with_task, batches)
    first_init_s = began.drop_duplicates("worker").sort_values("worker")["init_s"].to_numpy()
    shutdown_s = _shutdown(with_task, batches, n, elsewhere_s)
    costs = {
        "startup_s": startup_s,
        "boot_s": max(0.0, float(np.min(boots))),
        "init_s": _by_worker(np.nan_to_num(first_init_s)),
        "start_method": method,
    }
    return {**costs, "shutdown_s": shutdown_s / n} if shutdown_s > 0 else costs


def _by_worker(init_s: Floats) -> Floats | float:
    """By how many seconds each worker's ``worker_init_fn`` takes longer than the quickest one.

    0 where they differ by no more than processes do that wait for CPUs.
    """
    longer_s = init_s - init_s.min()
    return longer_s if longer_s.max() > UNLIKE * init_s.min() + LEAST_S else 0.0


def _idle_before_first_task(workers: pd.DataFrame, batches: pd.DataFrame) -> Floats:
    """How long each worker was up and had no task yet, as while the sampler drew its first keys.

    Where it is not known when a worker was up, only the drawing counts.
    """
    names = ("started_s", "boot_s", "unpickle_s", "init_s", "first_task_s", "worker")
    started_s, *parts, first_task_s, number = (workers[name].to_numpy() for name in names)
    up_s = np.where(np.isnan(parts).all(axis=0), np.nan, started_s + np.nansum(parts, axis=0))
    begun_s = batches["started_s"].to_numpy()
    in_turn = np.argsort(begun_s)[: np.count_nonzero(~np.isnan(begun_s))]
    idle_s = np.zeros(len(workers))
    for worker in np.unique(number):
        tasks = in_turn[batches["worker"].to_numpy()[in_turn] == worker]
        own = np.flatnonzero(number == worker)
        nth = np.searchsorted(begun_s[tasks], first_task_s[own])
        own, first = own[nth < len(tasks)], tasks[nth[nth < len(tasks)]]
        since_s = np.where(np.isnan(up_s[own]), batches["drawing_s"].to_numpy()[first], up_s[own])
        idle_s[own] = batches["dispatched_s"].to_numpy()[first] - since_s
    return np.maximum(np.nan_to_num(idle_s), 0.0)


def _shutdown(workers: pd.DataFrame, batches: pd.DataFrame, n: int, elsewhere_s: Floats) -> float:
    """To end all workers of an epoch.

    Recordings of older versions do not tell: until the next ones start, else until the last has
    ended. Workers are gone soon after they have noted their end. Where the next ones start much
    later, or after another loader's, the loop did something else between two epochs, such as an
    evaluation.
    """
    if workers["gone_s"].notna().all():
        names = ("rank", "loader", "dismissed_s", "gone_s")
        spans = [*set(zip(*(workers[name].tolist() for name in names), strict=True))]
        columns = {name: batches[name].to_numpy() for name in ("rank", "loader", "ready_s")}
        made_s = still_making(columns, spans)
        took_s = [end - until for (*_, end), until in zip(spans, made_s, strict=True)]
        return float(np.median(took_s))
    # What workers still make when the loop has left its epoch is no end of theirs.
    done_s = batches.groupby("epoch")[["released_s", "ready_s"]].max()
    released_s = done_s.max(axis=1).to_numpy()
    in_order = workers.sort_values("started_s")
    starts_s = in_order["started_s"].to_numpy()[::n]
    if len(starts_s) == len(released_s) > 1:
        after = np.searchsorted(elsewhere_s, released_s[:-1])
        next_s = np.fmin(starts_s[1:], np.append(elsewhere_s, np.inf)[after])
        until_next_s = next_s - released_s[:-1]
        ended_s = np.maximum.reduceat(in_order["ended_s"].to_numpy(), np.arange(0, len(workers), n))
        until_end_s = ended_s[:-1] - released_s[:-1]
        late = until_next_s > until_end_s + n * SOON_GONE_S
        return float(np.median(np.where(late, until_end_s, until_next_s)))
    return float(workers["ended_s"].max() - released_s.max())
