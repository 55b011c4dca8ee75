"""The ways between processes, as a trace shows them: of workers, of tasks, and of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.simulator.epoch_plan import Floats
from loaderviz.simulator.typical_costs import TYPICAL_START, TYPICAL_WAYS

if TYPE_CHECKING:
    import pandas as pd


SHORT_S = 0.003  # more than most batches are on their way
LONG_S = 0.05  # more than a batch is on its way, also where its sender waits for Python's own lock
FEW = 3  # measurements do not tell what is usual
EXPECTED = 10  # measurements that weigh as much as what is typical


def ways(batches: pd.DataFrame, *, in_order: bool) -> dict[str, Any]:
    """What it takes to send a task, and to get a batch; of ``Costs``, those that are shown."""
    came = batches[batches["delivered_s"].notna() & (batches["worker"] >= 0)]
    found: dict[str, Any] = {}
    if came.empty:
        return found

    def show(name: str, values: Floats) -> float:
        values = values[~np.isnan(values)]
        if len(values) >= FEW:
            found[name] = float(np.median([*values, *[TYPICAL_WAYS[name]] * EXPECTED]))
        return float(found.get(name, TYPICAL_WAYS[name]))

    dispatch_s = show("dispatch_s", _dispatches(batches, came))
    show("send_s", _gaps(came))
    requested_s, delivered_s = came["requested_s"].to_numpy(), came["delivered_s"].to_numpy()
    pinned_s, ready_s = came["pinned_s"].to_numpy(), came["ready_s"].to_numpy()
    pins, take_s = not np.isnan(pinned_s).all(), 0.0
    if not pins:
        # A batch that was surely there when it was asked for shows what it takes to take it.
        lay_s = requested_s - ready_s
        n_taken = _n_taken(came) if in_order else np.ones(len(came), np.int64)
        there = (lay_s > SHORT_S) & (n_taken > 0)
        if (there & (lay_s > LONG_S)).sum() >= FEW:
            there &= lay_s > LONG_S
        if (there & (n_taken == 1)).sum() >= FEW:
            there &= n_taken == 1
        handed_s = np.maximum((delivered_s - requested_s)[there] - dispatch_s, 0.0)
        take_s = show("take_s", handed_s / n_taken[there])
    # One that was not ready yet shows how long it was on its way.
    waited = requested_s < ready_s
    arrived_s = pinned_s if pins else delivered_s - take_s - dispatch_s
    on_way_s = np.maximum((arrived_s - ready_s)[waited | pins], 0.0)
    if pins:
        free_s = np.append(-np.inf, np.sort(pinned_s)[:-1])[np.argsort(np.argsort(pinned_s))]
        took_s = float(np.nanmedian(pinned_s - np.fmax(ready_s, free_s)))
        found["pin_s"] = pin_s = max(0.0, took_s / 2)
        on_way_s = np.maximum(on_way_s - pin_s, 0.0)
    on_way_s = on_way_s[np.isfinite(on_way_s)]
    if len(on_way_s) >= FEW:
        found["transport_s"] = on_way_s
    return found


def _n_taken(came: pd.DataFrame) -> Any:
    """How many batches were taken from the queue to hand over each, in order.

    Others that came before it are taken on the way, and handed over later at once
    (torch/utils/data/dataloader.py, ``_next_data``).
    """
    n_taken = np.zeros(len(came), np.int64)
    place = {label: at for at, label in enumerate(came.index)}
    for _, epoch in came.groupby("epoch"):
        rank = epoch["ready_s"].rank(method="first", na_option="top").to_numpy()
        so_far = np.maximum.accumulate(rank)  # batches are handed over in the order of their rows
        taken = np.diff(so_far, prepend=0)
        n_taken[[place[label] for label in epoch.index]] = taken
    return n_taken


def _gaps(came: pd.DataFrame) -> Floats:
    """From a batch until its worker begins the next one, where that was sent long before."""
    gaps = []
    for _, own in came.groupby(["epoch", "worker"]):
        own = own.sort_values("started_s")
        ready_s, next_s = own["ready_s"].to_numpy()[:-1], own["started_s"].to_numpy()[1:]
        queued = own["dispatched_s"].to_numpy()[1:] < ready_s - SHORT_S / 3
        gaps.append(np.maximum((next_s - ready_s)[queued], 0.0))  # clocks are read in turn
    return np.concatenate(gaps)


def _dispatches(batches: pd.DataFrame, came: pd.DataFrame) -> Floats:
    """A new task is sent just before a batch is handed over."""
    sent = np.sort(batches["dispatched_s"].dropna().to_numpy())
    handed = came["delivered_s"].to_numpy()
    last = sent[np.maximum(np.searchsorted(sent, handed, side="right") - 1, 0)]
    within = (last >= came["requested_s"].to_numpy()) & (last <= handed)
    return np.asarray((handed - last)[within], np.float64)


def start(workers: pd.DataFrame, batches: pd.DataFrame, about: dict[str, Any]) -> dict[str, Any]:
    """Of workers: to start one, until it can take a task, and to end it."""
    method = about.get("start_method") or "fork"
    startup_s, boot_s = TYPICAL_START.get(method, (0.0, 0.0))
    seen = workers.dropna(subset=["started_s", "first_task_s"])
    if seen.empty:
        return {"startup_s": startup_s, "boot_s": boot_s, "start_method": method}
    n = int(about.get("num_workers") or seen["worker"].nunique())
    started_s = seen["started_s"].to_numpy()[:n]
    startup_s = float(started_s.max() - started_s.min() + startup_s) / len(started_s)
    boots = (seen["first_task_s"] - seen["started_s"]).to_numpy()
    over = workers["ended_s"].max() - batches["released_s"].max()
    found = {
        "startup_s": startup_s,
        "boot_s": max(0.0, float(np.min(boots))),
        "start_method": method,
    }
    return {**found, "shutdown_s": float(over) / n} if over > 0 else found
