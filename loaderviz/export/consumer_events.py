"""What the consumers do: waits, steps and named spans; what the pin thread and the device do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from loaderviz.export.chrome_events import (
    counter_events,
    json_text,
    numbered_names,
    slice_events,
)
from loaderviz.export.perfetto_lanes import Source
from loaderviz.trace.around_epochs import drawn_ahead, endings, startups
from loaderviz.trace.columns_of_rows import arrays
from loaderviz.trace.steps import step_ends

STEP: Final = ("rank", "requested_s", "delivered_s", "released_s")
OF_BATCH: Final = ("batch", "epoch", "loader")


def consumer_slices(source: Source) -> Iterator[Any]:
    """Events, as bytes: what each consumer waits for, and its steps."""
    batches = source.batches
    rows = np.flatnonzero(~np.isnan(batches["requested_s"] + batches["delivered_s"]))
    ends = step_ends(source.batch_columns(rows, *STEP))
    requested, delivered = batches["requested_s"][rows], batches["delivered_s"][rows]
    beside = {
        "start workers": startups(source.trace),
        "ask for first batches": drawn_ahead(source.trace),
        "end workers": endings(source.trace),
    }
    begun = np.array([span for spans in beside.values() for span in spans]).reshape(-1, 4)
    process = source.consumer_of[rows]
    process = np.concatenate([process, process, np.searchsorted(source.ranks, begun[:, 0])])
    start = source.to_ns(np.concatenate([requested, delivered, begun[:, 2]]))
    end = source.to_ns(np.concatenate([delivered, ends, begun[:, 3]]))
    location = source.lane_locations(process, "consumer", start, end)
    waits, steps, *others = np.split(
        np.arange(len(start)), np.cumsum([len(rows), len(rows), *map(len, beside.values())])[:-1]
    )
    args = source.batch_columns(rows, *OF_BATCH, "worker")
    yield from slice_events(json_text("wait"), location.take(waits), start[waits], end[waits], args)
    args = {
        **args,
        "n_samples": batches["n_samples"][rows],
        "waited_s": delivered - requested,
        "lay_ready_s": np.maximum(requested - batches["ready_s"][rows], 0),
    }
    yield from slice_events(
        numbered_names("step", args["batch"]), location.take(steps), start[steps], end[steps],
        args, source.flow_members(rows, '"flow_in":true'),
    )  # fmt: skip
    for name, rows in zip(beside, others, strict=True):
        yield from slice_events(json_text(name), location.take(rows), start[rows], end[rows], {})


def named_spans(source: Source) -> Iterator[Any]:
    """Events, as bytes: the spans that the user named, in a lane below the consumer's."""
    spans = arrays(source.trace.spans)
    known = np.flatnonzero(~np.isnan(spans["start_s"] + spans["end_s"]))
    process = np.searchsorted(source.ranks, spans["rank"][known])
    start, end = (source.to_ns(spans[name][known]) for name in ("start_s", "end_s"))
    names = [json_text(str(name)) for name in spans["name"][known].tolist()]
    location = source.lane_locations(process, "spans", start, end)
    args = {"device_s": spans["device_s"][known]}
    yield from slice_events(np.array(names, object), location, start, end, args)


def pin_slices(source: Source) -> Iterator[Any]:
    """Events, as bytes: what the pin thread does.

    The thread takes over one batch after another, in order of arrival (torch's pin_memory.py). So
    it began when the batch was ready and the one before was pinned, at the earliest.
    """
    batches = source.batches
    rows = np.flatnonzero(~np.isnan(batches["pinned_s"]))
    process, loader = source.consumer_of[rows], batches["loader"][rows]
    order = np.lexsort((batches["pinned_s"][rows], loader, process))
    rows, process, loader = rows[order], process[order], loader[order]
    end = batches["pinned_s"][rows]
    same_thread = (process[1:] == process[:-1]) & (loader[1:] == loader[:-1])
    free = np.append(np.nan, np.where(same_thread, end[:-1], np.nan))[: len(end)]
    start = np.fmin(np.fmax(batches["ready_s"][rows], free), end)
    flow = source.flow_members(rows, '"flow_in":true,"flow_out":true')
    yield from _batch_slices(source, rows, ("pin", "pin thread"), loader, (start, end), flow)


def device_slices(source: Source) -> Iterator[Any]:
    """Events, as bytes: the steps on the device."""
    start, end = source.batches["device_start_s"], source.batches["device_end_s"]
    rows = np.flatnonzero(~np.isnan(start + end))
    names, span_s = ("device step", "device"), (start[rows], end[rows])
    yield from _batch_slices(source, rows, names, 0 * rows, span_s, "")


def _batch_slices(
    source: Source,
    rows: Any,
    names: tuple[str, str],
    loader: Any,
    span_s: tuple[Any, Any],
    flow: Any,
) -> Iterator[Any]:
    """A slice for each batch; ``names``: its own, and that of its lane."""
    start, end = map(source.to_ns, span_s)
    location = source.lane_locations(source.consumer_of[rows], names[1], start, end, loader)
    args = source.batch_columns(rows, *OF_BATCH, "n_bytes")
    numbered = numbered_names(names[0], args["batch"])
    yield from slice_events(numbered, location, start, end, args, flow)


def ready_batches(source: Source) -> Iterator[Any]:
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
        process = np.repeat(np.searchsorted(source.ranks, rank), is_last.sum())
        yield from counter_events(
            f"batches of loader {loader}" if several else "batches",
            source.process_locations(process), times[is_last], "ready", n_ready[is_last],
        )  # fmt: skip


def _dropped_s(batches: dict[str, Any], rows: Any, of_loader: Any) -> Any:
    """When an epoch that was left early lost its batches: at the latest when the next one began."""
    epoch, dispatched = batches["epoch"][of_loader], batches["dispatched_s"][of_loader]
    epochs, epoch_index = np.unique(epoch, return_inverse=True)
    epoch_starts = np.full(len(epochs) + 1, np.nan)
    np.fmin.at(epoch_starts, epoch_index.reshape(-1), dispatched)
    next_start = epoch_starts[1:][np.searchsorted(epochs, batches["epoch"][rows])]
    return np.where(next_start > batches["ready_s"][rows], next_start, np.nan)
