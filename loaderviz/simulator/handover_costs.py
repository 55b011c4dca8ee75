"""What it costs to hand tasks and batches over, as a trace shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.simulator.epoch_plan import Floats
from loaderviz.simulator.typical_costs import TYPICAL_HANDOVER

if TYPE_CHECKING:
    import pandas as pd


SHORT_S = 0.003  # longer than most batches are on their way
LONG_S = 0.05  # longer than any batch is on its way, even if its sender waits for Python's own lock
MOSTLY = 0.8  # of the time that a batch is handed over, its worker read
ENOUGH = 3  # measurements; fewer do not tell what is usual
TYPICAL_WEIGHT = 10  # a typical cost weighs as much as so many measurements


def handover_costs(batches: pd.DataFrame, *, in_order: bool) -> dict[str, Any]:
    """What it takes to send a task and to get a batch: the ``Costs`` that the batches show."""
    delivered = batches[batches["delivered_s"].notna()]
    costs: dict[str, Any] = {}
    drawing_s, first_s = _drawing(delivered)
    if drawing_s or first_s:
        costs["sampler_s"] = drawing_s / max(1.0, float(delivered["n_samples"].mean()))
        costs["first_key_s"] = first_s
    delivered = delivered[delivered["worker"] >= 0]
    if delivered.empty:
        return costs

    def show(name: str, values: Floats) -> float:
        values = values[~np.isnan(values)]
        if len(values) >= ENOUGH:
            costs[name] = float(np.median([*values, *[TYPICAL_HANDOVER[name]] * TYPICAL_WEIGHT]))
        return float(costs.get(name, TYPICAL_HANDOVER[name]))

    # The next keys, before a batch is handed over.
    drawn_s = _drawn_meanwhile(batches, delivered)
    dispatch_s = show("dispatch_s", _dispatches(batches, delivered))
    show("send_s", _gaps(delivered))
    requested_s, delivered_s = (
        delivered[name].to_numpy() for name in ("requested_s", "delivered_s")
    )
    pinned_s, ready_s = (delivered[name].to_numpy() for name in ("pinned_s", "ready_s"))
    pins, take_s = not np.isnan(pinned_s).all(), 0.0
    if not pins:
        # A batch that had surely arrived when it was asked for shows how long it takes to take it.
        unused_s = requested_s - ready_s
        n_taken = _n_taken(delivered) if in_order else np.ones(len(delivered), np.int64)
        there = (unused_s > SHORT_S) & (n_taken > 0)
        if (there & (unused_s > LONG_S)).sum() >= ENOUGH:
            there &= unused_s > LONG_S
        if (there & (n_taken == 1)).sum() >= ENOUGH:
            there &= n_taken == 1
        took_s = delivered_s - requested_s - drawn_s
        handed_s = np.maximum(took_s[there] - dispatch_s, 0.0)
        handed_s = handed_s / n_taken[there]
        lock_s = _waiting_for_lock(handed_s, _reads_meanwhile(batches, delivered)[there], delivered)
        if lock_s:
            costs["take_gil_s"] = lock_s
        take_s = show("take_s", np.maximum(handed_s - lock_s, 0.0))
    # A batch that was not ready yet shows how long it was on its way.
    waited = requested_s < ready_s
    arrived_s = pinned_s if pins else delivered_s - take_s - dispatch_s - drawn_s
    on_way_s = np.maximum((arrived_s - ready_s)[waited | pins], 0.0)
    if pins:
        free_s = np.append(-np.inf, np.sort(pinned_s)[:-1])[np.argsort(np.argsort(pinned_s))]
        pinning_s = float(np.nanmedian(pinned_s - np.fmax(ready_s, free_s)))
        costs["pin_s"] = pin_s = max(0.0, pinning_s / 2)
        on_way_s = np.maximum(on_way_s - pin_s, 0.0)
    on_way_s = on_way_s[np.isfinite(on_way_s)]
    if len(on_way_s) >= ENOUGH:
        costs["transport_s"] = on_way_s
    return costs


def _drawing(delivered: pd.DataFrame) -> tuple[float, float]:
    """Seconds to draw the keys of a batch; how much longer it takes before an epoch's first."""
    drawn_s = (delivered["dispatched_s"] - delivered["drawing_s"]).to_numpy()
    known = ~np.isnan(drawn_s)
    first = delivered["batch"].to_numpy() == 0
    later_s, first_s = drawn_s[known & ~first], drawn_s[known & first]
    if not len(later_s):
        return (max(0.0, float(np.mean(first_s))) if len(first_s) else 0.0), 0.0
    drawing_s = max(0.0, float(np.mean(later_s)))
    return drawing_s, max(0.0, float(np.mean(first_s)) - drawing_s) if len(first_s) else 0.0


