"""What it costs to hand tasks and batches over, as a trace shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.array_types import Floats
from loaderviz.simulator.typical_costs import TYPICAL_HANDOVER

if TYPE_CHECKING:
    import pandas as pd

SHORT_S = 0.003  # longer than most batches are on their way
ENOUGH = 3  # measurements; fewer do not tell what is usual


def handover_costs(batches: pd.DataFrame, *, in_order: bool) -> dict[str, Any]:
    """What it takes to draw keys and to get a batch: the ``Costs`` that the batches show.

    What they do not show is left out.
    """
    delivered = batches[batches["delivered_s"].notna()]
    costs: dict[str, Any] = {}
    drawing_s, first_s = _drawing(delivered)
    if drawing_s or first_s:
        costs["sampler_s"] = drawing_s / max(1.0, float(delivered["n_samples"].mean()))
        costs["first_key_s"] = first_s
    delivered = delivered[delivered["worker"] >= 0]
    if delivered.empty:
        return costs
    if len(gaps_s := _gaps(delivered)) >= ENOUGH:
        costs["send_s"] = float(np.median(gaps_s))
    requested_s, delivered_s, pinned_s, ready_s = (
        delivered[name].to_numpy() for name in ("requested_s", "delivered_s", "pinned_s", "ready_s")
    )
    took_s = delivered_s - requested_s - _drawn_meanwhile(batches, delivered)
    took_s = np.maximum(took_s - TYPICAL_HANDOVER["dispatch_s"], 0.0)
    if not np.isnan(pinned_s).all():
        free_s = np.append(-np.inf, np.sort(pinned_s)[:-1])[np.argsort(np.argsort(pinned_s))]
        pinning_s = float(np.nanmedian(pinned_s - np.fmax(ready_s, free_s)))
        costs["pin_s"] = max(0.0, pinning_s - TYPICAL_HANDOVER["take_s"])
        return costs
    # A batch that had surely arrived when it was asked for shows how long it takes to take it.
    there = requested_s - ready_s > SHORT_S
    if in_order:
        there &= _n_taken(delivered) == 1
    reads = _reads_meanwhile(batches, delivered)
    busy, idle = (np.median(each) if len(each := took_s[there & of]) >= ENOUGH else np.nan
                  for of in (reads, ~reads))  # fmt: skip
    if not np.isnan(busy) or not np.isnan(idle):
        costs["take_s"] = float(np.fmin(busy, idle))
    if busy > idle:  # Python's lock is waited for
        costs["take_gil_s"] = float(busy - idle)
    # A batch that was not ready yet shows how long it was on its way.
    take_s = costs.get("take_s", TYPICAL_HANDOVER["take_s"])
    on_way_s = np.maximum(delivered_s - ready_s - take_s, 0.0)[requested_s < ready_s]
    if len(on_way_s) >= ENOUGH:
        costs["transport_s"] = float(np.median(on_way_s))
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


def _reads_meanwhile(batches: pd.DataFrame, delivered: pd.DataFrame) -> Any:
    """Of each batch, whether its worker reads other samples when it is asked for."""
    asked_s, made_by = (delivered[name].to_numpy() for name in ("requested_s", "worker"))
    reads = np.zeros(len(delivered), bool)
    tasks = batches.dropna(subset=["started_s", "collate_s"]).sort_values("started_s")
    for worker, own in tasks.groupby("worker"):
        of = made_by == worker
        last = np.searchsorted(own["started_s"].to_numpy(), asked_s[of], side="right") - 1
        until_s = own["collate_s"].to_numpy()[np.maximum(last, 0)]
        reads[of] = (last >= 0) & (asked_s[of] < until_s)
    return reads


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
    gaps = (started_s[1:] - ready_s[:-1])[queued]
    return np.asarray(np.maximum(gaps[~np.isnan(gaps)], 0.0))  # clocks are read in turn
