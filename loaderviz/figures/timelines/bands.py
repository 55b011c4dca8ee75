"""Large recordings, zoomed out: how much of each stretch of time a lane spent on what."""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.figures import style
from loaderviz.figures.timelines import consumer_marks
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.trace.columns_of_rows import Table, where

BINS = 360  # in the first picture; later the page computes as many as it has room for
TALL, CONSUMER_TALL = 0.66, 0.8  # the height of a bin that is all busy, as a part of a lane


def seconds_in_bins(start: Any, end: Any, edges: Any, share: Any = None) -> Any:
    """How many seconds of each bin lie within the given spans; NaN in a span leaves it out.

    Args:
        start: when each span begins, in seconds.
        end: when it ends.
        edges: of the bins, in seconds, one more than there are bins; all of the same width.
        share: what part of each span counts, 0 to 1; None: all of it.
    """
    known = ~np.isnan(start + end)
    counted = np.ones(int(known.sum())) if share is None else share[known]
    edge_times = edges - edges[0]

    def summed_since(moments: Any) -> Any:  # at each edge, the time since each earlier moment
        order = np.argsort(moments, kind="stable")
        times, weights = moments[order] - edges[0], counted[order]
        n = np.searchsorted(times, edge_times)
        weight, weighted = (np.append(0.0, np.cumsum(x))[n] for x in (weights, weights * times))
        return weight * edge_times - weighted

    return np.diff(summed_since(start[known]) - summed_since(end[known])).clip(0)


def seconds_by_lane(lane: Any, start: Any, end: Any, edges: Any) -> dict[int, Any]:
    """``seconds_in_bins`` for each lane that occurs; ``lane`` (int) says where each span lies."""
    order = np.argsort(lane.astype(np.int16), kind="stable")  # small numbers sort in linear time
    lanes, first = np.unique(lane[order], return_index=True)
    # Without any lane split() still gives one part, which is empty: hence not strict.
    parts = zip(lanes.tolist(), np.split(order, first[1:]), strict=False)
    return {number: seconds_in_bins(start[rows], end[rows], edges) for number, rows in parts}


def seconds_by_kind(batches: Table, lanes: Lanes, edges: Any) -> dict[str, dict[int, Any]]:
    """The seconds of each bin by kind (``busy``, ``step``, ``wait``) and lane."""
    consumer = lanes.consumer_lanes(batches)
    delivered, released = batches["delivered_s"], batches["released_s"]
    started, ready = batches["started_s"], batches["ready_s"]
    busy = seconds_by_lane(lanes.worker_lanes(batches), started, ready, edges)
    pinned, pin_start = consumer_marks.pinned_batches(batches)
    busy |= seconds_by_lane(lanes.pin_lanes(pinned), pin_start, pinned["pinned_s"], edges)
    on_device = where(batches, ~np.isnan(batches["device_start_s"]))
    device_start, device_end = on_device["device_start_s"], on_device["device_end_s"]
    busy |= seconds_by_lane(lanes.device_lanes(on_device), device_start, device_end, edges)
    step = seconds_by_lane(consumer, delivered, released, edges)
    wait = seconds_by_lane(consumer, batches["requested_s"], delivered, edges)
    return {"busy": busy, "step": step, "wait": wait}


def bin_edges(time_range: list[float]) -> Any:
    """The edges of ``BINS`` equal bins, in seconds, shape (BINS + 1,)."""
    return np.linspace(time_range[0], time_range[1], BINS + 1)


def band_marks(
    batches: Table | None, lanes: Lanes, time_range: list[float]
) -> list[dict[str, Any]]:
    """A plotly trace for each kind: what is seen until the page's own script draws, or without it.

    ``batches`` is None where batches are drawn as boxes; the traces are empty then.
    """
    edges = bin_edges(time_range)
    outline_x = np.repeat(edges, 2)[1:-1]
    seconds = {} if batches is None else seconds_by_kind(batches, lanes, edges)
    bin_width = (time_range[1] - time_range[0]) / BINS
    styles = {
        "busy": (style.BUSY, TALL, 1),
        "step": (style.BUSY, CONSUMER_TALL, 1),
        "wait": (style.WAIT, CONSUMER_TALL, -1),  # hangs from the top of the consumer's lane
    }
    marks = []
    for kind, (fill, tall, up) in styles.items():
        x, y = [], []
        for lane, bins in seconds.get(kind, {}).items():
            base = lane + up * tall / 2  # the axis points down
            outline_y = base - up * tall * np.repeat(np.minimum(bins / bin_width, 1), 2)
            x += [outline_x, (outline_x[-1], outline_x[0], np.nan)]
            y += [outline_y, (base, base, np.nan)]
        marks.append({
            "type": "scatter", "name": f"{kind} band", "x": np.concatenate([*x, ()]).round(6),
            "y": np.concatenate([*y, ()]).round(3), "mode": "lines", "line": {"width": 0},
            "fill": "toself", "fillcolor": fill, "hoverinfo": "skip",
            **({"fillpattern": consumer_marks.HATCH} if kind == "wait" else {}),
        })  # fmt: skip
    return marks
