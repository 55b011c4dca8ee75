"""How long the consumer waited for each batch; large recordings are bands when zoomed out."""

from __future__ import annotations

import base64
import zlib
from itertools import pairwise
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.style import AXIS_PX, TITLE_PX
from loaderviz.figures.timelines.packed_rows import MOST_ROWS
from loaderviz.figures.timelines.timeline import MOST_BATCHES
from loaderviz.text import count, duration
from loaderviz.trace import Trace
from loaderviz.trace.described_loaders import as_the_loop_sees_it
from loaderviz.trace.steps import waits_by_step

HEIGHT_PX, LABEL_PX = 300, 96
BINS = 300
MOST_FIRSTS = 400  # first batches of epochs
LEAST_MS = 0.001  # shorter waits are drawn as this: the axis is logarithmic
FIRST = style.AMBER


def waits(trace: Trace, *, theme: style.ThemeName = "light") -> Figure:
    """Draw the wait for each delivered batch, in milliseconds on a logarithmic axis.

    Past 1,500 steps a line shows the median of each stretch and a band its longest wait; single
    steps appear when zoomed in. Diamonds are the first batches of epochs. Each of several ranks
    counts its own steps.

    Raises:
        LoaderVizError: for a trace without a delivered batch, or an unknown theme.
    """
    rows = waits_by_step(as_the_loop_sees_it(trace))
    if not len(rows["step"]):
        raise LoaderVizError("this trace holds no batch that the loop asked for: nobody waited")
    step, wait_ms = rows["step"], np.maximum(rows["wait_s"] * 1000, LEAST_MS)
    many = len(step) > MOST_BATCHES
    colours = style.theme(theme)
    margins = (74, LABEL_PX, TITLE_PX, AXIS_PX)
    each = "line: the median of a stretch, shaded: its longest wait" if many else "a dot: one wait"
    numbers = f"{count(len(step), 'batch', 'batches')} · {each} · diamond: an epoch's first batch"
    layout = style.layout(
        colours, title=_verdict(rows["wait_s"]), numbers=numbers, height=HEIGHT_PX,
        margins=margins,
    )  # fmt: skip
    layout |= _axes(step, wait_ms, colours)
    median_step_ms = 1000 * float(np.median(rows["step_s"]))
    if median_step_ms >= LEAST_MS:
        layout["shapes"], layout["annotations"] = _usual_step(median_step_ms)
    if many and len(step) <= MOST_ROWS:
        layout["meta"]["loaderviz"]["waits"] = _pack(step, wait_ms)
    band = _band(step, wait_ms) if many else ([], [], [])
    dots = ([], []) if many else (step, wait_ms)
    first = np.flatnonzero(rows["first"])
    first = first[np.argsort(-wait_ms[first], kind="stable")[:MOST_FIRSTS]]
    marks = [*_marks(band, dots), _first_batches(step[first], wait_ms[first])]
    return Figure.unchecked(marks, layout)


def _verdict(wait_s: Any) -> str:
    """How long a usual wait is, and the longest."""
    usual_s, longest_s = float(np.median(wait_s)), float(wait_s.max())
    if longest_s * 1000 <= LEAST_MS:
        return "No batch was waited for"
    return (
        f"Half of the waits are at most {duration(usual_s)}; the longest is {duration(longest_s)}"
    )


def _marks(band: tuple[Any, Any, Any], dots: tuple[Any, Any]) -> list[dict[str, Any]]:
    """``waits_figure.js`` relies on their order."""
    middle_step, median_ms, longest_ms = band
    line = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}
    hover = "step %{x:,}<br>waited %{y:.3~g} ms<extra></extra>"
    return [
        {**line, "name": "median", "x": middle_step, "y": median_ms,
         "line": {"color": style.WAIT, "width": 2, "shape": "hvh"}},
        {**line, "name": "longest", "x": middle_step, "y": longest_ms, "fill": "tonexty",
         "fillcolor": style.WAIT_FILL, "line": {"color": style.WAIT, "width": 0.8, "shape": "hvh"}},
        {"type": "scatter", "mode": "markers", "name": "step", "x": dots[0], "y": dots[1],
         "marker": {"color": style.WAIT, "size": 6}, "hovertemplate": hover},
    ]  # fmt: skip


def _first_batches(step: Any, wait_ms: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "first of an epoch",
        "x": step,
        "y": wait_ms,
        "marker": {"color": FIRST, "size": 9, "symbol": "diamond"},
        "hovertemplate": "first batch of an epoch, step %{x:,}<br>"
        "waited %{y:.3~g} ms<extra></extra>",
    }


def _band(step: Any, wait_ms: Any) -> tuple[Any, Any, Any]:
    """For each of ``BINS`` stretches its middle step, its median wait and its longest, in ms."""
    edges = np.linspace(0, len(step), BINS + 1).astype(int)
    parts = [slice(first, end) for first, end in pairwise(edges) if end > first]
    median_ms = [float(np.median(wait_ms[part])) for part in parts]
    longest_ms = [float(wait_ms[part].max()) for part in parts]
    return [int(step[part][len(step[part]) // 2]) for part in parts], median_ms, longest_ms


def _usual_step(step_ms: float) -> tuple[list[Any], list[Any]]:
    """A line and its label at the median step, to compare waits with."""
    line = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": step_ms, "y1": step_ms,
        "line": {"color": style.QUIET, "width": 1.2, "dash": "dot"},
    }  # fmt: skip
    label = axes.in_margin(
        f"a usual step:<br>{duration(step_ms / 1000)}", 6, align="left",
        y=np.log10(step_ms), yanchor="middle", font={"size": 12},
    )  # fmt: skip
    return [line], [label]


def _axes(step: Any, wait_ms: Any, theme: style.Theme) -> dict[str, Any]:
    low = np.floor(np.log10(max(float(wait_ms.min()), LEAST_MS)) * 2) / 2 - 0.1
    high = np.log10(max(float(wait_ms.max()), 10 * LEAST_MS)) + 0.25
    last = int(step.max())
    return {
        "xaxis": axes.axis(
            theme, "step: batches in order of delivery", showgrid=False, tickformat=",d", nticks=10,
            range=[1 - 0.012 * last, last + 0.012 * last + 0.2],
        ),
        "yaxis": axes.axis(
            theme, "wait, ms", 6, type="log", dtick=1, tickformat="~g", fixedrange=True,
            range=[min(low, high - 1), high],
        ),
    }  # fmt: skip


def _pack(step: Any, wait_ms: Any) -> dict[str, Any]:
    """Two columns of float32, as ``waits_figure.js`` reads them."""
    columns = np.concatenate([step, wait_ms]).astype("<f4").view(np.uint8)
    planes = columns.reshape(-1, 4).T  # the first bytes of all numbers, then the second, ...
    return {
        "n": len(step),
        "data": base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii"),
    }