def _drawn_meanwhile(batches: pd.DataFrame, delivered: pd.DataFrame) -> Floats:
    """Of each wait, the seconds in which the main process drew keys."""
    begun_s, sent_s = (batches[name].to_numpy() for name in ("drawing_s", "dispatched_s"))
    known = ~np.isnan(begun_s) & ~np.isnan(sent_s)
    in_turn = np.argsort(sent_s[known])
    begun_s, sent_s = begun_s[known][in_turn], sent_s[known][in_turn]
    so_far = np.append(0.0, np.cumsum(sent_s - begun_s))
    before, after = (
        np.searchsorted(sent_s, delivered[name].to_numpy())
        for name in ("requested_s", "delivered_s")
    )
    return np.asarray(so_far[after] - so_far[before])


def _reads_meanwhile(batches: pd.DataFrame, delivered: pd.DataFrame) -> Floats:
    """Of each batch, the part of its hand-over in which its worker read other samples, 0 to 1."""
    begin, end = (delivered[name].to_numpy() for name in ("requested_s", "delivered_s"))
    part = np.zeros(len(delivered))
    made_by = delivered["worker"].to_numpy()
    started_s, ended_s = (batches[name].to_numpy() for name in ("started_s", "collate_s"))
    worker = np.where(np.isnan(started_s) | np.isnan(ended_s), -1, batches["worker"].to_numpy())
    for number in np.unique(made_by):
        own, tasks = made_by == number, np.flatnonzero(worker == number)
        if not len(tasks):
            continue
        tasks = tasks[np.argsort(started_s[tasks])]
        begun_s = started_s[tasks]
        moments = np.stack([begun_s, np.maximum(ended_s[tasks], begun_s)], axis=1).ravel()
        moments = np.maximum.accumulate(moments)
        so_far = np.repeat(np.append(0.0, np.cumsum(moments[1::2] - moments[::2])), 2)[1:-1]
        read_s = np.interp(end[own], moments, so_far) - np.interp(begin[own], moments, so_far)
        part[own] = read_s / np.maximum(end[own] - begin[own], 1e-9)
    return part


def _waiting_for_lock(handed_s: Floats, reading: Floats, delivered: pd.DataFrame) -> float:
    """By how many seconds a batch is handed over later, while its worker reads.

    Known from batches whose workers had nothing to do. Where workers read all the time it is what
    tensors take beyond the typical; of other batches nobody knows what is usual.
    """
    busy = handed_s[reading > MOSTLY]
    idle = handed_s[reading < 1 - MOSTLY]
    if len(busy) < ENOUGH:
        return 0.0
    if len(idle) >= ENOUGH:
        usual_s = float(np.median(idle))
    elif delivered["n_bytes"].median() > 0:
        usual_s = TYPICAL_HANDOVER["take_s"]
    else:
        return 0.0
    later_s = float(np.median(busy)) - usual_s
    return later_s if later_s > SHORT_S / 2 else 0.0


def _n_taken(delivered: pd.DataFrame) -> Any:
    """How many batches were taken from the queue to hand over each one, in order.

    Later ones that arrived earlier are taken along, and are at hand when their turn comes
    (torch/utils/data/dataloader.py, ``_next_data``).
    """
    epoch = delivered["epoch"].to_numpy()
    ready_s = np.nan_to_num(delivered["ready_s"].to_numpy(), nan=-np.inf)
    # Batches are handed over in the order of their rows. Ranks go on from one epoch to the next.
    by_epoch = np.argsort(epoch, kind="stable")
    rank = np.empty(len(delivered), np.int64)
    rank[np.lexsort([ready_s, epoch])] = np.arange(1, len(delivered) + 1)
    n_taken = np.empty(len(delivered), np.int64)
    n_taken[by_epoch] = np.diff(np.maximum.accumulate(rank[by_epoch]), prepend=0)
    return n_taken


def _gaps(delivered: pd.DataFrame) -> Floats:
    """Seconds from a batch until its worker begins the next, where that was sent long before."""
    names = ("started_s", "worker", "epoch", "ready_s", "dispatched_s")
    columns = [delivered[name].to_numpy() for name in names]
    in_turn = np.lexsort(columns[:3])
    started_s, worker, epoch, ready_s, sent_s = (column[in_turn] for column in columns)
    follows = (worker[1:] == worker[:-1]) & (epoch[1:] == epoch[:-1])
    queued = follows & (sent_s[1:] < ready_s[:-1] - SHORT_S / 3)
    gaps = started_s[1:] - ready_s[:-1]
    return np.asarray(np.maximum(gaps[queued], 0.0))  # clocks are read in turn


def _dispatches(batches: pd.DataFrame, delivered: pd.DataFrame) -> Floats:
    """Seconds from sending a task until a batch is handed over, which follows at once."""
    sent = np.sort(batches["dispatched_s"].dropna().to_numpy())
    if not len(sent):
        return sent
    handed = delivered["delivered_s"].to_numpy()
    last = sent[np.maximum(np.searchsorted(sent, handed, side="right") - 1, 0)]
    within = (last >= delivered["requested_s"].to_numpy()) & (last <= handed)
    return np.asarray((handed - last)[within], np.float64)
