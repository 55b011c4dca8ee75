"""Boxes of a timeline: horizontal bars, what to call them and how to colour their edges.

``customdata`` is the row of the batch that a mark belongs to: ``look.js`` lights it up by that.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import style

if TYPE_CHECKING:
    import pandas as pd

CONSUMER = 0.0  # its lane
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
    hover: list[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    start, end = np.asarray(start, float), np.asarray(end, float)
    # A colour for each bar, also where all are the same: one for all is lost on the way to a
    # FigureWidget's first picture (plotly 7.1).
    fill = [fill] * len(start) if isinstance(fill, str) else fill
    edge = [edge] * len(start) if isinstance(edge, str) else edge
    marker = {
        "color": fill,
        "line": {"width": edge_px, "color": edge},
        **more.pop("marker", {}),
    }
    return {
        "type": "bar",
        "name": kind,
        "orientation": "h",
        "base": start,
        "x": end - start,
        "y": np.asarray(lane, float),
        "width": thickness,
        "marker": marker,
        "customdata": None if batch is None else [int(each) for each in batch],
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>" if hover is not None else None,
        "hoverinfo": "skip" if hover is None else None,
        "textposition": "none",
        **more,
    }


def names_of(batches: pd.DataFrame) -> list[str]:
    """What to call each batch: with its epoch and its loader where there are several."""
    several = {what: batches[what].nunique() > 1 for what in ("epoch", "loader")}
    return [
        f"<b>batch {batch}</b>"
        + (f" of epoch {epoch}" if several["epoch"] else "")
        + (f", loader {loader}" if several["loader"] else "")
        + (", main process" if worker < 0 else f", worker {worker}")
        for batch, epoch, loader, worker in zip(
            *(batches[c] for c in ("batch", "epoch", "loader", "worker")), strict=True
        )
    ]


def edges(fills: list[str], start: Any, end: Any, span_s: float) -> list[str]:
    """Light edges; a box too narrow for one keeps its own colour to the rim."""
    wide = np.asarray(end, float) - np.asarray(start, float) > NARROW * span_s
    return [style.EDGE if is_wide else fill for fill, is_wide in zip(fills, wide, strict=True)]


def rows_of(samples: pd.DataFrame, batches: pd.DataFrame) -> list[int]:
    """For each sample the row of its batch."""
    columns = ["rank", "loader", "epoch", "batch", "worker"]
    rows = {tuple(row): i for i, row in enumerate(batches[columns].to_numpy().tolist())}
    return [rows[tuple(row)] for row in samples[columns].to_numpy().tolist()]


def key_text(key: object) -> str:
    text = str(key)
    return html.escape(text if len(text) <= 60 else text[:57] + "...")


def ms(seconds: float) -> str:
    ms = 1000 * seconds
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.3g} ms"
