"""What the workers do: batches, and in each its samples and its collate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from loaderviz.export.perfetto.event_writer import json_text, numbered_names, slice_events
from loaderviz.export.perfetto.nesting import sublanes
from loaderviz.export.perfetto.trace_source import TraceSource
from loaderviz.trace.steps import groups

BATCH: Final = ("rank", "loader", "epoch", "batch", "worker")
LANE: Final = "batches"


def worker_slices(source: TraceSource) -> Iterator[Any]:
    """Events, as bytes: each worker's start, its batches, and in these collate and samples."""
    batches, lanes = source.batches, source.lanes
    samples = {c: source.trace.samples[c].to_numpy() for c in (*BATCH, "key", "start_s", "end_s")}
    run_starts, batch_of_run = _batch_runs(samples, batches)
    start_s, end_s = _batch_extents(batches, samples, run_starts, batch_of_run)
    made = np.flatnonzero(~np.isnan(start_s))
    worker_start, first_task, worker = _worker_starts(source)
    process = np.concatenate([lanes.maker_of[made], worker])
    start = np.concatenate([source.to_ns(start_s[made]), worker_start])
    end = np.concatenate([source.to_ns(end_s[made]), first_task])
    location = lanes.lane_locations(process, LANE, sublanes(process, start, end))
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
    run_sizes = np.diff(run_starts, append=len(samples["batch"]))
    batch_of_sample = np.repeat(made_index[batch_of_run], run_sizes)
    yield from _sample_slices(source, samples, batch_of_sample, location, end)


def _worker_starts(source: TraceSource) -> tuple[Any, Any, Any]:
    """Of each worker, when it started and came to its first task (in ns), and its process."""
    workers = source.trace.workers
    started, first_task = workers["started_s"].to_numpy(), workers["first_task_s"].to_numpy()
    known = ~np.isnan(started + first_task)
    process = source.lanes.worker_of[known]
    return source.to_ns(started[known]), source.to_ns(first_task[known]), process


def _batch_runs(samples: dict[str, Any], batches: dict[str, Any]) -> tuple[Any, Any]:
    """The runs of neighbouring samples of one batch: each one's first row, and its batch's row.

    The latter is -1 where the batch is not in the trace.
    """
    n = len(samples["batch"])
    changes = np.zeros(max(n - 1, 0), bool)
    for column in BATCH:
        changes |= samples[column][1:] != samples[column][:-1]
    run_starts = np.flatnonzero(np.append(True, changes)[:n])
    code = groups(*(np.concatenate([batches[c], samples[c][run_starts]]) for c in BATCH))
    n_batches = len(batches["batch"])
    row_of_code = np.full(int(code.max(initial=-1)) + 1, -1)
    row_of_code[code[:n_batches]] = np.arange(n_batches)
    return run_starts, row_of_code[code[n_batches:]]


def _batch_extents(
    batches: dict[str, Any], samples: dict[str, Any], run_starts: Any, batch_of_run: Any
) -> tuple[Any, Any]:
    """From when to when each batch was worked on, as far as it came; its samples lie inside."""
    start = batches["started_s"].copy()
    end = np.fmax(np.fmax(start, batches["collate_s"]), batches["ready_s"])
    if len(run_starts):
        latest = np.fmax(samples["start_s"], samples["end_s"])
        known = batch_of_run >= 0
        rows = batch_of_run[known]
        np.fmin.at(start, rows, np.fmin.reduceat(samples["start_s"], run_starts)[known])
        np.fmax.at(end, rows, np.fmax.reduceat(latest, run_starts)[known])
    return start, end


def _sample_slices(
    source: TraceSource, samples: dict[str, Any], batch: Any, location: Any, batch_end: Any
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
