"""When the consumer steps, when it starts workers: from the columns of a trace, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from loaderviz.trace.trace import Trace


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


def startup_spans(trace: Trace) -> list[tuple[float, float]]:
    """When the consumer was busy starting workers: from the first one's start to a first request.

    The loop is in ``iter(loader)`` then, which starts them one after another
    (torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter.__init__``).
    """
    spans = []
    names = ("rank", "loader", "worker", "started_s")
    workers = {column: trace.workers[column].to_numpy() for column in names}
    first = np.flatnonzero((workers["worker"] == 0) & ~np.isnan(workers["started_s"]))
    if not len(first):
        return []
    names = ("rank", "loader", "epoch", "requested_s")
    asked = {column: trace.batches[column].to_numpy() for column in names}
    loaders = list(zip(workers["rank"][first], workers["loader"][first], strict=True))
    for rank, loader in dict.fromkeys(sorted(loaders)):
        own = (asked["rank"] == rank) & (asked["loader"] == loader)
        own &= ~np.isnan(asked["requested_s"])
        epoch = groups(asked["epoch"][own])
        requests = np.full(int(epoch.max(initial=-1)) + 1, np.inf)
        np.minimum.at(requests, epoch, asked["requested_s"][own])
        starts = [
            workers["started_s"][i]
            for i, each in zip(first, loaders, strict=True)
            if each == (rank, loader)
        ]
        # New workers for each epoch, or, where they persist, for the first one only.
        for start, request in zip(starts, requests, strict=False):
            if request > start:
                of_rank = asked["requested_s"][asked["rank"] == rank]
                spans.append((rank, start, np.min(of_rank[of_rank > start])))
    return [(float(start), float(end)) for _, start, end in united(spans)]


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
