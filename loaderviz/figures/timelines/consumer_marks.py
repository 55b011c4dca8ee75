"""Marks of a timeline: what the consumer does, and what happens to a batch on its way to it.

Each function returns one plotly trace. ``names`` are those of all batches (``boxes.batch_names``),
by row; ``axis_span_s`` is how many seconds the time axis shows.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import style
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.text import count
from loaderviz.trace.around_epochs import drawn_ahead, endings, startups
from loaderviz.trace.columns_of_rows import Table, arrays, codes, where
from loaderviz.trace.steps import step_ends

if TYPE_CHECKING:
    from loaderviz.trace import Trace

# For marks with an opaque fill: plotly.js draws the pattern with the fill's alpha.
HATCH = {
    "shape": "/", "size": 7, "solidity": 0.22, "fillmode": "replace",
    "fgcolor": style.WAIT, "bgcolor": style.WAIT_FILL,
}  # fmt: skip
MANY_READY = 200  # changes of the number of ready batches; a thicker line would hide the area below
SPAN_OFFSET = 0.48  # of a lane: named spans lie just below the consumer's steps


def start_up(trace: Trace, lanes: Lanes) -> dict[str, Any]:
    """Thin lines: a worker until its first task; the consumer before and after its batches."""
    workers = arrays(trace.workers)
    workers = where(workers, ~np.isnan(workers["first_task_s"] - workers["started_s"]))
    starts, ahead, ends = startups(trace), drawn_ahead(trace), endings(trace)
    rank, _, consumer_start, consumer_end = np.array(starts + ahead + ends).reshape(-1, 4).T
    begins = np.append(workers["started_s"], consumer_start)
    until = np.append(workers["first_task_s"], consumer_end)
    durations = boxes.duration_texts(until - begins)
    hover = [
        f"worker {worker} starts up: {duration}<br>pid {pid}, {html.escape(str(method))}"
        for worker, pid, method, duration in zip(
            *(workers[c] for c in ("worker", "pid", "start_method")), durations, strict=False
        )
    ]
    doing = ["starts the workers"] * len(starts) + ["asks for the first batches"] * len(ahead)
    doing += ["waits until its workers have ended"] * len(ends)
    hover += [
        f"{what}: {duration}" for what, duration in zip(doing, durations[len(hover) :], strict=True)
    ]
    consumer = lanes.consumer_lanes({"rank": rank.astype(np.int64)})
    lane = np.append(lanes.worker_lanes(workers), consumer)
    return boxes.bars(
        "start-up", begins, until, lane, thickness=0.1, fill=style.QUIET, edge_px=0, hover=hover
    )


def waits(batches: Table, lanes: Lanes, names: Any, axis_span_s: float) -> dict[str, Any]:
    """Hatched boxes: from the consumer's request to the delivery."""
    delivered = where(batches, ~np.isnan(batches["delivered_s"]))
    start, end = delivered["requested_s"], delivered["delivered_s"]
    durations = boxes.duration_texts(end - start)
    hover = (
        f"waits {duration} for<br>{name}"
        for name, duration in zip(names[delivered["row"]], durations, strict=True)
    )
    return boxes.bars(
        "wait", start, end, lanes.consumer_lanes(delivered), thickness=0.5, fill=style.WAIT,
        edge=style.WAIT_LINE, edge_px=(end - start > boxes.NARROW * axis_span_s).astype(np.int8),
        batch=delivered["row"], hover=hover,
        marker={"pattern": HATCH},
    )  # fmt: skip


def steps(batches: Table, lanes: Lanes, names: Any, axis_span_s: float) -> dict[str, Any]:
    """The consumer's steps, each in the colour of its batch."""
    delivered = where(batches, ~np.isnan(batches["delivered_s"]))
    start, requested = delivered["delivered_s"], delivered["requested_s"]
    end = step_ends(delivered)
    unused = requested - delivered["ready_s"]  # how long the finished batch lay ready
    durations = (boxes.duration_texts(times) for times in (end - start, start - requested, unused))
    hover = (
        f"{name}<br>{count(n, 'sample')}<br>step {step}<br>waited for {wait}"
        + (f"<br>lay ready {ready}" if lay_ready else "")
        for name, n, lay_ready, step, wait, ready in zip(
            names[delivered["row"]],
            delivered["n_samples"].tolist(),
            unused > 0,
            *durations,
            strict=True,
        )
    )
    fills = style.batch_codes(delivered["batch"])
    return boxes.bars(
        "step", start, end, lanes.consumer_lanes(delivered), thickness=0.8, fill=fills,
        edge=boxes.edge_codes(fills, start, end, axis_span_s), batch=delivered["row"], hover=hover,
        insidetextanchor="middle", **boxes.number_labels(delivered["batch"], 13),
    )  # fmt: skip


def spans(spans: Table, lanes: Lanes) -> dict[str, Any]:
    """The consumer's named spans, below its lane; each name has one colour."""
    numbers = {name: i + 1 for i, name in enumerate(dict.fromkeys(spans["name"]))}
    start, end = spans["start_s"], spans["end_s"]
    hover = (
        f"{boxes.key_text(name)}: {duration}"
        for name, duration in zip(spans["name"], boxes.duration_texts(end - start), strict=True)
    )
    return boxes.bars(
        "span", start, end, SPAN_OFFSET + lanes.consumer_lanes(spans), thickness=0.1, edge_px=0,
        hover=hover,
        fill=style.batch_codes(np.array([numbers[name] for name in spans["name"]], np.int64)),
    )  # fmt: skip


