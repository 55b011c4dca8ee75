"""A loop and the streams it queues work in: a lane each, a box for each copy and each step."""

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
    """Draw who works on which batch when; one batch has one colour and number in all lanes.

    Args:
        lanes: from top to bottom, each one's boxes by name.
        title: what is to be seen, in one line.
        numbers: what it rests on, and whether it was measured.
        waits: in the first lane, hatched: the loop waits for a batch.
        held: in the first lane, grey: the loop is held up by the device.
        seconds: how much time the axis spans; None for all.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, or no box at all.
    """
    every = [box for own in (*lanes.values(), waits, held) for box in own]
    if not every:
        raise LoaderVizError("streams() got no box: nothing was copied, stepped on or waited for")
    start, end = min(s for _, s, _ in every), max(e for _, _, e in every)
    span = end - start if seconds is None else seconds
    look = style.theme(theme)
    height = TITLE_PX + AXIS_PX + len(lanes) * LANE_PX
    names = list(lanes)
    margins = (axes.labels_px(names), 22, TITLE_PX, AXIS_PX)
    layout = style.layout(
        look, title=title, numbers=numbers, height=height, margins=margins, lanes=names
    )
    shown = [start - 0.012 * span, start + 1.012 * span]
    layout |= {
        "uniformtext": {"minsize": 10, "mode": "hide"},
        "xaxis": axes.axis(look, "seconds", range=shown, nticks=10),
        "yaxis": axes.lane_axis(look, names, range=[len(names) - 0.45, -0.55]),
    }
    return Figure.unchecked(
        [
            _of_the_loop("wait", waits, "waits for", {"pattern": HATCH}, style.WAIT),
            _of_the_loop("held", held, "is held up by", {}, style.QUIET),
            _of_the_device(lanes, span),
        ],
        layout,
    )


def _of_the_loop(
    kind: str, own: Sequence[Box], verb: str, marker: dict[str, Any], fill: str
) -> dict[str, Any]:
    """Boxes in the lane of the loop."""
    batch, start, end = _columns([box for box in own if box[2] > box[1]])
    hover = (
        f"the loop {verb} <b>batch {each}</b><br>{took}"
        for each, took in zip(batch.tolist(), boxes.duration_texts(end - start), strict=True)
    )
    return boxes.bars(
        kind, start, end, np.zeros(len(batch), int), thickness=0.5, fill=fill, edge_px=0,
        batch=batch, hover=hover, marker=marker,
    )  # fmt: skip


def _of_the_device(lanes: Mapping[str, Sequence[Box]], span: float) -> dict[str, Any]:
    """Boxes in the lanes of the device."""
    at = np.array([at for at, own in enumerate(lanes.values()) for _ in own], int)
    batch, start, end = _columns([box for own in lanes.values() for box in own])
    names = list(lanes)
    hover = (
        f"<b>batch {each}</b>, {names[lane]}<br>{took}"
        for each, lane, took in zip(
            batch.tolist(), at.tolist(), boxes.duration_texts(end - start), strict=True
        )
    )
    fills = style.batch_codes(batch)
    return boxes.bars(
        "work", start, end, at, thickness=0.72, fill=fills,
        edge=boxes.edge_codes(fills, start, end, span), batch=batch, hover=hover,
        insidetextanchor="middle", **boxes.number_labels(batch, 12),
    )  # fmt: skip


def _columns(own: Sequence[Box]) -> tuple[Any, Any, Any]:
    table = np.array(own, float).reshape(-1, 3)
    return table[:, 0].astype(int), table[:, 1], table[:, 2]
