"""What the workers do: batches, and in each its samples and its collate; and their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loaderviz.export.chrome_events import (
    counter_events,
    json_text,
    numbered_names,
    slice_events,
)
from loaderviz.export.perfetto_lanes import Source
from loaderviz.trace.columns_of_rows import BATCH, Table, batch_rows


def worker_slices(source: Source) -> Iterator[Any]:
    """Events, as bytes: each worker's start, its batches, and in these collate and samples."""
    batches = source.batches
    columns = (*BATCH, "key", "start_s", "end_s")
    samples = {name: source.trace.samples[name].to_numpy() for name in columns}
    row = batch_rows(samples, batches)
    start_s, end_s = _batch_extents(batches, samples, row)
    made = np.flatnonzero(~np.isnan(start_s))
    worker_start, first_task, worker = _worker_starts(source)
    process = np.concatenate([source.maker_of[made], worker])
    start = np.concatenate([source.to_ns(start_s[made]), worker_start])
    end = np.concatenate([source.to_ns(end_s[made]), first_task])
    location = source.lane_locations(process, "batches", start, end)
    of_workers, of_batches = slice(len(made), None), slice(len(made))
    yield from slice_events(
        json_text("starts"), location[of_workers], start[of_workers], end[of_workers], {}
    )
    location, start, end = location[of_batches], start[of_batches], end[of_batches]
    args = source.batch_columns(made, *BATCH[1:4], "n_samples", "n_bytes", "cpu_s", "state")
    args["queued_s"] = batches["started_s"][made] - batches["dispatched_s"][made]
    yield from slice_events(
        numbered_names("batch", args["batch"]), location, start, end, args,
        source.flow_members(made, '"flow_out":true'),
    )  # fmt: skip
    collated = np.flatnonzero(~np.isnan(batches["collate_s"] + batches["ready_s"])[made])
    collate_start = source.to_ns(batches["collate_s"][made[collated]])
    collate_end = source.to_ns(batches["ready_s"][made[collated]])
    yield from slice_events(
        json_text("collate"), location.take(collated), collate_start, collate_end, {}
    )
    made_index = np.full(len(start_s) + 1, -1)  # the last: of samples whose batch is not there
    made_index[made] = np.arange(len(made))
    yield from _sample_slices(source, samples, made_index[row], location, end)


def process_memory(source: Source) -> Iterator[Any]:
    """Counter events, as bytes: resident memory of each process that made batches.

    One value per batch: what was last measured by the time it was ready, or else begun.
    """
    batches = source.batches
    at_s = np.fmax(batches["started_s"], batches["ready_s"])
    rows = np.flatnonzero((batches["rss_bytes"] > 0) & ~np.isnan(at_s))
    yield from counter_events(
        "memory", source.process_locations(source.maker_of[rows]),
        source.to_ns(at_s[rows]), "rss_bytes", batches["rss_bytes"][rows],
    )  # fmt: skip


def _worker_starts(source: Source) -> tuple[Any, Any, Any]:
    """Of each worker, when it started and came to its first task (in ns), and its process."""
    workers = source.trace.workers
    started, first_task = workers["started_s"].to_numpy(), workers["first_task_s"].to_numpy()
    known = ~np.isnan(started + first_task)
    process = source.worker_of[known]
    return source.to_ns(started[known]), source.to_ns(first_task[known]), process


def _batch_extents(batches: Table, samples: Table, row: Any) -> tuple[Any, Any]:
    """From when to when each batch was worked on, as far as it came; its samples lie inside.

    ``row``: of each sample that of its batch, -1 where the batch is not in the trace.
    """
    start = batches["started_s"].copy()
    end = np.fmax(np.fmax(start, batches["collate_s"]), batches["ready_s"])
    begins = np.flatnonzero(np.diff(row, prepend=-2))  # of the samples of one batch
    if len(begins):
        latest = np.fmax(samples["start_s"], samples["end_s"])
        known = row[begins] >= 0
        rows = row[begins][known]
        np.fmin.at(start, rows, np.fmin.reduceat(samples["start_s"], begins)[known])
        np.fmax.at(end, rows, np.fmax.reduceat(latest, begins)[known])
    return start, end


def _sample_slices(
    source: Source, samples: Table, batch: Any, location: Any, batch_end: Any
) -> Iterator[Any]:
    """Events of samples. Those whose read was not seen to end are drawn until their batch ends.

    ``batch``: for each sample its batch's index in ``location`` and ``batch_end``, -1 for none.
    """
    rows = np.flatnonzero((batch >= 0) & ~np.isnan(samples["start_s"]))
    batch = batch[rows]
    start = source.to_ns(samples["start_s"][rows])
    end_s = samples["end_s"][rows]
    end = np.where(np.isnan(end_s), batch_end[batch], source.to_ns(np.nan_to_num(end_s)))
    keys = samples["key"][rows]
    # Samples that were read in one call have all its time.
    same_call = (batch[1:] == batch[:-1]) & (start[1:] == start[:-1]) & (end[1:] == end[:-1])
    same_call &= end[1:] > start[1:]
    call_starts = np.flatnonzero(~np.append(False, same_call)[: len(rows)])
    call_sizes = np.diff(call_starts, append=len(rows))
    alone = call_starts[call_sizes == 1]
    yield from slice_events(
        json_text("sample"), location.take(batch[alone]), start[alone], end[alone],
        {"key": keys[alone]},
    )  # fmt: skip
    first, n = call_starts[call_sizes > 1], call_sizes[call_sizes > 1]
    key_lists = [
        ", ".join(map(str, keys[i : i + k].tolist())) for i, k in zip(first, n, strict=True)
    ]
    yield from slice_events(
        json_text("samples"), location.take(batch[first]), start[first], end[first],
        {"n_samples": n, "keys": np.array(key_lists, object)},
    )  # fmt: skip