def device(batches: Table, lanes: Lanes, names: Any, axis_span_s: float) -> dict[str, Any]:
    """The part of each step that the device worked on; in the gaps it had nothing to do."""
    on_device = where(batches, ~np.isnan(batches["device_end_s"] - batches["device_start_s"]))
    on_device, previous_end = _in_order(on_device, ("rank",), "device_start_s", "device_end_s")
    start, end = on_device["device_start_s"], on_device["device_end_s"]
    idle = start - previous_end
    hover = (
        f"{name}<br>step on the device {duration}"
        + (f"<br>nothing to do before it {gap}" if was_idle else "")
        for name, duration, gap, was_idle in zip(
            names[on_device["row"]],
            boxes.duration_texts(end - start),
            boxes.duration_texts(idle),
            idle > 0,
            strict=True,
        )
    )
    fills = style.batch_codes(on_device["batch"])
    return boxes.bars(
        "device", start, end, lanes.device_lanes(on_device), thickness=0.66, fill=fills,
        edge=boxes.edge_codes(fills, start, end, axis_span_s), batch=on_device["row"], hover=hover,
        insidetextanchor="middle", **boxes.number_labels(on_device["batch"], 12),
    )  # fmt: skip


def pins(batches: Table, lanes: Lanes, names: Any, axis_span_s: float) -> dict[str, Any]:
    """When the pin thread worked on each batch."""
    pinned, start = pinned_batches(batches)
    end = pinned["pinned_s"]
    durations = boxes.duration_texts(end - start)
    hover = (
        f"{name}<br>taken over and pinned within {duration}"
        for name, duration in zip(names[pinned["row"]], durations, strict=True)
    )
    fills = style.batch_codes(pinned["batch"])
    return boxes.bars(
        "pin", start, end, lanes.pin_lanes(pinned), thickness=0.4, fill=fills,
        edge=boxes.edge_codes(fills, start, end, axis_span_s), batch=pinned["row"], hover=hover,
    )  # fmt: skip


def pinned_batches(batches: Table) -> tuple[Table, Any]:
    """The batches that a pin thread unpickled and pinned, and the earliest start of that, in s.

    The thread cannot begin before the batch is ready and the batch before is pinned; the start is
    the batch's ``pinned_s`` where neither time is known.
    """
    pinned = where(batches, ~np.isnan(batches["pinned_s"]))
    pinned, previous_end = _in_order(pinned, ("rank", "loader"), "pinned_s", "pinned_s")
    return pinned, np.fmin(np.fmax(pinned["ready_s"], previous_end), pinned["pinned_s"])


def _in_order(rows: Table, lane: tuple[str, ...], by: str, end: str) -> tuple[Table, Any]:
    """The rows, lane by lane in order of time, and when the row before in the lane ended, or NaN.

    ``lane``: the columns that tell lanes apart; ``by`` and ``end``: the columns of time.
    """
    lane_codes = codes(lane, rows)[0]
    order = np.lexsort((rows[by], lane_codes))
    rows, lane_codes = where(rows, order), lane_codes[order]
    previous_end = np.full(len(order), np.nan)
    same_lane = lane_codes[1:] == lane_codes[:-1]
    previous_end[1:] = np.where(same_lane, rows[end][:-1], np.nan)
    return rows, previous_end


def ready_counts(batches: Table) -> tuple[Any, Any]:
    """When (s) the number of finished batches not yet taken changes, and the number from then on.

    Two arrays of one length, float64 and int32, in order of time.
    """
    ready, delivered = batches["ready_s"], batches["delivered_s"]
    arrivals = ready[~np.isnan(ready)]
    departures = delivered[~np.isnan(ready + delivered)]
    times = np.concatenate([arrivals, departures])
    changes = np.repeat(np.array([1, -1], np.int32), [len(arrivals), len(departures)])
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(changes[order], dtype=np.int32)


def ready_strip(batches: Table, lanes: Lanes, edges: Any = None) -> dict[str, Any]:
    """The plotly trace of the strip; empty where there are no workers.

    ``edges``, in seconds: draw only the highest count of each bin between them; None: each change.
    """
    times, counts = ready_counts(batches)
    if edges is not None:
        first = np.searchsorted(times, edges[:-1], side="right")  # each bin's first change
        count_before = np.append(0, counts)[first]
        most = np.maximum.reduceat(np.append(counts, 0), first) if len(first) else counts
        changed = np.diff(first, append=len(times)) > 0
        times, counts = edges[:-1], np.where(changed, np.maximum(most, count_before), count_before)
    if not lanes.has_workers:
        times, counts = times[:0], counts[:0]
    return {
        "type": "scatter",
        "name": "ready",
        "x": times,
        "y": counts,
        "yaxis": "y2",
        "mode": "lines",
        "line": {
            "shape": "hv",
            "width": 1.4 if len(times) < MANY_READY else 0.6,
            "color": style.READY_LINE,
        },
        "fill": "tozeroy",
        "fillcolor": style.READY_FILL,
        "hovertemplate": "%{y} batches ready<extra></extra>",
    }
