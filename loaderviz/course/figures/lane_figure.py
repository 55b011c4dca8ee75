"""What the figures of lanes share: rows below one another, each with its name on the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure

TITLE_PX, AXIS_PX, RIGHT_PX = 74, 50, 22  # above, below and beside the lanes
LANE_PX = 36


def lane_figure(
    marks: list[dict[str, Any]],
    lanes: Sequence[str],
    *,
    title: str,
    numbers: str,
    lane_px: int = LANE_PX,
    x: dict[str, Any],
    x_title: str | None = None,
    y: dict[str, Any] | None = None,
    rows: int | None = None,
    axis_px: int = AXIS_PX,
    **layout: Any,
) -> Figure:
    """A figure with a title, its subtitle, and a lane for each name.

    Args:
        marks: what is drawn, as plotly describes it; lane i is at y = i.
        lanes: their names, from top to bottom.
        title: what the figure shows, in one line.
        numbers: the subtitle: what the title rests on.
        lane_px: the height of a lane, in pixels.
        x: options of the axis, as plotly names them.
        x_title: the axis's title.
        y: options of the lanes' axis.
        rows: how many lanes there is room for; None: one for each name.
        axis_px: the height of what is below the lanes.
        layout: more of the layout, as plotly names it.
    """
    colours = style.theme("light")
    height = TITLE_PX + axis_px + (rows or len(lanes)) * lane_px
    margins = (axes.labels_px(lanes), RIGHT_PX, TITLE_PX, axis_px)
    base = style.layout(
        colours, title=title, numbers=numbers, height=height, margins=margins, lanes=lanes
    )
    both = {
        "xaxis": axes.axis(colours, x_title, **x),
        "yaxis": axes.lane_axis(colours, lanes, **(y or {})),
    }
    return Figure.unchecked(marks, {**base, **both, **layout})
