"""Where the wait went: a bar for each cause, and below them causes and steps over time."""

from __future__ import annotations

import html
import itertools
import textwrap
from typing import Any, Final

import numpy as np

from loaderviz._causes.cause_texts import cause_name, cause_phrase, cause_rows, saves_text
from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.results.causes_over_time import shares_over_time
from loaderviz.figures.timelines.timeline import TIME
from loaderviz.text import count, duration, percent
from loaderviz.trace import Trace
from loaderviz.trace.analysis.summary import Summary

# A hue for each pair of relatives, of which the second is hatched.
_HUES: Final = {
    ("workers", "main_process"): style.colour(0),
    ("start", "restart"): style.colour(1),
    ("collate", "sampler"): style.colour(2),
    ("slow_samples", "drift"): style.colour(3),
    ("handover", "pin"): style.colour(4),
    ("cpu", "throttled"): style.colour(5),
    ("uneven", "prefetch"): style.colour(6),
    ("unknown", "copy"): style.QUIET,
}
COLOURS: Final = {cause: colour for pair, colour in _HUES.items() for cause in pair}
SHAPES: Final = {
    cause: shape for pair in _HUES for cause, shape in zip(pair, ("", "/"), strict=True)
}
PATTERN: Final = {"size": 6, "solidity": 0.3, "fgcolor": "#ffffff", "fillmode": "overlay"}
STEPS_FILL = "rgba(125, 133, 144, 0.22)"

TITLE_PX, ROW_PX, TALL_ROW_PX, OVER_TIME_PX, GAP_PX, AXIS_PX = 104, 26, 36, 120, 30, 58
MOST_ROWS = 8
BAR_PX = 16
MOST_LETTERS = 44  # of the name of a loader
TEXT_WIDTH = 70  # letters in a line of a hover text
SAVED = "a cut saves (simulated)"
WAITED_PX, SAVED_PX, RIGHT_PX = 10, 84, 244  # right of the bars: two columns, and their end


def causes(trace: Trace, *, theme: style.ThemeName = "light") -> Figure:
    """Draw where the consumer's waiting went: a bar for each cause, the one to cut first on top.

    Beside each bar stands what cutting that cause would save, which is simulated. Below, the same
    over time: of each stretch, the shares that went into each cause and, in grey, into steps. Times
    are seconds; those of several ranks are a rank's mean. Of more than 8 causes the largest are
    shown; all of them are in ``trace.summary().causes``.

    Args:
        trace: a recorded or simulated ``Trace``.
        theme: text and grid for a light or a dark page. In JupyterLab the page's theme decides.

    Raises:
        LoaderVizError: if ``trace`` is no trace, if nothing was waited for in it, and for an
            unknown theme.
    """
    if not isinstance(trace, Trace):
        raise LoaderVizError(f"causes() draws a Trace, but got {type(trace).__name__}")
    return draw(trace, trace.summary(), theme)


def draw(trace: Trace, summary: Summary, theme: style.ThemeName = "light") -> Figure:
    """Draw the causes in the summary of a trace, as ``causes`` does.

    Raises:
        LoaderVizError: if nothing was waited for, and for an unknown theme.
    """
    colours = style.theme(theme)
    rows = cause_rows(summary)
    if not rows:
        raise LoaderVizError("nothing was waited for in this trace: there is no cause to draw")
    largest_s = sorted((row["seconds"] for row in rows), reverse=True)[:MOST_ROWS]
    shown = [row for row in rows if row["seconds"] >= largest_s[-1]]
    labels = [_label(row) for row in shown]
    bars_px = len(shown) * (TALL_ROW_PX if shown[0]["loader_name"] else ROW_PX)
    layout = style.layout(
        colours,
        title=summary.verdict,
        numbers=_numbers(trace, rows, shown),
        height=TITLE_PX + bars_px + GAP_PX + OVER_TIME_PX + AXIS_PX,
        margins=(_labels_px(shown), RIGHT_PX, TITLE_PX, AXIS_PX),
    )
    edges, shares, step_share = shares_over_time(trace)
    layout |= _axes(colours, labels, bars_px, edges)
    layout["annotations"] = _columns(shown)
    marks = [*itertools.starmap(_bar, enumerate(shown)), *_bands(edges, shares, step_share)]
    return Figure.unchecked(marks, layout)


def _label(row: dict[str, Any]) -> str:
    """The name of a cause and, smaller below it, the loader that was waited for."""
    if not (whose := row["loader_name"]):
        return str(row["name"])
    shown = whose if len(whose) <= MOST_LETTERS else f"{whose[: MOST_LETTERS - 1]}…"
    return f"{row['name']}<br><span style='font-size: 11px'>{html.escape(shown)}</span>"


def _labels_px(rows: list[dict[str, Any]]) -> int:
    """The width in pixels that the labels need on the left."""
    longest = max(min(len(row["loader_name"]), MOST_LETTERS) for row in rows)
    return max(axes.labels_px([row["name"] for row in rows]), 36 + 6 * longest)


