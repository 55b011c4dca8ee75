"""Large recordings from afar: how much of each stretch of time was spent on what, lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.figures import style
from loaderviz.figures.timelines import consumer_marks
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.trace.columns_of_rows import Table, where

BINS = 360  # in the first picture; the page computes as many as it has room for
TALL, CONSUMER_TALL = 0.66, 0.8  # of a lane: a whole bin's worth


def seconds(start: Any, end: Any, edges: Any) -> Any:
    """How much of each bin between two edges lies between starts and ends; NaN: nothing does."""
    known = ~np.isnan(start + end)
    at, until = np.sort(start[known]) - edges[0], np.sort(end[known]) - edges[0]
    times = edges - edges[0]

    def since(moments: Any) -> Any:  # the sum of what has passed since each of them
        n = np.searchsorted(moments, times)
        return n * times - np.append(0.0, np.cumsum(moments))[n]

    return np.diff(since(at) - since(until)).clip(0)


def by_lane(lane: Any, start: Any, end: Any, edges: Any) -> dict[int, Any]:
    """As ``seconds``, for each lane that occurs."""
    order = np.argsort(lane.astype(np.int16), kind="stable")  # small numbers sort in linear time
    found, first = np.unique(lane[order], return_index=True)
    parts = zip(found.tolist(), np.split(order, first[1:]), strict=False)  # one of nothing: 1 part
    return {each: seconds(start[rows], end[rows], edges) for each, rows in parts}


def times_of(batches: Table, lanes: Lanes, edges: Any) -> dict[str, dict[int, Any]]:
    """By kind and lane, the seconds of each bin: ``busy``, ``step`` and ``wait``."""
    main = lanes.consumers_of(batches)
    taken, released = batches["delivered_s"], batches["released_s"]
    made, end = batches["started_s"], batches["ready_s"]
    busy = by_lane(lanes.positions_of(batches), made, end, edges)
    pinned, begun = consumer_marks.pinning(batches)
    busy |= by_lane(lanes.pins_of(pinned), begun, pinned["pinned_s"], edges)
    ran = where(batches, ~np.isnan(batches["device_start_s"]))
    busy |= by_lane(lanes.devices_of(ran), ran["device_start_s"], ran["device_end_s"], edges)
    step = by_lane(main, taken, released, edges)
    wait = by_lane(main, batches["requested_s"], taken, edges)
    return {"busy": busy, "step": step, "wait": wait}


def edges(shown: list[float]) -> Any:
    return np.linspace(shown[0], shown[1], BINS + 1)


def areas(batches: Table | None, lanes: Lanes, shown: list[float]) -> list[dict[str, Any]]:
    """What is seen until the page's own script draws, and where there is none; or nothing yet."""
    across = np.repeat(edges(shown), 2)[1:-1]
    spent = {} if batches is None else times_of(batches, lanes, edges(shown))
    width = (shown[1] - shown[0]) / BINS
    looks = {
        "busy": (style.BUSY, TALL, 1),
        "step": (style.BUSY, CONSUMER_TALL, 1),
        "wait": (style.WAIT, CONSUMER_TALL, -1),  # hangs from the top of the consumer's lane
    }
    marks = []
    for kind, (fill, tall, up) in looks.items():
        x, y = [], []
        for lane, bins in spent.get(kind, {}).items():
            foot = lane + up * tall / 2  # the axis points down
            outline = foot - up * tall * np.repeat(np.minimum(bins / width, 1), 2)
            x += [across, (across[-1], across[0], np.nan)]
            y += [outline, (foot, foot, np.nan)]
        marks.append({
            "type": "scatter", "name": f"{kind} band", "x": np.concatenate([*x, ()]).round(6),
            "y": np.concatenate([*y, ()]).round(3), "mode": "lines", "line": {"width": 0},
            "fill": "toself", "fillcolor": fill, "hoverinfo": "skip",
            **({"fillpattern": consumer_marks.HATCH} if kind == "wait" else {}),
        })  # fmt: skip
    return marks
