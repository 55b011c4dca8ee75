"""What the consumer does, and what becomes of a batch on its way to it: marks of a timeline."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import boxes, style
from loaderviz.trace.summary import startup_spans

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.figures.lanes import Lanes
    from loaderviz.trace import Trace

SPANS = 0.48  # just below the consumer's steps


def start_up(trace: Trace, lanes: Lanes) -> dict[str, Any]:
    """Thin lines: a worker until its first task, and the consumer until it can ask for a batch."""
    workers = trace.workers
    begun = workers[workers["started_s"].notna() & workers["first_task_s"].notna()]
    spans = startup_spans(trace)
    starts = [*begun["started_s"], *(start for start, _ in spans)]
    ends = [*begun["first_task_s"], *(end for _, end in spans)]
    hover = [
        f"worker {worker} starts up: {boxes.ms(end - start)}"
        f"<br>pid {pid}, {html.escape(str(method))}"
        for worker, pid, method, start, end in zip(
            *(begun[c] for c in ("worker", "pid", "start_method", "started_s", "first_task_s")),
            strict=True,
        )
    ]
    hover += [f"starts the workers: {boxes.ms(end - start)}" for start, end in spans]
    lane = [*lanes.positions_of(begun), *([boxes.CONSUMER] * len(spans))]
    return boxes.bars(
        "start-up", starts, ends, lane,
        thickness=0.1, fill=style.QUIET, edge_px=0, hover=hover,
    )  # fmt: skip


def waits(batches: pd.DataFrame, named: list[str], span_s: float) -> dict[str, Any]:
    waited = batches[batches["delivered_s"].notna()]
    lengths = waited["delivered_s"] - waited["requested_s"]
    hover = [
        f"waits {boxes.ms(wait)} for<br>{named[row]}"
        for row, wait in zip(waited.index, lengths, strict=True)
    ]
    # An opaque fill: plotly.js draws the lines in it, and would thin all by its alpha.
    colours = {"fgcolor": style.WAIT, "bgcolor": style.WAIT_FILL, "fillmode": "replace"}
    return boxes.bars(
        "wait", waited["requested_s"], waited["delivered_s"], np.zeros(len(waited)),
        thickness=0.5, fill=style.WAIT, edge=style.WAIT_LINE,
        edge_px=np.where(lengths > boxes.NARROW * span_s, 1, 0), batch=waited.index, hover=hover,
        marker={"pattern": {"shape": "/", "size": 7, "solidity": 0.22, **colours}},
    )  # fmt: skip


def steps(batches: pd.DataFrame, named: list[str], span_s: float) -> dict[str, Any]:
    taken = batches[batches["delivered_s"].notna()]
    ends = taken["released_s"].fillna(taken["delivered_s"])
    rows = zip(
        taken.index,
        *(taken[c] for c in ("n_samples", "delivered_s", "requested_s", "ready_s")),
        ends,
        strict=True,
    )
    hover = [
        f"{named[row]}<br>{n} samples<br>step {boxes.ms(end - delivered)}"
        f"<br>waited for {boxes.ms(delivered - requested)}"
        + (f"<br>lay ready {boxes.ms(requested - ready)}" if requested > ready else "")
        for row, n, delivered, requested, ready, end in rows
    ]
    numbers = [int(batch) for batch in taken["batch"]]
    fills = [style.colour(batch) for batch in numbers]
    return boxes.bars(
        "step", taken["delivered_s"], ends, np.zeros(len(taken)), thickness=0.8,
        fill=fills, edge=boxes.edges(fills, taken["delivered_s"], ends, span_s),
        batch=taken.index, hover=hover,
        text=[str(batch) for batch in numbers], textposition="inside", textangle=0,
        insidetextanchor="middle",
        insidetextfont={"size": 13, "color": [style.text_on(batch) for batch in numbers]},
    )  # fmt: skip


def spans(spans: pd.DataFrame) -> dict[str, Any]:
    """The consumer's named spans, below its lane; each name has one colour."""
    names = list(dict.fromkeys(spans["name"]))
    fills = [style.colour(names.index(name) + 1) for name in spans["name"]]
    hover = [
        f"{boxes.key_text(name)}: {boxes.ms(end - start)}"
        for name, start, end in zip(*(spans[c] for c in ("name", "start_s", "end_s")), strict=True)
    ]
    return boxes.bars(
        "span", spans["start_s"], spans["end_s"], np.full(len(spans), SPANS),
        thickness=0.1, fill=fills, edge_px=0, hover=hover,
    )  # fmt: skip


def device(batches: pd.DataFrame, lanes: Lanes, named: list[str], span_s: float) -> dict[str, Any]:
    """What the device did of each step; in the gaps it had nothing to do."""
    ran = batches[batches["device_end_s"].notna() & batches["device_start_s"].notna()]
    ran = ran.sort_values("device_start_s")
    start, end = ran["device_start_s"], ran["device_end_s"]
    idle = (start - ran.groupby("rank")["device_end_s"].shift()).clip(lower=0)
    hover = [
        f"{named[row]}<br>step on the device {boxes.ms(length)}"
        + (f"<br>nothing to do before it {boxes.ms(gap)}" if gap > 0 else "")
        for row, length, gap in zip(ran.index, end - start, idle, strict=True)
    ]
    fills = [style.colour(int(batch)) for batch in ran["batch"]]
    return boxes.bars(
        "device", start, end, [lanes.devices[rank] for rank in ran["rank"]], thickness=0.66,
        fill=fills, edge=boxes.edges(fills, start, end, span_s), batch=ran.index, hover=hover,
    )  # fmt: skip


def pins(batches: pd.DataFrame, lanes: Lanes, named: list[str], span_s: float) -> dict[str, Any]:
    """The thread that unpickles and pins: at work on a batch since it was free for it, at most."""
    pinned = batches[batches["pinned_s"].notna()].sort_values("pinned_s")
    free = pinned.groupby(["rank", "loader"])["pinned_s"].shift()
    begun = np.fmax(pinned["ready_s"].to_numpy(), free.to_numpy())
    start = np.fmin(begun, pinned["pinned_s"].to_numpy())  # at its end where no start is known
    hover = [
        f"{named[row]}<br>taken over and pinned within {boxes.ms(length)}"
        for row, length in zip(pinned.index, pinned["pinned_s"] - start, strict=True)
    ]
    fills = [style.colour(int(batch)) for batch in pinned["batch"]]
    lane = [lanes.pins[r, ld] for r, ld in zip(pinned["rank"], pinned["loader"], strict=True)]
    return boxes.bars(
        "pin", start, pinned["pinned_s"], lane, thickness=0.4,
        fill=fills, edge=boxes.edges(fills, start, pinned["pinned_s"], span_s),
        batch=pinned.index, hover=hover,
    )  # fmt: skip
