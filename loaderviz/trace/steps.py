"""When the consumer waits and steps: from the columns of a trace, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.trace.columns_of_rows import Table, arrays, numbered, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from loaderviz.trace.trace import Trace

NO_WORK: Final = 0.05  # of a usual step: the device was passed by
NS: Final = 1e-9  # in seconds: times are whole nanoseconds, and what is shorter is rounding


def step_ends(batches: Mapping[str, Any]) -> Any:
    """When the consumer's work on each delivered batch ended: at its next request, of any loader.

    So no moment counts twice where a loop takes batches of several loaders in turn.
    """
    delivered, released = batches["delivered_s"], batches["released_s"]
    ends = np.where(np.isnan(released), delivered, released)
    if len(ends):
        order = np.lexsort((delivered, batches["rank"]))
        rank = batches["rank"][order]
        following = np.append(batches["requested_s"][order][1:], np.inf)
        # Not where the next batch is another rank's, or was asked for meanwhile in another thread.
        following[np.append(np.diff(rank) != 0, True) | (following < delivered[order])] = np.inf
        ends[order] = np.fmin(ends[order], following)
    return ends


def waits_by_step(trace: Trace) -> Table:
    """Delivered batches in order of their ``step``, which each rank counts from 1.

    With ``wait_s`` before it, ``step_s`` after it, and whether it is the ``first`` of an epoch.
    """
    rows = arrays(trace.batches)
    rows = where(rows, ~np.isnan(rows["delivered_s"] - rows["requested_s"]))
    rows = where(rows, np.lexsort((rows["delivered_s"], rows["rank"])))
    n = len(rows["rank"])
    begins = np.flatnonzero(np.diff(rows["rank"], prepend=-1))
    step = 1 + np.arange(n) - np.repeat(begins, np.diff(begins, append=n))
    first = np.zeros(n, bool)
    epoch = groups(*(rows[column] for column in ("rank", "loader", "epoch")))
    first[np.unique(epoch, return_index=True)[1]] = True
    found = {
        **{column: rows[column] for column in ("rank", "loader", "epoch", "batch", "worker")},
        "step": step,
        "requested_s": rows["requested_s"],
        "wait_s": rows["delivered_s"] - rows["requested_s"],
        "step_s": step_ends(rows) - rows["delivered_s"],
        "ready_s": rows["ready_s"],
        "first": first,
    }
    return where(found, np.argsort(step, kind="stable"))


def device_times(batches: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds that devices were busy with steps, and that they had nothing to do before them.

    Of each rank and epoch from the end of the first step on: what starting cost is not in it. A
    loop that copies ahead takes its first batch and does nothing yet: that is no step.
    """
    lane = groups(batches["rank"], batches["epoch"])
    took = batches["device_end_s"] - batches["device_start_s"]
    ran = np.flatnonzero(~np.isnan(took))
    ran = ran[took[ran] > NO_WORK * np.median(took[ran])] if len(ran) else ran
    ran = ran[np.lexsort((batches["device_start_s"][ran], lane[ran]))]
    start, end = batches["device_start_s"][ran], batches["device_end_s"][ran]
    follows = np.diff(lane[ran]) == 0
    gaps = np.maximum(start[1:] - end[:-1], 0)[follows]
    return float((end - start)[1:][follows].sum()), float(gaps.sum())


def part_with_others(trace: Trace, rank: int, loader: int) -> float:
    """The part, 0 to 1, of a loader's steps in which the loop asks other loaders, as with zip()."""
    batches = trace.batches[trace.batches["rank"] == rank]
    own = batches["loader"] == loader
    steps = batches[own].dropna(subset=["delivered_s", "released_s"])
    asked_s = np.sort(batches.loc[~own, "requested_s"].dropna().to_numpy())
    if steps.empty:
        return 0.0
    before, after = (
        np.searchsorted(asked_s, steps[name].to_numpy()) for name in ("delivered_s", "released_s")
    )
    return float((after > before).mean())


def united(spans: Iterable[tuple[Any, float, float]]) -> list[tuple[Any, float, float]]:
    """Rank, start and end, those of a rank that overlap as one.

    They overlap where a loop takes batches of several loaders in turn.
    """
    united: list[tuple[Any, float, float]] = []
    for rank, start, end in sorted(spans):
        if united and united[-1][0] == rank and start < united[-1][2]:
            _, start, until = united.pop()
            end = max(end, until)
        united.append((rank, start, end))
    return united


def seconds_within(
    begin_s: Any, end_s: Any, weights: Any = 1.0, *, as_one: bool = False
) -> Callable[[Any, Any], Any]:
    """A function of two moments: how long these stretches last between them, added up.

    Args:
        begin_s: of each stretch, none NaN; shape (n,).
        end_s: not before its begin.
        weights: how often a second of each stretch counts.
        as_one: whether a second in which several last counts once.
    """
    moments = np.concatenate([begin_s, end_s])
    weights = np.broadcast_to(weights, len(begin_s))
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    level = np.cumsum(np.concatenate([weights, -weights])[order])[:-1]
    level = np.minimum(level, 1) if as_one else level
    so_far = np.append(0.0, np.cumsum(level * np.diff(moments)))

    def between(start_s: Any, until_s: Any) -> Any:
        if not len(moments):
            return np.zeros(len(start_s))
        return np.interp(until_s, moments, so_far) - np.interp(start_s, moments, so_far)

    return between


def groups(*columns: Any) -> Any:
    """For each row the number of its group, from 0, in the order of the columns' values."""
    return np.unique(numbered(columns), return_inverse=True)[1]
