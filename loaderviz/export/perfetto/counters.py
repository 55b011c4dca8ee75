"""Numbers over time: batches that are ready and not delivered, and the memory of each process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loaderviz.export.perfetto.event_writer import counter_events
from loaderviz.export.perfetto.trace_source import TraceSource


def ready_batches(source: TraceSource) -> Iterator[Any]:
    """Counter events, as bytes: how many batches lie ready that the loop does not have yet.

    One counter for each rank and each of its loaders that has workers.
    """
    batches = source.batches
    is_ready = (batches["worker"] >= 0) & ~np.isnan(batches["ready_s"])
    several = len(np.unique(batches["loader"][is_ready])) > 1
    for rank, loader in np.unique(
        np.stack([batches["rank"][is_ready], batches["loader"][is_ready]]), axis=1
    ).T.tolist():
        of_loader = (batches["rank"] == rank) & (batches["loader"] == loader)
        rows = np.flatnonzero(is_ready & of_loader)
        arrivals = source.to_ns(batches["ready_s"][rows])
        gone_s = np.fmin(batches["delivered_s"][rows], _dropped_s(batches, rows, of_loader))
        departures = source.to_ns(gone_s[~np.isnan(gone_s)])
        # Clocks of two machines may differ: no batch leaves before it has come.
        departures = np.maximum(departures, arrivals[~np.isnan(gone_s)])
        times = np.concatenate([arrivals, departures])
        changes = np.repeat([1, -1], [len(arrivals), len(departures)])
        order = np.lexsort((-changes, times))
        times, n_ready = times[order], np.cumsum(changes[order])
        is_last = np.append(times[1:] != times[:-1], True)  # of the changes at one time
        process = np.repeat(np.searchsorted(source.lanes.ranks, rank), is_last.sum())
        yield from counter_events(
            f"batches of loader {loader}" if several else "batches",
            source.lanes.process_locations(process), times[is_last], "ready", n_ready[is_last],
        )  # fmt: skip


def process_memory(source: TraceSource) -> Iterator[Any]:
    """Counter events, as bytes: resident memory of each process that made batches.

    One value per batch: what was last measured by the time it was ready, or else begun.
    """
    batches = source.batches
    at_s = np.fmax(batches["started_s"], batches["ready_s"])
    rows = np.flatnonzero((batches["rss_bytes"] > 0) & ~np.isnan(at_s))
    yield from counter_events(
        "memory", source.lanes.process_locations(source.lanes.maker_of[rows]),
        source.to_ns(at_s[rows]), "rss_bytes", batches["rss_bytes"][rows],
    )  # fmt: skip


def _dropped_s(batches: dict[str, Any], rows: Any, of_loader: Any) -> Any:
    """When an epoch that was left early lost its batches: at the latest when the next one began."""
    epoch, dispatched = batches["epoch"][of_loader], batches["dispatched_s"][of_loader]
    epochs, epoch_index = np.unique(epoch, return_inverse=True)
    epoch_starts = np.full(len(epochs) + 1, np.nan)
    np.fmin.at(epoch_starts, epoch_index.reshape(-1), dispatched)
    next_start = epoch_starts[1:][np.searchsorted(epochs, batches["epoch"][rows])]
    return np.where(next_start > batches["ready_s"][rows], next_start, np.nan)
