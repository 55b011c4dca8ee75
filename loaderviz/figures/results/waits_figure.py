"""How long the consumer waited for each batch; large recordings as bands from afar."""

from __future__ import annotations

import base64
import zlib
from itertools import pairwise
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.text import count, duration
from loaderviz.trace import Trace
from loaderviz.trace.analysis.steps import waits_by_step

HEIGHT_PX, TITLE_PX, AXIS_PX, LABEL_PX = 300, 82, 58, 96
MOST_DOTS = 1500  # as of the timeline's batches; waits_figure.js draws as many when zoomed in
BINS = 300
MOST_ROWS = 1_000_000  # that travel with the page
MOST_FIRSTS = 400
LEAST_MS = 0.001  # shorter is drawn as this: the axis is logarithmic
FIRST = style.colour(5)
SPREAD = "rgba(58, 135, 194, 0.22)"


def waits(trace: Trace, *, theme: style.ThemeName = "light") -> Figure:
    """Draw the wait for each delivered batch, in milliseconds on a logarithmic axis.

    Past 1,500 steps a line is the median of a stretch and the band reaches to its longest wait;
    a zoom shows single steps. Diamonds are the first batches of epochs. Of several ranks each
    counts its own steps.

    Raises:
        LoaderVizError: for a trace without a delivered batch, or an unknown theme.
    """
    rows = waits_by_step(trace)
    if not len(rows["step"]):
        raise LoaderVizError("this trace holds no batch that was delivered: nobody waited")
    x, y = rows["step"], np.maximum(rows["wait_s"] * 1000, LEAST_MS)
    far = len(x) > MOST_DOTS
    colours = style.theme(theme)
    title = f"Waits for {count(len(x), 'batch', 'batches')}"
    margins = (74, LABEL_PX, TITLE_PX, AXIS_PX)
    layout = style.layout(colours, title=title, numbers="", height=HEIGHT_PX, margins=margins)
    layout |= _axes(x, y, colours)
    step_ms = 1000 * float(np.median(rows["step_s"])) if len(x) else 0.0
    if step_ms >= LEAST_MS:
        layout["shapes"], layout["annotations"] = _usual_step(step_ms)
    if far and len(x) <= MOST_ROWS:
        layout["meta"]["loaderviz"]["waits"] = _packed(x, y)
    band = _band(x, y) if far else ([], [], [])
    dots = ([], []) if far else (x, y)
    first = np.flatnonzero(rows["first"])
    first = first[np.argsort(-y[first], kind="stable")[:MOST_FIRSTS]]
    return Figure.unchecked([*_marks(band, dots), _firsts(x[first], y[first])], layout)


def _marks(band: Any, dots: Any) -> list[dict[str, Any]]:
    """Their order is known to ``waits_figure.js``."""
    at, middle, longest = band
    line = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}
    told = "step %{x:,}<br>waited %{y:.3~g} ms<extra></extra>"
    return [
        {**line, "name": "median", "x": at, "y": middle,
         "line": {"color": style.READY_LINE, "width": 2, "shape": "hvh"}},
        {**line, "name": "longest", "x": at, "y": longest, "fill": "tonexty", "fillcolor": SPREAD,
         "line": {"color": style.READY_LINE, "width": 0.8, "shape": "hvh"}},
        {"type": "scatter", "mode": "markers", "name": "step", "x": dots[0], "y": dots[1],
         "marker": {"color": style.READY_LINE, "size": 4.5}, "hovertemplate": told},
    ]  # fmt: skip


def _firsts(x: Any, y: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "first of an epoch",
        "x": x,
        "y": y,
        "marker": {"color": FIRST, "size": 9, "symbol": "diamond"},
        "hovertemplate": "first batch of an epoch, step %{x:,}<br>"
        "waited %{y:.3~g} ms<extra></extra>",
    }


def _band(x: Any, y: Any) -> tuple[Any, Any, Any]:
    edges = np.linspace(0, len(x), BINS + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(edges) if b > a]
    middle = [float(np.median(y[part])) for part in parts]
    longest = [float(y[part].max()) for part in parts]
    return [int(x[part][len(x[part]) // 2]) for part in parts], middle, longest


def _usual_step(step_ms: float) -> tuple[list[Any], list[Any]]:
    """A line and its label at the median step, which waits compare with."""
    line = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": step_ms, "y1": step_ms,
        "line": {"color": style.QUIET, "width": 1.2, "dash": "dot"},
    }  # fmt: skip
    label = {
        "text": f"a usual step:<br>{duration(step_ms / 1000)}",
        "x": 1, "xref": "paper", "xanchor": "left", "xshift": 6, "align": "left",
        "y": np.log10(step_ms), "yanchor": "middle",
        "showarrow": False, "font": {"size": 12},
    }  # fmt: skip
    return [line], [label]


def _axes(x: Any, y: Any, theme: style.Theme) -> dict[str, Any]:
    low = np.floor(np.log10(max(float(y.min()), LEAST_MS)) * 2) / 2 - 0.1
    high = np.log10(max(float(y.max()), 10 * LEAST_MS)) + 0.25
    most = int(x.max())
    return {
        "xaxis": axes.axis(
            theme, "step: batches in order of delivery", showgrid=False, tickformat=",d", nticks=10,
            range=[1 - 0.012 * most, most + 0.012 * most + 0.2],
        ),
        "yaxis": axes.axis(
            theme, "wait, ms", 6, type="log", dtick=1, tickformat="~g", fixedrange=True,
            range=[min(low, high - 1), high],
        ),
    }  # fmt: skip


def _packed(x: Any, y: Any) -> dict[str, Any]:
    """Two columns of float32, as ``waits_figure.js`` reads them."""
    columns = np.concatenate([x, y]).astype("<f4").view(np.uint8)
    planes = columns.reshape(-1, 4).T  # equal bytes beside each other
    return {
        "n": len(x),
        "data": base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii"),
    }
