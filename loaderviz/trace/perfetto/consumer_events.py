"""What the consumers do: waits, steps and named spans; what the pin thread and the device do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from loaderviz.trace.analysis.steps import startups, step_ends
from loaderviz.trace.columns_of_rows import arrays
from loaderviz.trace.perfetto import event_writer
from loaderviz.trace.perfetto.nesting import fitting, sublanes
from loaderviz.trace.perfetto.trace_source import Source

CONSUMER: Final = "consumer"
STEP: Final = ("rank", "requested_s", "delivered_s", "released_s")
OF_BATCH: Final = ("batch", "epoch", "loader")


def slices(source: Source) -> Iterator[Any]:
    batches, places = source.batches, source.places
    rows = np.flatnonzero(~np.isnan(batches["requested_s"] + batches["delivered_s"]))
    ends = step_ends(source.told(rows, *STEP))
    asked, delivered = batches["requested_s"][rows], batches["delivered_s"][rows]
    begun = np.array(startups(source.trace)).reshape(-1, 3)
    process = places.consumer_of[rows]
    process = np.concatenate([process, process, np.searchsorted(places.ranks, begun[:, 0])])
    start = source.ns(np.concatenate([asked, delivered, begun[:, 1]]))
    end = source.ns(np.concatenate([delivered, ends, begun[:, 2]]))
    place = places.lanes(process, CONSUMER, sublanes(process, start, end))
    told = source.told(rows, *OF_BATCH, "worker")
    waits, steps, starts = np.split(np.arange(len(start)), [len(rows), 2 * len(rows)])
    yield from event_writer.slices(
        event_writer.text("wait"), place.take(waits), start[waits], end[waits], told
    )
    told = {
        **told,
        "n_samples": batches["n_samples"][rows],
        "waited_s": delivered - asked,
        "lay_ready_s": np.maximum(asked - batches["ready_s"][rows], 0),
    }
    yield from event_writer.slices(
        event_writer.numbered("step", told["batch"]), place.take(steps), start[steps], end[steps],
        told, source.flow(rows, '"flow_in":true'),
    )  # fmt: skip
    yield from event_writer.slices(
        event_writer.text("start workers"), place.take(starts), start[starts], end[starts], {}
    )
    yield from _spans(source, process, start, end)


def _spans(source: Source, process: Any, start: Any, end: Any) -> Iterator[Any]:
    """In the consumer's lane where they nest with what it does there, else in a lane beside it."""
    spans = arrays(source.trace.spans)
    known = np.flatnonzero(~np.isnan(spans["start_s"] + spans["end_s"]))
    own = np.searchsorted(source.places.ranks, spans["rank"][known])
    begun, ended = source.ns(spans["start_s"][known]), source.ns(spans["end_s"][known])
    fits = np.ones(len(known), bool)
    for each in np.unique(own):
        rows = own == each
        main = process == each
        main[main] = sublanes(process[main], start[main], end[main]) == 0
        fits[rows] = fitting(begun[rows], ended[rows], start[main], end[main])
    fits[fits] = sublanes(own[fits], begun[fits], ended[fits]) == 0
    for rows, lane in ((np.flatnonzero(fits), CONSUMER), (np.flatnonzero(~fits), "spans")):
        at = own[rows], begun[rows], ended[rows]
        names = [event_writer.text(str(name)) for name in spans["name"][known[rows]].tolist()]
        yield from event_writer.slices(
            np.array(names, object), source.places.lanes(at[0], lane, sublanes(*at)), *at[1:],
            {"device_s": spans["device_s"][known[rows]]},
        )  # fmt: skip


def pinning(source: Source) -> Iterator[Any]:
    """The thread takes over one batch after another, in order of arrival (torch's pin_memory.py).

    So it began when the batch was ready and the one before was pinned, at the earliest.
    """
    batches = source.batches
    rows = np.flatnonzero(~np.isnan(batches["pinned_s"]))
    process, loader = source.places.consumer_of[rows], batches["loader"][rows]
    order = np.lexsort((batches["pinned_s"][rows], loader, process))
    rows, process, loader = rows[order], process[order], loader[order]
    end = batches["pinned_s"][rows]
    same = (process[1:] == process[:-1]) & (loader[1:] == loader[:-1])
    free = np.append(np.nan, np.where(same, end[:-1], np.nan))[: len(end)]
    start = np.fmin(np.fmax(batches["ready_s"][rows], free), end)
    yield from _lane(source, rows, "pin", "pin thread", loader, start, end)


def device(source: Source) -> Iterator[Any]:
    start, end = source.batches["device_start_s"], source.batches["device_end_s"]
    rows = np.flatnonzero(~np.isnan(start + end))
    yield from _lane(source, rows, "device step", "device", 0 * rows, start[rows], end[rows])


def _lane(
    source: Source, rows: Any, name: str, role: str, loader: Any, start: Any, end: Any
) -> Iterator[Any]:
    begun, ended = source.ns(start), source.ns(end)
    process = source.places.consumer_of[rows]
    lane = process * (int(loader.max(initial=0)) + 1) + loader
    place = source.places.lanes(process, role, sublanes(lane, begun, ended), loader)
    told = source.told(rows, *OF_BATCH, "n_bytes")
    flow = source.flow(rows, '"flow_in":true,"flow_out":true') if name == "pin" else ""
    yield from event_writer.slices(
        event_writer.numbered(name, told["batch"]), place, begun, ended, told, flow
    )
