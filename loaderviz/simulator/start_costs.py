"""What it costs to start workers and to end them, as a trace shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.array_types import Floats
from loaderviz.simulator.typical_costs import TYPICAL_START
from loaderviz.trace.around_epochs import still_making

if TYPE_CHECKING:
    import pandas as pd

UNLIKE, LEAST_S = 3.0, 0.05  # more than CPUs alone make starts differ


def start_costs(
    workers: pd.DataFrame, batches: pd.DataFrame, description: dict[str, Any]
) -> dict[str, Any]:
    """What it takes to start a worker, until it can take a task, and to end it."""
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
    first_init_s = began.drop_duplicates("worker").sort_values("worker")["init_s"].to_numpy()
    shutdown_s = _shutdown(with_task, batches)
    costs = {
        "startup_s": startup_s,
        "boot_s": _boot(with_task, batches),
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


def _boot(workers: pd.DataFrame, batches: pd.DataFrame) -> float:
    """From the start of a worker until it is up, the quickest of them.

    Where no worker says it, as in older recordings: until its first task, but for the time in which
    the sampler drew the first keys.
    """
    parts_s = workers[["boot_s", "unpickle_s", "init_s"]]
    up_s = parts_s.sum(axis=1)[parts_s.notna().any(axis=1)]
    if len(up_s):
        return max(0.0, float(up_s.min()))
    drawn_s = (batches["dispatched_s"] - batches["drawing_s"])[batches["batch"] == 0].fillna(0.0)
    until_s = (workers["first_task_s"] - workers["started_s"]).min() - drawn_s.max()
    return max(0.0, float(until_s))


def _shutdown(workers: pd.DataFrame, batches: pd.DataFrame) -> float:
    """To end all workers of an epoch; 0 where the recording does not say, as older ones."""
    ended = workers[workers["gone_s"].notna()]
    if ended.empty:
        return 0.0
    names = ("rank", "loader", "dismissed_s", "gone_s")
    spans = [*set(zip(*(ended[name].tolist() for name in names), strict=True))]
    columns = {name: batches[name].to_numpy() for name in ("rank", "loader", "ready_s")}
    made_s = still_making(columns, spans)
    took_s = [end - until for (*_, end), until in zip(spans, made_s, strict=True)]
    return float(np.median(took_s))
