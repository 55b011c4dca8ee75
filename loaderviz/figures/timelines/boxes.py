"""Boxes of a timeline: horizontal bars, what to call them and how to colour their edges.

``customdata`` is the row of the batch that a mark belongs to: ``adopt_figures.js`` lights it up by
that.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

import numpy as np

from loaderviz.figures import style
from loaderviz.text import duration, worker_name
from loaderviz.trace.columns_of_rows import Table

NARROW = 0.004  # of the axis: an edge in another colour would hide all of such a box


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
    **more: Any,
) -> dict[str, Any]:
    """Fill and edge: a colour for all, or a code of ``style.COLOURS`` for each."""
    start, end, lane = np.asarray(start, float), np.asarray(end, float), np.asarray(lane)
    # A colour for each bar, also where all are the same: one for all is lost on the way to a
    # FigureWidget's first picture (plotly 7.1).
    fill, edge = (
        [each] * len(start) if isinstance(each, str) else style.colours(each)
        for each in (fill, edge)
    )
    marker = {
        "color": fill,
        "line": {"width": edge_px, "color": edge},
        **more.pop("marker", {}),
    }
    if batch is not None:
        more["customdata"] = np.asarray(batch, np.int32)
    if hover is None:
        more["hoverinfo"] = "skip"
    else:
        more |= {"hovertext": texts(hover), "hovertemplate": "%{hovertext}<extra></extra>"}
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
        **more,
    }


def texts(strings: Iterable[str]) -> Any:
    """As an array: plotly looks at each string of a list, and at none of an array's."""
    return np.array(list(strings), object)


def numbered(batch: Any, size: int) -> dict[str, Any]:
    """The batch's number in its box, in the colour that can be read on it."""
    numbers = batch.tolist()
    return {
        "text": texts(map(str, numbers)),
        "textposition": "inside",
        "textangle": 0,
        "insidetextfont": {"size": size, "color": [style.text_on(number) for number in numbers]},
    }


def names_of(batches: Table, rows: Any = ...) -> Any:
    """What to call these batches: with epoch and loader where there are several."""
    several = {c: len(batches[c]) and np.ptp(batches[c]) > 0 for c in ("epoch", "loader")}
    return texts(
        f"<b>batch {batch}</b>"
        + (f" of epoch {epoch}" if several["epoch"] else "")
        + (f", loader {loader}" if several["loader"] else "")
        + f", {worker_name(worker)}"
        for batch, epoch, loader, worker in zip(
            *(batches[c][rows].tolist() for c in ("batch", "epoch", "loader", "worker")),
            strict=True,
        )
    )


def edges(fills: Any, start: Any, end: Any, span_s: float) -> Any:
    """Light edges; a box too narrow for one keeps its own colour to the rim."""
    wide = np.asarray(end, float) - np.asarray(start, float) > NARROW * span_s
    return np.where(wide, np.int8(style.code(style.EDGE)), fills)


def key_text(key: object) -> str:
    text = str(key)
    return html.escape(text if len(text) <= 60 else text[:57] + "...")


def durations(seconds: Any) -> list[str]:
    """Each of an array of seconds, as text."""
    return [duration(each) for each in np.asarray(seconds, float).tolist()]
