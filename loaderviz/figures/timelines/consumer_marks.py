"""What the consumer does, and what becomes of a batch on its way to it: marks of a timeline."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import style
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.text import count
from loaderviz.trace.analysis.steps import startups, step_ends
from loaderviz.trace.columns_of_rows import Table, arrays, codes, where

if TYPE_CHECKING:
    from loaderviz.trace import Trace

# To be given an opaque fill: plotly.js draws the lines in it, and would thin all by its alpha.
HATCH = {
    "shape": "/", "size": 7, "solidity": 0.22, "fillmode": "replace",
    "fgcolor": style.WAIT, "bgcolor": style.WAIT_FILL,
}  # fmt: skip
BELOW = 0.48  # the consumer's steps, and just so


def start_up(trace: Trace, lanes: Lanes) -> dict[str, Any]:
    """Thin lines: a worker until its first task, and the consumer until it can ask for a batch."""
    workers = arrays(trace.workers)
    begun = where(workers, ~np.isnan(workers["first_task_s"] - workers["started_s"]))
    rank, busy_from, busy_to = np.array(startups(trace)).reshape(-1, 3).T
    starts = np.append(begun["started_s"], busy_from)
    ends = np.append(begun["first_task_s"], busy_to)
    took = boxes.durations(ends - starts)
    hover = [
        f"worker {worker} starts up: {each}<br>pid {pid}, {html.escape(str(method))}"
        for worker, pid, method, each in zip(
            *(begun[c] for c in ("worker", "pid", "start_method")), took, strict=False
        )
    ]
    hover += [f"starts the workers: {each}" for each in took[len(hover) :]]
    starting = lanes.consumers_of({"rank": rank.astype(np.int64)})
    lane = np.append(lanes.positions_of(begun), starting)
    return boxes.bars(
        "start-up", starts, ends, lane, thickness=0.1, fill=style.QUIET, edge_px=0, hover=hover
    )


def waits(batches: Table, lanes: Lanes, named: Any, span_s: float) -> dict[str, Any]:
    """Hatched boxes: from the consumer's request to the delivery."""
    waited = where(batches, ~np.isnan(batches["delivered_s"]))
    start, end = waited["requested_s"], waited["delivered_s"]
    hover = (
        f"waits {wait} for<br>{name}"
        for name, wait in zip(named[waited["row"]], boxes.durations(end - start), strict=True)
    )
    return boxes.bars(
        "wait", start, end, lanes.consumers_of(waited), thickness=0.5, fill=style.WAIT,
        edge=style.WAIT_LINE, edge_px=(end - start > boxes.NARROW * span_s).astype(np.int8),
        batch=waited["row"], hover=hover,
        marker={"pattern": HATCH},
    )  # fmt: skip


def steps(batches: Table, lanes: Lanes, named: Any, span_s: float) -> dict[str, Any]:
    """The consumer's steps, each in the colour of its batch."""
    taken = where(batches, ~np.isnan(batches["delivered_s"]))
    start, requested = taken["delivered_s"], taken["requested_s"]
    end = step_ends(taken)
    lay = requested - taken["ready_s"]
    times = (boxes.durations(each) for each in (end - start, start - requested, lay))
    hover = (
        f"{name}<br>{count(n, 'sample')}<br>step {step}<br>waited for {wait}"
        + (f"<br>lay ready {ready}" if lay_ready else "")
        for name, n, lay_ready, step, wait, ready in zip(
            named[taken["row"]], taken["n_samples"].tolist(), lay > 0, *times, strict=True
        )
    )
    fills = style.shades(taken["batch"])
    return boxes.bars(
        "step", start, end, lanes.consumers_of(taken), thickness=0.8,
        fill=fills, edge=boxes.edges(fills, start, end, span_s), batch=taken["row"], hover=hover,
        insidetextanchor="middle", **boxes.numbered(taken["batch"], 13),
    )  # fmt: skip


def spans(spans: Table, lanes: Lanes) -> dict[str, Any]:
    """The consumer's named spans, below its lane; each name has one colour."""
    numbers = {name: i + 1 for i, name in enumerate(dict.fromkeys(spans["name"]))}
    hover = (
        f"{boxes.key_text(name)}: {took}"
        for name, took in zip(
            spans["name"], boxes.durations(spans["end_s"] - spans["start_s"]), strict=True
        )
    )
    return boxes.bars(
        "span", spans["start_s"], spans["end_s"], BELOW + lanes.consumers_of(spans), thickness=0.1,
         edge_px=0, hover=hover,
        fill=style.shades(np.array([numbers[name] for name in spans["name"]], np.int64)),
    )  # fmt: skip


def device(batches: Table, lanes: Lanes, named: Any, span_s: float) -> dict[str, Any]:
    """What the device did of each step; in the gaps it had nothing to do."""
    ran = where(batches, ~np.isnan(batches["device_end_s"] - batches["device_start_s"]))
    ran, before = _in_turn(ran, ("rank",), "device_start_s", "device_end_s")
    start, end = ran["device_start_s"], ran["device_end_s"]
    idle = start - before
    hover = (
        f"{name}<br>step on the device {took}"
        + (f"<br>nothing to do before it {gap}" if had_none else "")
        for name, took, gap, had_none in zip(
            named[ran["row"]],
            boxes.durations(end - start),
            boxes.durations(idle),
            idle > 0,
            strict=True,
        )
    )
    fills = style.shades(ran["batch"])
    return boxes.bars(
        "device", start, end, lanes.devices_of(ran), thickness=0.66, fill=fills,
        edge=boxes.edges(fills, start, end, span_s), batch=ran["row"], hover=hover,
        insidetextanchor="middle", **boxes.numbered(ran["batch"], 12),
    )  # fmt: skip


def pins(batches: Table, lanes: Lanes, named: Any, span_s: float) -> dict[str, Any]:
    """What the pin thread did of each batch."""
    pinned, start = pinning(batches)
    end = pinned["pinned_s"]
    hover = (
        f"{name}<br>taken over and pinned within {took}"
        for name, took in zip(named[pinned["row"]], boxes.durations(end - start), strict=True)
    )
    fills = style.shades(pinned["batch"])
    return boxes.bars(
        "pin", start, end, lanes.pins_of(pinned), thickness=0.4, fill=fills,
        edge=boxes.edges(fills, start, end, span_s), batch=pinned["row"], hover=hover,
    )  # fmt: skip


def pinning(batches: Table) -> tuple[Table, Any]:
    """What a thread unpickled and pinned: at work on a batch since free for it, at most."""
    pinned = where(batches, ~np.isnan(batches["pinned_s"]))
    pinned, free = _in_turn(pinned, ("rank", "loader"), "pinned_s", "pinned_s")
    # Its end where no start is known.
    return pinned, np.fmin(np.fmax(pinned["ready_s"], free), pinned["pinned_s"])


def _in_turn(rows: Table, lane: tuple[str, ...], by: str, ended: str) -> tuple[Table, Any]:
    """The rows in order of time, and when the one before in the same lane ended (or NaN)."""
    own = codes(lane, rows)[0]
    order = np.lexsort((rows[by], own))
    rows, own = where(rows, order), own[order]
    before = np.full(len(order), np.nan)
    before[1:] = np.where(own[1:] == own[:-1], rows[ended][:-1], np.nan)
    return rows, before
