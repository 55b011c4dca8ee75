"""What figures share but their marks: axes with a faint grid, texts in margins, checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.trace import Trace

MOST_STEPS: Final = 10  # between ticks of a time axis


def axis(
    theme: style.Theme, title: str | None = None, standoff: int | None = 10, **options: Any
) -> dict[str, Any]:
    """An axis as plotly describes it.

    Args:
        theme: gives the colour of the grid.
        title: None for an axis without one.
        standoff: pixels between numbers and title; None for plotly's default.
        options: plotly's own options for an axis; they win over ours.
    """
    titled = {"text": title, "standoff": standoff, "font": {"size": 12}}
    return {
        "gridcolor": theme.grid,
        "zeroline": False,
        "showline": False,
        **({} if title is None else {"title": titled}),
        **options,
    }


def lane_axis(theme: style.Theme, labels: Sequence[str], **options: Any) -> dict[str, Any]:
    """A vertical axis that names each lane, the first on top; ``options`` are plotly's."""
    lane_options = {
        "showgrid": False,
        "tickmode": "array",
        "tickvals": list(range(len(labels))),
        "ticktext": labels,
        "tickfont": {"color": theme.text},
        "ticklabelstandoff": 8,
        "range": [len(labels) - 0.5, -0.5],
        "fixedrange": True,
    }
    return axis(theme, **{**lane_options, **options})


def axis_from_zero(
    theme: style.Theme, top: float, title: str | None = None, **options: Any
) -> dict[str, Any]:
    """A vertical axis of amounts, from 0 to ``top``; ``options`` are plotly's."""
    return axis(theme, title, 6, range=[0, top], nticks=6, ticklabelstandoff=6, **options)


def labels_px(labels: Sequence[str]) -> int:
    """The width in pixels that the names of lanes need on the left."""
    return 36 + 7 * max(map(len, labels))


def lane_px(layout: Any, inner_px: float) -> float:
    """The height of a lane in pixels, where all lanes and the strip above take ``inner_px``."""
    lanes = layout["yaxis"]
    bottom, top = lanes["range"]
    return float((lanes["domain"][1] - lanes["domain"][0]) * inner_px / (bottom - top))


def add_lane_above(
    layout: Any, inner_px: float, more_px: float, label: str, *, at: float | None = None
) -> tuple[float, float]:
    """Make room for a lane above the others; the strip above it, on ``yaxis2``, keeps its height.

    Args:
        layout: as plotly has it; the figure's height is to grow by ``more_px``.
        inner_px: the height of lanes and strip until now.
        more_px: that of the new lane.
        label: its name.
        at: its place on the axis of lanes; None: the middle of the new lane.

    Returns:
        Its place on that axis, and the height of a lane of 1 there, in pixels.
    """
    lanes, strip = layout["yaxis"], layout["yaxis2"]
    px = lane_px(layout, inner_px)
    bottom, top = lanes["range"]
    new_top = top - more_px / px
    at = (top + new_top) / 2 if at is None else at
    shrink = inner_px / (inner_px + more_px)
    strip["domain"] = [1 - (1 - strip["domain"][0]) * shrink, 1]
    lanes["domain"] = [0, 1 - (1 - lanes["domain"][1]) * shrink]
    lanes["range"] = [bottom, new_top]
    lanes["tickvals"] = [at, *lanes["tickvals"]]
    lanes["ticktext"] = [label, *lanes["ticktext"]]
    return at, px


def round_ticks(span_s: float) -> Any:
    """Round numbers from 0 to the end of an axis of ``span_s`` seconds: ten steps at most."""
    power = 10.0 ** math.floor(math.log10(span_s / MOST_STEPS))
    step = next(each * power for each in (1, 2, 5, 10) if span_s / (each * power) <= MOST_STEPS)
    return np.arange(0, span_s * (1 + 1e-9), step)


def moved_apart(places: Sequence[float], apart: float) -> list[float]:
    """Each place, moved up where the one below it is nearer than ``apart``; none is below 0."""
    moved, lowest_free = [*places], 0.0
    for i in sorted(range(len(moved)), key=moved.__getitem__):
        moved[i] = max(moved[i], lowest_free)
        lowest_free = moved[i] + apart
    return moved


def in_margin(text: str, shift_px: float, *, x: float = 1, **options: Any) -> dict[str, Any]:
    """A text beside the plot: ``shift_px`` to the right of its right edge, or of its left (x=0).

    ``options`` are plotly's own for an annotation; they say how high it stands.
    """
    place = {"x": x, "xref": "paper", "xanchor": "left", "xshift": shift_px, "showarrow": False}
    return {"text": text, **place, **options}


def check_given(figure: str, trace: Any, seconds: float | None = None) -> None:
    """Raise LoaderVizError for what is no trace, and for seconds that no axis can span."""
    if not isinstance(trace, Trace):
        raise LoaderVizError(
            f"{figure}() draws a Trace, but got {type(trace).__name__}. Take it from a recording: "
            f"`with record(loader) as rec: ...`, then {figure}(rec.trace)."
        )
    if seconds is not None and not seconds > 0:
        raise LoaderVizError(f"seconds={seconds!r}: give a time span above 0, or None for all")
