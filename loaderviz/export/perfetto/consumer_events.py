"""What the consumers do: waits, steps and named spans; what the pin thread and the device do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from loaderviz.export.perfetto.event_writer import json_text, numbered_names, slice_events
from loaderviz.export.perfetto.nesting import fitting, sublanes
from loaderviz.export.perfetto.trace_source import TraceSource
from loaderviz.trace.around_epochs import drawn_ahead, endings, startups
from loaderviz.trace.columns_of_rows import arrays
from loaderviz.trace.steps import step_ends

CONSUMER: Final = "consumer"
STEP: Final = ("rank", "requested_s", "delivered_s", "released_s")
OF_BATCH: Final = ("batch", "epoch", "loader")


def consumer_slices(source: TraceSource) -> Iterator[Any]:
    """Events, as bytes: what each consumer waits for, its steps and its named spans."""
    batches, lanes = source.batches, source.lanes
    rows = np.flatnonzero(~np.isnan(batches["requested_s"] + batches["delivered_s"]))
    ends = step_ends(source.batch_columns(rows, *STEP))
    requested, delivered = batches["requested_s"][rows], batches["delivered_s"][rows]
    beside = {
        "start workers": startups(source.trace),
        "ask for first batches": drawn_ahead(source.trace),
        "end workers": endings(source.trace),
    }
    begun = np.array([span for spans in beside.values() for span in spans]).reshape(-1, 4)
    process = lanes.consumer_of[rows]
    process = np.concatenate([process, process, np.searchsorted(lanes.ranks, begun[:, 0])])
    start = source.to_ns(np.concatenate([requested, delivered, begun[:, 2]]))
    end = source.to_ns(np.concatenate([delivered, ends, begun[:, 3]]))
    location = lanes.lane_locations(process, CONSUMER, sublanes(process, start, end))
    args = source.batch_columns(rows, *OF_BATCH, "worker")
    waits, steps, starts = np.split(np.arange(len(start)), [len(rows), 2 * len(rows)])
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
    bounds = np.cumsum([len(spans) for spans in beside.values()])
    for name, rows in zip(beside, np.split(starts, bounds[:-1]), strict=True):
        yield from slice_events(json_text(name), location.take(rows), start[rows], end[rows], {})
    yield from _span_slices(source, process, start, end)


def _span_slices(source: TraceSource, process: Any, start: Any, end: Any) -> Iterator[Any]:
    """Named spans: in the consumer's lane where they nest with what it does, else in one beside it.

    ``process``, ``start`` and ``end`` are those of what the consumers do.
    """
    spans = arrays(source.trace.spans)
    known = np.flatnonzero(~np.isnan(spans["start_s"] + spans["end_s"]))
    span_process = np.searchsorted(source.lanes.ranks, spans["rank"][known])
    span_start = source.to_ns(spans["start_s"][known])
    span_end = source.to_ns(spans["end_s"][known])
    fits = np.ones(len(known), bool)
    for consumer in np.unique(span_process):
        rows = span_process == consumer
        main = process == consumer
        main[main] = sublanes(process[main], start[main], end[main]) == 0
        fits[rows] = fitting(span_start[rows], span_end[rows], start[main], end[main])
    fits[fits] = sublanes(span_process[fits], span_start[fits], span_end[fits]) == 0
    for rows, role in ((np.flatnonzero(fits), CONSUMER), (np.flatnonzero(~fits), "spans")):
        lane_slices = span_process[rows], span_start[rows], span_end[rows]
        names = [json_text(str(name)) for name in spans["name"][known[rows]].tolist()]
        yield from slice_events(
            np.array(names, object),
            source.lanes.lane_locations(lane_slices[0], role, sublanes(*lane_slices)),
            *lane_slices[1:],
            {"device_s": spans["device_s"][known[rows]]},
        )


def pin_slices(source: TraceSource) -> Iterator[Any]:
    """Events, as bytes: what the pin thread does.

    The thread takes over one batch after another, in order of arrival (torch's pin_memory.py). So
    it began when the batch was ready and the one before was pinned, at the earliest.
    """
    batches = source.batches
    rows = np.flatnonzero(~np.isnan(batches["pinned_s"]))
    process, loader = source.lanes.consumer_of[rows], batches["loader"][rows]
    order = np.lexsort((batches["pinned_s"][rows], loader, process))
    rows, process, loader = rows[order], process[order], loader[order]
    end = batches["pinned_s"][rows]
    same_thread = (process[1:] == process[:-1]) & (loader[1:] == loader[:-1])
    free = np.append(np.nan, np.where(same_thread, end[:-1], np.nan))[: len(end)]
    start = np.fmin(np.fmax(batches["ready_s"][rows], free), end)
    yield from _batch_slices(source, rows, "pin", "pin thread", loader, start, end)


def device_slices(source: TraceSource) -> Iterator[Any]:
    """Events, as bytes: the steps on the device."""
    start, end = source.batches["device_start_s"], source.batches["device_end_s"]
    rows = np.flatnonzero(~np.isnan(start + end))
    yield from _batch_slices(
        source, rows, "device step", "device", 0 * rows, start[rows], end[rows]
    )


def _batch_slices(
    source: TraceSource, rows: Any, name: str, role: str, loader: Any, start_s: Any, end_s: Any
) -> Iterator[Any]:
    start, end = source.to_ns(start_s), source.to_ns(end_s)
    process = source.lanes.consumer_of[rows]
    lane = process * (int(loader.max(initial=0)) + 1) + loader
    location = source.lanes.lane_locations(process, role, sublanes(lane, start, end), loader)
    args = source.batch_columns(rows, *OF_BATCH, "n_bytes")
    flow = source.flow_members(rows, '"flow_in":true,"flow_out":true') if name == "pin" else ""
    yield from slice_events(numbered_names(name, args["batch"]), location, start, end, args, flow)
