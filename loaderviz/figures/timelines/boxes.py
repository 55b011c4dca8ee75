"""Boxes of a timeline: horizontal bars, their hover texts, numbers and edges.

``customdata`` of a mark is the row of its batch: ``adopt_figures.js`` highlights a row's marks.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from loaderviz.figures import style
from loaderviz.text import duration, worker_name
from loaderviz.trace.columns_of_rows import Table

NUMBER_WIDTH = 0.022  # of the axis: an edge in a narrower box crosses the number that lies on it
NARROW = 0.004  # of the axis: a narrower box would be hidden by an edge in another colour


def bars(
    kind: str,
    start: Any,
    end: Any,
    lane: Any,
    *,
    thickness: float,
    fill: Any,
    edge: Any = style.EDGE,
    edge_px: Any = 1,
    batch: Any = None,
    hover: Iterable[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """A plotly trace of horizontal bars, one for each entry of the arrays.

    Args:
        kind: the name of the trace.
        start: where each bar begins, in units of the x axis (seconds in a timeline).
        end: where it ends.
        lane: its place on the y axis.
        thickness: of all bars; 1 is the distance between two lanes.
        fill: one colour for all, or an integer array with a code of ``style.COLOURS`` for each.
        edge: the same for the edges.
        edge_px: the width of the edges: one for all, or an array.
        batch: the row that each bar belongs to; None if nothing is to be highlighted.
        hover: a text for each bar; None for no text.
        options: plotly's own options for a bar trace.
    """
    start, end, lane = np.asarray(start, float), np.asarray(end, float), np.asarray(lane)
    # Each bar gets its colour, even if all have the same: plotly 7.1 loses a colour that stands for
    # all bars when a FigureWidget is first shown.
    fill, edge = (
        [colour] * len(start) if isinstance(colour, str) else style.colours_of(colour)
        for colour in (fill, edge)
    )
    marker = {
        "color": fill,
        "line": {"width": edge_px, "color": edge},
        **options.pop("marker", {}),
    }
    if batch is not None:
        options["customdata"] = np.asarray(batch, np.int32)
    if hover is None:
        options["hoverinfo"] = "skip"
    else:
        options |= {"hovertext": text_array(hover), "hovertemplate": "%{hovertext}<extra></extra>"}
    return {
        "type": "bar",
        "name": kind,
        "orientation": "h",
        "base": start,
        "x": (end - start).astype(np.float32),
        "y": lane.astype(np.int16) if lane.dtype.kind == "i" else lane,
        "width": thickness,
        "marker": marker,
        "textposition": "none",
        **options,
    }


def text_array(strings: Iterable[str]) -> Any:
    """The strings as an object array: plotly checks each string of a list, but none of an array."""
    return np.array(list(strings), object)


def number_labels(number: Any, size: int, *, on: Any = None) -> dict[str, Any]:
    """Options for ``bars`` that write a number in each box, in a legible colour.

    Args:
        number: an integer array, one number for each bar: that of its batch, for the most part.
        size: of the type, in pixels.
        on: an integer array, the batches in whose colour the boxes are; None: ``number`` is it.
    """
    batches = (number if on is None else on).tolist()
    return {
        "text": text_array(map(str, number.tolist())),
        "textposition": "inside",
        "textangle": 0,
        "insidetextfont": {"size": size, "color": [style.text_on(batch) for batch in batches]},
    }


def batch_names(batches: Table, loaders: Mapping[int, str], rows: Any = ...) -> Any:
    """An array of the batches' names for hover texts; ``rows`` picks some of them.

    They include the epoch where there are several epochs, and the loader where it has a name.
    """
    several_epochs = len(batches["epoch"]) and np.ptp(batches["epoch"]) > 0
    return text_array(
        f"<b>batch {batch}</b>"
        + (f" of epoch {epoch}" if several_epochs else "")
        + (f", {loaders[loader]}" if loader in loaders else "")
        + f", {worker_name(worker)}"
        for batch, epoch, loader, worker in zip(
            *(batches[c][rows].tolist() for c in ("batch", "epoch", "loader", "worker")),
            strict=True,
        )
    )


def edge_codes(fills: Any, start: Any, end: Any, axis_span: float, least: float = NARROW) -> Any:
    """The colour code of each box's edge: light, or the fill's where the box is too narrow for one.

    Args:
        fills: colour codes, an integer array.
        start: where each box begins, in units of the x axis.
        end: where it ends.
        axis_span: how much the x axis shows, in the same units.
        least: a box of this part of the axis, or less, is too narrow.
    """
    wide = np.asarray(end, float) - np.asarray(start, float) > least * axis_span
    return np.where(wide, np.int8(style.code_of(style.EDGE)), fills)


def key_text(key: object) -> str:
    """A sample's key or another text from the user: at most 60 characters, escaped for a page."""
    text = str(key)
    return html.escape(text if len(text) <= 60 else text[:57] + "...")


def duration_texts(durations_s: Any) -> list[str]:
    """Each duration of an array as text, with its unit."""
    return [duration(duration_s) for duration_s in np.asarray(durations_s, float).tolist()]