def _axes(theme: style.Theme, labels: list[str], bars_px: int, edges: Any) -> dict[str, Any]:
    """A lane for each bar; below them time, and shares of it."""
    plot_px = bars_px + GAP_PX + OVER_TIME_PX
    return {
        "xaxis": axes.axis(
            theme, TIME, range=[edges[0], edges[-1]], anchor="y2", showgrid=False, nticks=10
        ),
        "xaxis2": {"rangemode": "tozero", "anchor": "y", "visible": False, "fixedrange": True},
        "yaxis": axes.lane_axis(theme, labels, domain=[1 - bars_px / plot_px, 1], anchor="x2"),
        "yaxis2": axes.axis(
            theme, "of the time", 6, range=[0, 1], domain=[0, OVER_TIME_PX / plot_px], dtick=0.5,
            tickformat=".0%", fixedrange=True,
        ),
    }  # fmt: skip


def _numbers(trace: Trace, rows: list[dict[str, Any]], shown: list[dict[str, Any]]) -> str:
    """The subtitle: how much was waited in all, and what is not in the picture."""
    waited_s = sum(row["seconds"] for row in rows)
    share = percent(sum(row["share"] for row in rows))
    numbers = "simulated" if trace.meta.get("simulated") else "measured"
    a_rank = " a rank" if trace.batches["rank"].nunique() > 1 else ""
    numbers += f" · {duration(waited_s)}{a_rank} waited, {share} of the time"
    if len(shown) < len(rows):
        left_s = waited_s - sum(row["seconds"] for row in shown)
        numbers += f" · {count(len(rows) - len(shown), 'smaller cause')} not shown: "
        numbers += duration(left_s)
    return numbers


def _columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Beside each bar, what was waited and what a cut saves; beside the steps, that they are."""
    in_margin = {"x": 1, "xref": "paper", "xanchor": "left", "showarrow": False}
    columns = {
        ("waited", WAITED_PX): [duration(row["seconds"]) for row in rows],
        (SAVED, SAVED_PX): [saves_text(row["saves_s"]) for row in rows],
    }
    texts = []
    for (heading, shift_px), column in columns.items():
        at = {**in_margin, "xshift": shift_px}
        texts.append({**at, "text": heading, "y": 1, "yref": "paper", "yanchor": "bottom"})
        texts += [{**at, "text": text, "y": i} for i, text in enumerate(column)]
    steps = {"text": "grey: steps", "xshift": WAITED_PX, "y": 0, "yref": "y2", "yanchor": "bottom"}
    return [*texts, {**in_margin, **steps}]


def _bar(lane: int, row: dict[str, Any]) -> dict[str, Any]:
    """One plotly trace a bar: where one holds several colours, plotly chooses those of patterns."""
    return {
        "type": "bar",
        "name": row["name"],
        "orientation": "h",
        "xaxis": "x2",
        "x": [row["seconds"]],
        "y": [lane],
        "width": BAR_PX / (TALL_ROW_PX if row["loader_name"] else ROW_PX),
        "marker": {
            "color": COLOURS[row["cause"]],
            "line": {"width": 0},
            "pattern": {**PATTERN, "shape": SHAPES[row["cause"]]},
        },
        "hovertext": _hover_text(row),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _hover_text(row: dict[str, Any]) -> str:
    """What the cause means, what shows it and what cures it."""
    head = f"<b>{row['name']}</b>: {duration(row['seconds'])}, {percent(row['share'])} of the time"
    texts = (row["loader_name"], f"{cause_phrase(row['cause'])}: {row['evidence']}.", row["cure"])
    lines = [line for text in texts for line in textwrap.wrap(text, TEXT_WIDTH)]
    return "<br>".join([head, *map(html.escape, lines)])


def _bands(edges: Any, shares: dict[str, Any], step_share: Any) -> list[dict[str, Any]]:
    """Steps at the bottom, and on them the causes: one plotly trace each, an outline of steps."""
    outline_x = np.repeat(edges, 2)[1:-1].round(6)
    bottom = np.zeros_like(step_share)
    marks = []
    for cause, share in {"steps": step_share, **shares}.items():
        top = bottom + share
        mean = percent(float(share.mean()))
        marks.append({
            "type": "scatter",
            "name": cause_name(cause),
            "yaxis": "y2",
            "x": np.concatenate([outline_x, outline_x[::-1]]),
            "y": np.concatenate([np.repeat(top, 2), np.repeat(bottom, 2)[::-1]]).round(4),
            "mode": "lines",
            "line": {"width": 0},
            "fill": "toself",
            "fillcolor": COLOURS.get(cause, STEPS_FILL),
            "fillpattern": {**PATTERN, "shape": SHAPES.get(cause, "")},
            "hoveron": "fills",
            "hoverinfo": "text",
            "text": f"<b>{cause_name(cause)}</b>: {mean} of the time",
        })  # fmt: skip
        bottom = top
    return marks
