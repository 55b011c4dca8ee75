"""What the workers do: batches, and in each its samples and its collate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from loaderviz.trace.analysis.steps import groups
from loaderviz.trace.perfetto import event_writer
from loaderviz.trace.perfetto.nesting import sublanes
from loaderviz.trace.perfetto.trace_source import Source

BATCH: Final = ("rank", "loader", "epoch", "batch", "worker")
LANE: Final = "batches"


def slices(source: Source) -> Iterator[Any]:
    batches, places = source.batches, source.places
    samples = {c: source.trace.samples[c].to_numpy() for c in (*BATCH, "key", "start_s", "end_s")}
    first, batch_of = _runs(samples, batches)
    start_s, end_s = _spread(batches, samples, first, batch_of)
    made = np.flatnonzero(~np.isnan(start_s))
    begun, first_task, worker = _starting(source)
    process = np.concatenate([places.maker_of[made], worker])
    start = np.concatenate([source.ns(start_s[made]), begun])
    end = np.concatenate([source.ns(end_s[made]), first_task])
    place = places.lanes(process, LANE, sublanes(process, start, end))
    here = slice(len(made), None)
    yield from event_writer.slices(
        event_writer.text("starts"), place[here], start[here], end[here], {}
    )
    here, place = slice(len(made)), place[: len(made)]
    told = source.told(made, *BATCH[1:4], "n_samples", "n_bytes", "cpu_s", "state")
    told["queued_s"] = batches["started_s"][made] - batches["dispatched_s"][made]
    yield from event_writer.slices(
        event_writer.numbered("batch", told["batch"]), place, start[here], end[here], told,
        source.flow(made, '"flow_out":true'),
    )  # fmt: skip
    collated = np.flatnonzero(~np.isnan(batches["collate_s"] + batches["ready_s"])[made])
    at = source.ns(batches["collate_s"][made[collated]])
    until = source.ns(batches["ready_s"][made[collated]])
    yield from event_writer.slices(
        event_writer.text("collate"), place.take(collated), at, until, {}
    )
    lane_of = np.full(len(start_s) + 1, -1)  # the last: of samples whose batch is not in the trace
    lane_of[made] = np.arange(len(made))
    lane = np.repeat(lane_of[batch_of], np.diff(first, append=len(samples["batch"])))
    yield from _samples(source, samples, lane, place, end[here])


def _starting(source: Source) -> tuple[Any, Any, Any]:
    """When workers started and came to their first task, and which process each is."""
    workers = source.trace.workers
    started, first_task = workers["started_s"].to_numpy(), workers["first_task_s"].to_numpy()
    known = ~np.isnan(started + first_task)
    process = source.places.worker_of[known]
    return source.ns(started[known]), source.ns(first_task[known]), process


def _runs(samples: dict[str, Any], batches: dict[str, Any]) -> tuple[Any, Any]:
    """Where the samples of a batch begin, one after another, and the row of the batch, or -1."""
    n = len(samples["batch"])
    changes = np.zeros(max(n - 1, 0), bool)
    for column in BATCH:
        changes |= samples[column][1:] != samples[column][:-1]
    first = np.flatnonzero(np.append(True, changes)[:n])
    code = groups(*(np.concatenate([batches[c], samples[c][first]]) for c in BATCH))
    rows = len(batches["batch"])
    row_of = np.full(int(code.max(initial=-1)) + 1, -1)
    row_of[code[:rows]] = np.arange(rows)
    return first, row_of[code[rows:]]


def _spread(
    batches: dict[str, Any], samples: dict[str, Any], first: Any, batch_of: Any
) -> tuple[Any, Any]:
    """From when to when each batch was worked on, as far as it came; its samples lie inside."""
    start = batches["started_s"].copy()
    end = np.fmax(np.fmax(start, batches["collate_s"]), batches["ready_s"])
    if len(first):
        latest = np.fmax(samples["start_s"], samples["end_s"])
        known = batch_of >= 0
        for into, least, of in (
            (start, np.fmin, np.fmin.reduceat(samples["start_s"], first)),
            (end, np.fmax, np.fmax.reduceat(latest, first)),
        ):
            least.at(into, batch_of[known], of[known])
    return start, end


def _samples(
    source: Source, samples: dict[str, Any], lane: Any, place: Any, ends: Any
) -> Iterator[Any]:
    """Those whose read was not seen to end are drawn until their batch ends."""
    rows = np.flatnonzero((lane >= 0) & ~np.isnan(samples["start_s"]))
    lane = lane[rows]
    start = source.ns(samples["start_s"][rows])
    end_s = samples["end_s"][rows]
    end = np.where(np.isnan(end_s), ends[lane], source.ns(np.nan_to_num(end_s)))
    keys = samples["key"][rows]
    # Samples that were read in one call have all its time.
    again = (lane[1:] == lane[:-1]) & (start[1:] == start[:-1]) & (end[1:] == end[:-1])
    again &= end[1:] > start[1:]
    single = ~(np.append(False, again)[: len(rows)] | np.append(again, False)[: len(rows)])
    heads = np.flatnonzero(~np.append(False, again)[: len(rows)])
    sizes = np.diff(heads, append=len(rows))
    one = np.flatnonzero(single)
    places = place.take(lane[one])
    yield from event_writer.slices(
        event_writer.text("sample"), places, start[one], end[one], {"key": keys[one]}
    )
    at, n = heads[sizes > 1], sizes[sizes > 1]
    together = [", ".join(map(str, keys[i : i + k].tolist())) for i, k in zip(at, n, strict=True)]
    yield from event_writer.slices(
        event_writer.text("samples"), place.take(lane[at]), start[at], end[at],
        {"n_samples": n, "keys": np.array(together, object)},
    )  # fmt: skip
