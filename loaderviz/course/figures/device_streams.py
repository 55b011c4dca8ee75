"""A loop and the device's streams: a lane for each of them, a box for each copy and each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.course.figures.lane_figures import LANE_PX, lane_figure
from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.consumer_marks import HATCH
from loaderviz.text import duration

Box = tuple[int, float, float]  # batch, start and end in seconds
Mark = tuple[int, str, Box]  # row, what it is, and the box

COMPARED_LANE_PX = 28  # there are many
ROOM = 0.012  # of the axis, on both sides


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


def compared_streams(
    groups: Sequence[tuple[str, Streams]],
    *,
    title: str,
    numbers: str,
    x: str = "seconds",
    seconds: float | None = None,
) -> Figure:
    """Draw several loops one above the other, on one time axis with one zero.

    Args:
        groups: the loops, each with the line that is written above it; no line if that is empty.
        title: what the figure shows, in one line.
        numbers: the subtitle: what the title rests on, and whether it was measured.
        x: the title of the axis.
        seconds: how much of it is shown; None for all.

    Raises:
        LoaderVizError: for no box at all.
    """
    work, waits, held, heads, lanes = _rows(groups)
    times = [time for _, _, (_, *ends) in (*work, *waits, *held) for time in ends]
    if not times:
        raise LoaderVizError("no box to draw: nothing was copied, stepped on or waited for")
    start_s, whole_s = min(times), max(times) - min(times)
    span_s = whole_s if seconds is None else seconds
    in_seconds = x == "seconds"
    if in_seconds and span_s < whole_s:
        numbers += f" · the first {duration(span_s)} of {duration(whole_s)}"
    names, n_rows = list(lanes.values()), 1 + max(lanes)
    return lane_figure(
        [
            _loop_bars("wait", waits, style.WAIT, pattern=HATCH),
            _loop_bars("held", held, style.QUIET),
            _device_bars(work, span_s),
        ],
        names,
        title=title,
        numbers=numbers,
        lane_px=COMPARED_LANE_PX if heads else LANE_PX,
        rows=n_rows,
        x_title=x,
        x={
            "range": [start_s - ROOM * span_s, start_s + (1 + ROOM) * span_s],
            # There are no half steps.
            **({"nticks": 10} if in_seconds else {"dtick": max(1, round(span_s / 10))}),
        },
        y={"range": [n_rows - 0.45, -0.55], "tickvals": list(lanes)},
        uniformtext={"minsize": 10, "mode": "hide"},
        annotations=[_head(text, at, axes.labels_px(names)) for text, at in heads],
    )


def _rows(
    groups: Sequence[tuple[str, Streams]],
) -> tuple[list[Mark], list[Mark], list[Mark], list[tuple[str, int]], dict[int, str]]:
    """The device's boxes, those of the loop, the lines above the groups, and the lanes' names."""
    work: list[Mark] = []
    waits: list[Mark] = []
    held: list[Mark] = []
    heads: list[tuple[str, int]] = []
    lanes: dict[int, str] = {}
    row = 0
    for head, group in groups:
        if head:
            heads.append((head, row))
            row += 1
        waits += [(row, "the loop waits for ", box) for box in group.waits if box[2] > box[1]]
        held += [(row, "the loop is held up by ", box) for box in group.held if box[2] > box[1]]
        for name, lane in group.lanes.items():
            work += [(row, name, box) for box in lane]
            lanes[row] = name
            row += 1
    return work, waits, held, heads, lanes


def _head(text: str, row: int, left_px: int) -> dict[str, Any]:
    """The line above a group, from the figure's left edge on: it is long."""
    return {
        "text": text,
        "x": 0, "xref": "paper", "xanchor": "left", "xshift": 12 - left_px,
        "y": row + 0.1, "yanchor": "middle",
        "showarrow": False,
        "font": {"color": style.theme("light").text, "size": 12},
    }  # fmt: skip


def _loop_bars(kind: str, marks: Sequence[Mark], fill: str, **marker: Any) -> dict[str, Any]:
    """Boxes in the lane of the loop, which is the first of its group."""
    row, batch, start, end = _columns(marks)
    hover = (
        f"{what}<b>batch {box[0]}</b><br>{took}"
        for (_, what, box), took in zip(marks, boxes.duration_texts(end - start), strict=True)
    )
    return boxes.bars(
        kind, start, end, row, thickness=0.5, fill=fill, edge_px=0, batch=batch, hover=hover,
        marker=marker,
    )  # fmt: skip


def _device_bars(marks: Sequence[Mark], span_s: float) -> dict[str, Any]:
    """Boxes in the lanes of the device, numbered."""
    row, batch, start, end = _columns(marks)
    hover = (
        f"<b>batch {box[0]}</b>, {name}<br>{took}"
        for (_, name, box), took in zip(marks, boxes.duration_texts(end - start), strict=True)
    )
    fills = style.batch_codes(batch)
    return boxes.bars(
        "work", start, end, row, thickness=0.72, fill=fills,
        edge=boxes.edge_codes(fills, start, end, span_s), batch=batch, hover=hover,
        insidetextanchor="middle", **boxes.number_labels(batch, 12),
    )  # fmt: skip


def _columns(marks: Sequence[Mark]) -> tuple[Any, Any, Any, Any]:
    """Rows, batches, starts and ends as arrays."""
    table = np.array([(row, *box) for row, _, box in marks], float).reshape(-1, 4)
    return table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2], table[:, 3]
