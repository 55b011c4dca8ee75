"""When the consumer waits, steps and starts workers: from the columns of a trace, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.columns_of_rows import Table, arrays, where

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd

    from loaderviz.trace.trace import Trace

NO_WORK = 0.05  # of a usual step: the device was passed by
MOSTLY = 0.5  # of the epochs


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


def startups(trace: Trace) -> list[tuple[int, int, float, float]]:
    """Rank, loader, start and end of each start of workers, to the first request after it.

    No moment is in two of them, where a loop begins several loaders one after another.

    The loop is in ``iter(loader)`` then, which pickles for them and starts them one after another
    (torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter.__init__``).
    """
    names = ("rank", "loader", "worker")
    workers = {column: trace.workers[column].to_numpy() for column in names}
    pickled_s = np.nan_to_num(trace.workers["pickle_s"].to_numpy())
    began_s = trace.workers["started_s"].to_numpy() - pickled_s
    began_s = np.fmin(began_s, trace.workers["asked_s"].to_numpy())  # else it is not known
    first = np.flatnonzero((workers["worker"] == 0) & ~np.isnan(began_s))
    if not len(first):
        return []
    names_of_batches = ("rank", "loader", "epoch", "requested_s")
    asked = {column: trace.batches[column].to_numpy() for column in names_of_batches}
    known = ~np.isnan(asked["requested_s"])
    asked = {column: values[known] for column, values in asked.items()}
    epochs = _first_requests(asked)
    order = np.lexsort((asked["requested_s"], asked["rank"]))
    ranks, requests = asked["rank"][order], asked["requested_s"][order]
    starts: dict[tuple[int, int], list[float]] = {}
    for i in first:
        whose = int(workers["rank"][i]), int(workers["loader"][i])
        starts.setdefault(whose, []).append(float(began_s[i]))
    spans = []
    for (rank, loader), of_loader in starts.items():
        own = slice(*np.searchsorted(ranks, [rank, rank + 1]))
        # New workers for each epoch, or, where they persist, for the first one only.
        for start, request in zip(of_loader, epochs.get((rank, loader), []), strict=False):
            if request > start:
                later = requests[own][np.searchsorted(requests[own], start, "right")]
                spans.append((rank, loader, start, float(later)))
    apart: list[tuple[int, int, float, float]] = []
    until: dict[int, float] = {}
    for rank, loader, start, end in sorted(spans, key=lambda span: (span[0], span[2], span[3])):
        start = max(start, until.get(rank, start))
        until[rank] = max(end, start)
        apart.append((rank, loader, start, until[rank]))
    return apart


def drawn_ahead(trace: Trace) -> list[tuple[int, int, float, float]]:
    """Rank, loader, start and end of each stretch in ``iter()`` of a loader that kept its workers.

    It draws the keys of the first batches there and asks for them (torch/utils/data/dataloader.py,
    ``_MultiProcessingDataLoaderIter._reset``). With new workers that is a part of ``startups``, as
    far as it is not done before the first of them notes its start; without workers keys are drawn
    in ``next()``.
    """
    names = ("rank", "loader", "epoch", "drawing_s", "dispatched_s", "requested_s")
    rows = {name: trace.batches[name].to_numpy() for name in names}
    if not (rows["drawing_s"] < rows["requested_s"]).any():
        return []
    epochs = groups(rows["rank"], rows["loader"], rows["epoch"])
    request_s, start_s = np.full((2, int(epochs.max()) + 1), np.inf)
    end_s = np.full_like(start_s, -np.inf)
    np.fmin.at(request_s, epochs, rows["requested_s"])
    ahead = np.flatnonzero(rows["drawing_s"] < request_s[epochs])
    np.fmin.at(start_s, epochs[ahead], rows["drawing_s"][ahead])
    np.fmax.at(end_s, epochs[ahead], rows["dispatched_s"][ahead])
    spans = []
    starting = startups(trace)
    for rank in np.unique(rows["rank"]).tolist():
        begins, until = (
            np.array([span[2:] for span in starting if span[0] == rank]).reshape(-1, 2).T
        )
        for row in ahead[rows["rank"][ahead] == rank]:
            epoch = epochs[row]
            if rows["drawing_s"][row] == start_s[epoch]:
                following = np.searchsorted(until, start_s[epoch], "right")
                end = min(end_s[epoch], np.append(begins, np.inf)[following])
                if start_s[epoch] < end:
                    whose = rank, int(rows["loader"][row])
                    spans.append((*whose, float(start_s[epoch]), float(end)))
    return spans


def endings(trace: Trace) -> list[tuple[int, int, float, float]]:
    """Rank, loader, start and end of each stretch in which the loop waited for workers to end.

    Where they do not stay, torch ends them in the ``next()`` after the last batch, before that says
    that the epoch is over (torch/utils/data/dataloader.py, ``_next_data``), or when a loop lets go
    of its iterator before.
    """
    names = ("rank", "loader", "dismissed_s", "gone_s")
    rank, loader, start_s, end_s = (trace.workers[name].to_numpy() for name in names)
    rows = np.flatnonzero(end_s > start_s)  # False for NaN
    spans = zip(*(values[rows].tolist() for values in (rank, loader, start_s, end_s)), strict=True)
    return sorted(set(spans), key=lambda span: (span[0], span[2]))


def still_making(
    batches: Mapping[str, Any], endings: Iterable[tuple[int, int, float, float]]
) -> list[float]:
    """For each ending, until when workers still made batches: a loop may leave an epoch early.

    Each finishes the batch that it is making, which nobody takes, and no other.
    """
    until = []
    for rank, loader, start_s, end_s in endings:
        ready_s = batches["ready_s"]
        meanwhile = (ready_s > start_s) & (ready_s <= end_s)  # False for NaN
        meanwhile &= (batches["rank"] == rank) & (batches["loader"] == loader)
        until.append(float(ready_s[meanwhile].max(initial=start_s)))
    return until


def around_epochs(trace: Trace) -> list[tuple[int, int, float, float]]:
    """Rank, loader, start and end of what a loop waited for that is no batch.

    In ``iter()`` it starts workers and draws keys; at the end it waits until they have ended.
    """
    return startups(trace) + drawn_ahead(trace) + endings(trace)


def leaves_early(batches: pd.DataFrame) -> bool:
    """Whether the loop leaves most epochs of a loader, as with ``break``, before their last batch.

    ``batches`` are those of one loader in one rank. Its workers have been asked for more, then. Of
    the last epoch that does not count, in which a recording may have ended.
    """
    before_last = batches[batches["epoch"] < batches["epoch"].max()]
    left = before_last["delivered_s"].isna().groupby(before_last["epoch"]).any()
    return bool(len(left) and left.mean() > MOSTLY)


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


def _first_requests(asked: Mapping[str, Any]) -> dict[tuple[int, int], list[float]]:
    """By rank and loader: of each epoch in turn, when its first batch was asked for."""
    keys = [asked[column] for column in ("epoch", "loader", "rank")]
    order = np.lexsort((asked["requested_s"], *keys))
    epoch, loader, rank = (each[order] for each in keys)
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(epoch) != 0) | (np.diff(loader) != 0) | (np.diff(rank) != 0)
    found: dict[tuple[int, int], list[float]] = {}
    first = zip(rank[begins], loader[begins], asked["requested_s"][order][begins], strict=True)
    for its_rank, its_loader, request in first:
        found.setdefault((int(its_rank), int(its_loader)), []).append(float(request))
    return found


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


def groups(*columns: Any) -> Any:
    """For each row the number of its group, in the order of the columns' values."""
    groups = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        if len(values) and values.min() != values.max():
            found = np.unique(values, return_inverse=True)[1]
            groups = np.unique(groups * (int(found.max()) + 1) + found, return_inverse=True)[1]
    return groups
