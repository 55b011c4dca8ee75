"""A loop and the device's streams: a lane for each of them, a box for each copy and each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.consumer_marks import HATCH

Box = tuple[int, float, float]  # batch, start and end in seconds

LANE_PX, AXIS_PX, TITLE_PX = 46, 58, 86


def streams(
    lanes: Mapping[str, Sequence[Box]],
    *,
    title: str,
    numbers: str,
    waits: Sequence[Box] = (),
    held: Sequence[Box] = (),
    seconds: float | None = None,
    theme: style.ThemeName = "light",
) -> Figure:
    """Draw who works on which batch when; a batch has the same colour and number in all lanes.

    Args:
        lanes: from top to bottom, the boxes of each lane by its name. A box is (batch, start, end),
            with times in seconds.
        title: what the figure shows, in one line.
        numbers: the subtitle: what the title rests on, and whether it was measured.
        waits: hatched boxes in the first lane: the loop waits for a batch.
        held: grey boxes in the first lane: the loop is held up by the device.
        seconds: how much time the axis spans; None for all.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, or no box at all.
    """
    all_boxes = [box for lane in (*lanes.values(), waits, held) for box in lane]
    if not all_boxes:
        raise LoaderVizError("streams() got no box: nothing was copied, stepped on or waited for")
    start_s = min(start for _, start, _ in all_boxes)
    end_s = max(end for _, _, end in all_boxes)
    span_s = end_s - start_s if seconds is None else seconds
    colours = style.theme(theme)
    height = TITLE_PX + AXIS_PX + len(lanes) * LANE_PX
    names = list(lanes)
    margins = (axes.labels_px(names), 22, TITLE_PX, AXIS_PX)
    layout = style.layout(
        colours, title=title, numbers=numbers, height=height, margins=margins, lanes=names
    )
    time_range = [start_s - 0.012 * span_s, start_s + 1.012 * span_s]
    layout |= {
        "uniformtext": {"minsize": 10, "mode": "hide"},
        "xaxis": axes.axis(colours, "seconds", range=time_range, nticks=10),
        "yaxis": axes.lane_axis(colours, names, range=[len(names) - 0.45, -0.55]),
    }
    return Figure.unchecked(
        [
            _loop_bars("wait", waits, "waits for", {"pattern": HATCH}, style.WAIT),
            _loop_bars("held", held, "is held up by", {}, style.QUIET),
            _device_bars(lanes, span_s),
        ],
        layout,
    )


def _loop_bars(
    kind: str, loop_boxes: Sequence[Box], verb: str, marker: dict[str, Any], fill: str
) -> dict[str, Any]:
    """Boxes in the lane of the loop, which is the first."""
    batch, start, end = _columns([box for box in loop_boxes if box[2] > box[1]])
    hover = (
        f"the loop {verb} <b>batch {number}</b><br>{duration}"
        for number, duration in zip(batch.tolist(), boxes.duration_texts(end - start), strict=True)
    )
    return boxes.bars(
        kind, start, end, np.zeros(len(batch), int), thickness=0.5, fill=fill, edge_px=0,
        batch=batch, hover=hover, marker=marker,
    )  # fmt: skip


def _device_bars(lanes: Mapping[str, Sequence[Box]], span_s: float) -> dict[str, Any]:
    """Boxes in the lanes of the device."""
    lane = np.array([i for i, lane_boxes in enumerate(lanes.values()) for _ in lane_boxes], int)
    batch, start, end = _columns([box for lane_boxes in lanes.values() for box in lane_boxes])
    names = list(lanes)
    hover = (
        f"<b>batch {number}</b>, {names[i]}<br>{duration}"
        for number, i, duration in zip(
            batch.tolist(), lane.tolist(), boxes.duration_texts(end - start), strict=True
        )
    )
    fills = style.batch_codes(batch)
    return boxes.bars(
        "work", start, end, lane, thickness=0.72, fill=fills,
        edge=boxes.edge_codes(fills, start, end, span_s), batch=batch, hover=hover,
        insidetextanchor="middle", **boxes.number_labels(batch, 12),
    )  # fmt: skip


def _columns(rows: Sequence[Box]) -> tuple[Any, Any, Any]:
    """Batches, starts and ends as arrays."""
    table = np.array(rows, float).reshape(-1, 3)
    return table[:, 0].astype(int), table[:, 1], table[:, 2]
