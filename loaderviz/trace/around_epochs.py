"""What a loop waits for that is no batch: workers that start or end, keys that are drawn ahead."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.steps import groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from loaderviz.trace.trace import Trace


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
        for start, request in _pairs(sorted(of_loader), epochs.get((rank, loader), [])):
            if request > start:
                later = requests[own][np.searchsorted(requests[own], start, "right")]
                spans.append((rank, loader, start, float(later)))
    apart: list[tuple[int, int, float, float]] = []
    until: dict[int, float] = {}
    dismissed: dict[int, list[float]] = {}
    for rank, _, start, _ in endings(trace):
        dismissed.setdefault(rank, []).append(start)
    for rank, loader, start, end in sorted(spans, key=lambda span: (span[0], span[2], span[3])):
        # With a new iterator in place of an old one, that one's workers end after iter().
        left = dismissed.get(rank, [])
        nth = bisect_right(left, start)
        end = min(end, left[nth]) if nth < len(left) else end
        start = max(start, until.get(rank, start))
        until[rank] = max(end, start)
        apart.append((rank, loader, start, until[rank]))
    return apart


def _pairs(starts: list[float], requests: list[float]) -> Iterator[tuple[float, float]]:
    """Each start of workers with the first request of its epoch, whichever was noted first.

    New workers for each epoch or, where they persist, for the first one of each iterator.
    """
    if len(starts) >= len(requests):
        yield from zip(starts, requests, strict=False)
        return
    yield from zip(starts[:1], requests, strict=False)
    for start in starts[1:]:
        yield from ((start, request) for request in requests[bisect_right(requests, start) :][:1])


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
    ready_s: dict[tuple[int, int], Any] = {}  # by rank and loader, in order
    until = []
    for rank, loader, start_s, end_s in endings:
        if (rank, loader) not in ready_s:
            own = (batches["rank"] == rank) & (batches["loader"] == loader)
            ready_s[rank, loader] = np.append(-np.inf, np.sort(batches["ready_s"][own]))  # NaN last
        moments = ready_s[rank, loader]
        last_s = moments[np.searchsorted(moments, end_s, "right") - 1]
        until.append(float(max(start_s, last_s)))
    return until


def around_epochs(trace: Trace) -> list[tuple[int, int, float, float]]:
    """Rank, loader, start and end of what a loop waited for that is no batch.

    In ``iter()`` it starts workers and draws keys; at the end it waits until they have ended.
    """
    return startups(trace) + drawn_ahead(trace) + endings(trace)


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
