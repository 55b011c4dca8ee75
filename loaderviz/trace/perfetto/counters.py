"""Numbers over time: batches that are ready and not delivered, and the memory of each process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loaderviz.trace.perfetto import event_writer
from loaderviz.trace.perfetto.trace_source import Source


def ready(source: Source) -> Iterator[Any]:
    """Of each rank and loader with workers: what lies ready and the loop does not have yet."""
    batches = source.batches
    made = (batches["worker"] >= 0) & ~np.isnan(batches["ready_s"])
    several = len(np.unique(batches["loader"][made])) > 1
    for rank, loader in np.unique(
        np.stack([batches["rank"][made], batches["loader"][made]]), axis=1
    ).T.tolist():
        of_loader = (batches["rank"] == rank) & (batches["loader"] == loader)
        rows = np.flatnonzero(made & of_loader)
        arrive = source.ns(batches["ready_s"][rows])
        gone = np.fmin(batches["delivered_s"][rows], _dropped(batches, rows, of_loader))
        leave = source.ns(gone[~np.isnan(gone)])
        # Clocks of two machines may differ: no batch leaves before it has come.
        leave = np.maximum(leave, arrive[~np.isnan(gone)])
        times = np.concatenate([arrive, leave])
        change = np.repeat([1, -1], [len(arrive), len(leave)])
        order = np.lexsort((-change, times))
        times, value = times[order], np.cumsum(change[order])
        last = np.append(times[1:] != times[:-1], True)
        process = np.repeat(np.searchsorted(source.places.ranks, rank), last.sum())
        yield from event_writer.counts(
            f"batches of loader {loader}" if several else "batches",
            source.places.process(process), times[last], "ready", value[last],
        )  # fmt: skip


def memory(source: Source) -> Iterator[Any]:
    """Resident memory of whatever process made each batch, as it was last looked at then."""
    batches = source.batches
    at = np.fmax(batches["started_s"], batches["ready_s"])
    rows = np.flatnonzero((batches["rss_bytes"] > 0) & ~np.isnan(at))
    yield from event_writer.counts(
        "memory", source.places.process(source.places.maker_of[rows]), source.ns(at[rows]),
        "rss_bytes", batches["rss_bytes"][rows],
    )  # fmt: skip


def _dropped(batches: dict[str, Any], rows: Any, of_loader: Any) -> Any:
    """When an epoch that was left early lost its batches: as the next one began, at the latest."""
    epoch, dispatched = batches["epoch"][of_loader], batches["dispatched_s"][of_loader]
    epochs, which = np.unique(epoch, return_inverse=True)
    begun = np.full(len(epochs) + 1, np.nan)
    np.fmin.at(begun, which.reshape(-1), dispatched)
    following = begun[1:][np.searchsorted(epochs, batches["epoch"][rows])]
    return np.where(following > batches["ready_s"][rows], following, np.nan)
