"""A loop and the device's streams: a lane for each of them, a box for each copy and each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.consumer_marks import HATCH
from loaderviz.text import duration

Box = tuple[int, float, float]  # batch, start and end in seconds

LANE_PX, COMPARED_LANE_PX, AXIS_PX, TITLE_PX = 46, 28, 58, 86


@dataclass(frozen=True)
class Streams:
    """The boxes of one loop.

    Attributes:
        lanes: from top to bottom, the boxes of each lane by its name. A box is (batch, start, end),
            with times in seconds.
        waits: hatched boxes in the first lane: the loop waits for a batch.
        held: grey boxes in the first lane: the loop is held up by the device.
    """

    lanes: Mapping[str, Sequence[Box]]
    waits: Sequence[Box] = ()
    held: Sequence[Box] = ()

    @property
    def boxes(self) -> list[Box]:
        """All boxes."""
        return [box for lane in (*self.lanes.values(), self.waits, self.held) for box in lane]


Groups = Sequence[tuple[str, Streams]]


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
        lanes: as in ``Streams``, and so are ``waits`` and ``held``.
        title: what the figure shows, in one line.
        numbers: the subtitle: what the title rests on, and whether it was measured.
        waits: hatched boxes in the first lane.
        held: grey boxes in the first lane.
        seconds: how much time the axis spans; None for all.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, or no box at all.
    """
    only = Streams(lanes, waits, held)
    return compared_streams(
        [("", only)], title=title, numbers=numbers, seconds=seconds, theme=theme
    )


def compared_streams(
    groups: Groups,
    *,
    title: str,
    numbers: str,
    x: str = "seconds",
    seconds: float | None = None,
    theme: style.ThemeName = "light",
) -> Figure:
    """Draw several loops one above the other, on one time axis with one zero.

    Args:
        groups: the loops, each with the line that is written above it; no line if that is empty.
        title: what the figure shows, in one line.
        numbers: the subtitle: what the title rests on, and whether it was measured.
        x: the title of the axis.
        seconds: how much of it is shown; None for all.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, or no box at all.
    """
    all_boxes = [box for _, group in groups for box in group.boxes]
    if not all_boxes:
        raise LoaderVizError("streams() got no box: nothing was copied, stepped on or waited for")
    start_s = min(start for _, start, _ in all_boxes)
    end_s = max(end for _, _, end in all_boxes)
    span_s = end_s - start_s if seconds is None else seconds
    if x == "seconds" and span_s < end_s - start_s:
        numbers += f" · the first {duration(span_s)} of {duration(end_s - start_s)}"
    colours = style.theme(theme)
    names, places, heads = _rows(groups)
    n_rows = places[-1][-1] + 1
    height = TITLE_PX + AXIS_PX + n_rows * (COMPARED_LANE_PX if heads else LANE_PX)
    margins = (axes.labels_px(names), 22, TITLE_PX, AXIS_PX)
    layout = style.layout(
        colours, title=title, numbers=numbers, height=height, margins=margins, lanes=names
    )
    time_range = [start_s - 0.012 * span_s, start_s + 1.012 * span_s]
    # There are no half steps.
    ticks = {"nticks": 10} if x == "seconds" else {"dtick": max(1, round(span_s / 10))}
    rows = [row for group_rows in places for row in group_rows]
    layout |= {
        "uniformtext": {"minsize": 10, "mode": "hide"},
        "xaxis": axes.axis(colours, x, range=time_range, **ticks),
        "yaxis": axes.lane_axis(colours, names, range=[n_rows - 0.45, -0.55], tickvals=rows),
        "annotations": [_head(text, row, colours, margins[0]) for text, row in heads],
    }
    return Figure.unchecked(
        [
            _loop_bars("wait", groups, places, "waits for", {"pattern": HATCH}, style.WAIT),
            _loop_bars("held", groups, places, "is held up by", {}, style.QUIET),
            _device_bars(groups, places, span_s),
        ],
        layout,
    )


def _rows(
    groups: Groups,
) -> tuple[list[str], list[list[int]], list[tuple[str, int]]]:
    """The lanes' names, the rows of each group's lanes, and the rows of the lines above them."""
    names: list[str] = []
    places: list[list[int]] = []
    heads: list[tuple[str, int]] = []
    row = 0
    for text, group in groups:
        if text:
            heads.append((text, row))
            row += 1
        places.append(list(range(row, row + len(group.lanes))))
        names += group.lanes
        row += len(group.lanes)
    return names, places, heads


def _head(text: str, row: int, colours: style.Theme, left_px: int) -> dict[str, Any]:
    """The line above a group, from the figure's left edge on: it is long."""
    return {
        "text": text,
        "x": 0, "xref": "paper", "xanchor": "left", "xshift": 12 - left_px,
        "y": row + 0.1, "yanchor": "middle",
        "showarrow": False,
        "font": {"color": colours.text, "size": 12},
    }  # fmt: skip


def _loop_bars(
    kind: str,
    groups: Groups,
    places: Sequence[Sequence[int]],
    verb: str,
    marker: dict[str, Any],
    fill: str,
) -> dict[str, Any]:
    """Boxes in the lane of the loop, which is the first of its group."""
    rows = [
        (box, lanes[0])
        for (_, group), lanes in zip(groups, places, strict=True)
        for box in (group.waits if kind == "wait" else group.held)
        if box[2] > box[1]
    ]
    batch, start, end = _columns([box for box, _ in rows])
    hover = (
        f"the loop {verb} <b>batch {number}</b><br>{took}"
        for number, took in zip(batch.tolist(), boxes.duration_texts(end - start), strict=True)
    )
    return boxes.bars(
        kind, start, end, np.array([lane for _, lane in rows], int), thickness=0.5, fill=fill,
        edge_px=0, batch=batch, hover=hover, marker=marker,
    )  # fmt: skip


def _device_bars(groups: Groups, places: Sequence[Sequence[int]], span_s: float) -> dict[str, Any]:
    """Boxes in the lanes of the device."""
    rows = [
        (box, lane, name)
        for (_, group), lanes in zip(groups, places, strict=True)
        for (name, lane_boxes), lane in zip(group.lanes.items(), lanes, strict=True)
        for box in lane_boxes
    ]
    batch, start, end = _columns([box for box, _, _ in rows])
    hover = (
        f"<b>batch {box[0]}</b>, {name}<br>{took}"
        for (box, _, name), took in zip(rows, boxes.duration_texts(end - start), strict=True)
    )
    fills = style.batch_codes(batch)
    return boxes.bars(
        "work", start, end, np.array([lane for _, lane, _ in rows], int), thickness=0.72,
        fill=fills, edge=boxes.edge_codes(fills, start, end, span_s), batch=batch, hover=hover,
        insidetextanchor="middle", **boxes.number_labels(batch, 12),
    )  # fmt: skip


def _columns(rows: Sequence[Box]) -> tuple[Any, Any, Any]:
    """Batches, starts and ends as arrays."""
    table = np.array(rows, float).reshape(-1, 3)
    return table[:, 0].astype(int), table[:, 1], table[:, 2]
