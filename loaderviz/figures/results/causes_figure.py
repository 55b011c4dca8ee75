"""Where the wait went: a bar for each cause, and below them causes and steps over time."""

from __future__ import annotations

import html
import itertools
import math
import textwrap
from contextlib import suppress
from typing import Any, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.style import AXIS_PX
from loaderviz.figures.timelines import bands, timeline
from loaderviz.figures.timelines.timeline import TIME
from loaderviz.text import count, duration, percent
from loaderviz.trace import Trace
from loaderviz.trace.columns_of_rows import arrays, where
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.trace.steps import step_ends
from loaderviz.why.attribution import attribute
from loaderviz.why.causes.cause_texts import cause_name, cause_phrase, cause_rows, saves_text
from loaderviz.why.notes import RECORD_ITS_OBJECT
from loaderviz.why.summary import Summary

# A hue for each pair of relatives, of which the second is hatched.
_HUES: Final = {
    ("workers", "main_process"): style.BLUE,
    ("start", "restart"): style.AMBER,
    ("collate", "sampler"): style.GREEN,
    ("slow_samples", "drift"): style.PINK,
    ("handover", "pin"): style.SKY,
    ("cpu", "throttled"): style.LIME,
    ("uneven", "prefetch"): style.PLUM,
    ("unknown", "copy"): style.QUIET,
}
COLOURS: Final = {cause: colour for pair, colour in _HUES.items() for cause in pair}
SHAPES: Final = {
    cause: shape for pair in _HUES for cause, shape in zip(pair, ("", "/"), strict=True)
}
PATTERN: Final = {"size": 6, "solidity": 0.3, "fgcolor": "#ffffff", "fillmode": "overlay"}
STEPS_FILL = "rgba(125, 133, 144, 0.42)"

TITLE_PX, ROW_PX, TALL_ROW_PX, OVER_TIME_PX, GAP_PX = 116, 26, 36, 120, 30
MOST_ROWS = 8
BAR_PX = 16
BARS_EDGE = 1.05  # times the longest bar
MOST_LETTERS = 44  # of the name of a loader
TEXT_WIDTH = 70  # letters in a line of a hover text
LEAST_SHARE = 1e-4  # of a bin: less is not drawn
BINS = 200  # of what is drawn over time
LEAST_S = 1e-6  # the time axis spans at least this
SAVED = "cutting it saves<br>(replayed)"
IN_AN_EPOCH = "of a whole<br>epoch"
WAITED_PX, SAVED_PX, EPOCH_PX = 10, 84, 190  # right of the bars: where the columns begin
RIGHT_PX, WIDE_RIGHT_PX = 190, 280


def causes(
    trace: Trace, *, beside: Trace | None = None, theme: style.ThemeName = "light"
) -> Figure:
    """Draw where the consumer's waiting went: a bar for each cause, the one to cut first on top.

    Beside each bar stands what cutting that cause would save: the loop is replayed without it.
    Where the pace of the training is known, so is what that saves in a whole epoch. Below, the
    same over time: of each stretch, the shares that went into each cause and, in grey, into steps.
    Times are seconds; those of several ranks are a rank's mean. Of more than 8 causes the largest
    are shown; all of them are in ``trace.summary().causes``.

    Args:
        trace: a recorded or simulated ``Trace``.
        beside: a trace whose figure this one is compared with: its axes are long enough for both.
        theme: text and grid for a light or a dark page. In JupyterLab the page's theme decides.

    Raises:
        LoaderVizError: if ``trace`` or ``beside`` is no trace, if nothing was waited for in
            ``trace``, and for an unknown theme.
    """
    for given in (trace, trace if beside is None else beside):
        axes.check_given("causes", given)
    trace = as_one(trace)
    return draw(trace, trace.summary(), theme, beside=beside)


def draw(
    trace: Trace, summary: Summary, theme: style.ThemeName = "light", *, beside: Trace | None = None
) -> Figure:
    """Draw the causes in the summary of a trace, as ``causes`` does.

    Raises:
        LoaderVizError: if nothing was waited for, and for an unknown theme.
    """
    colours = style.theme(theme)
    rows = cause_rows(summary)
    if not rows and not summary.waits_are_seen:
        raise LoaderVizError(f"{summary.verdict}: there is no cause to draw. {RECORD_ITS_OBJECT}")
    if not rows:
        raise LoaderVizError("the loop never waited in this trace: there is no cause to draw")
    shown = _largest(rows)
    also_shown = _largest(cause_rows(beside.summary())) if beside is not None else []
    labels = [_label(row) for row in shown]
    bars_px = len(shown) * (TALL_ROW_PX if shown[0]["loader_name"] else ROW_PX)
    layout = style.layout(
        colours,
        title=summary.verdict,
        numbers=_numbers(trace, rows, shown),
        height=TITLE_PX + bars_px + GAP_PX + OVER_TIME_PX + AXIS_PX,
        margins=(
            _labels_px([*shown, *also_shown]),
            WIDE_RIGHT_PX if _tells_of_epochs(trace, rows) else RIGHT_PX,
            TITLE_PX,
            AXIS_PX,
        ),
    )
    edges, shares, step_share = shares_over_time(trace)
    end_s = edges[-1]
    if beside is not None and also_shown:
        end_s = max(end_s, shares_over_time(beside)[0][-1])
    longest_s = max(float(row["seconds"]) for row in [*shown, *also_shown])
    layout |= _axes(colours, labels, bars_px, [edges[0], end_s], longest_s)
    layout["annotations"] = _columns(shown, with_epochs=_tells_of_epochs(trace, rows))
    marks = [*itertools.starmap(_bar, enumerate(shown)), *_bands(edges, shares, step_share)]
    return Figure.unchecked(marks, layout)


def shares_over_time(trace: Trace) -> tuple[Any, dict[str, Any], Any]:
    """Edges of bins, in seconds; of each bin the share that each cause had, and that steps had.

    A share is that of all ranks' time, 0 to 1. What a wait is due to is spread evenly over it.
    """
    waits = attribute(trace)
    delivered = arrays(trace.batches)
    delivered = where(delivered, ~np.isnan(delivered["delivered_s"]))
    begin, end = delivered["delivered_s"], step_ends(delivered)
    first_s = min(np.min(waits.start_s), np.min(begin, initial=np.inf))
    last_s = max(np.max(waits.end_s), np.max(end, initial=-np.inf))
    edges = np.linspace(first_s, max(last_s, first_s + LEAST_S), BINS + 1)
    n_ranks = len(np.unique(waits.rank))
    time_s = n_ranks * (edges[1] - edges[0])
    length_s = waits.end_s - waits.start_s
    shares = {}
    for cause in waits.totals():
        own = waits.of_cause(cause)
        share = np.divide(own, length_s, out=np.zeros_like(own), where=length_s > 0)
        seconds = bands.seconds_in_bins(waits.start_s, waits.end_s, edges, share)
        shares[cause] = seconds / time_s
    return edges, shares, bands.seconds_in_bins(begin, end, edges) / time_s


def figures_of(trace: Trace) -> list[Figure]:
    """What a notebook shows of a trace: its timeline and, where there are any, its causes."""
    trace = as_one(trace)
    summary = trace.summary()
    figures = [timeline.draw(trace, summary)]
    with suppress(LoaderVizError):  # nothing was waited for
        figures.append(draw(trace, summary))
    return figures


def _largest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as are shown, in their order."""
    largest = sorted(range(len(rows)), key=lambda i: -float(rows[i]["seconds"]))[:MOST_ROWS]
    return [rows[i] for i in sorted(largest)]


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


def _axes(
    theme: style.Theme, labels: list[str], bars_px: int, times: list[float], longest_s: float
) -> dict[str, Any]:
    """A lane for each bar; below them time, and shares of it."""
    plot_px = bars_px + GAP_PX + OVER_TIME_PX
    return {
        "xaxis": axes.axis(
            theme, TIME, range=times, anchor="y2", showgrid=False, nticks=6,
            tickangle=0,
        ),
        "xaxis2": {
            "range": [0, BARS_EDGE * longest_s], "anchor": "y", "visible": False,
            "fixedrange": True,
        },
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
    numbers += f" · {duration(waited_s)}{a_rank} waited, {share} of the run"
    if len(shown) < len(rows):
        left_s = waited_s - sum(row["seconds"] for row in shown)
        numbers += f" · {count(len(rows) - len(shown), 'smaller cause')} not shown: "
        numbers += duration(left_s)
    return numbers


def _tells_of_epochs(trace: Trace, rows: list[dict[str, Any]]) -> bool:
    """Of a simulation a whole epoch is seen as it is."""
    known = any(not math.isnan(row["epoch_saves_s"]) for row in rows)
    return known and not trace.meta.get("simulated")


def _columns(rows: list[dict[str, Any]], *, with_epochs: bool) -> list[dict[str, Any]]:
    """Beside each bar, what was waited and what cutting it saves; the steps get their name."""
    columns = {
        ("waited", WAITED_PX): [duration(row["seconds"]) for row in rows],
        (SAVED, SAVED_PX): [saves_text(row["saves_s"]) for row in rows],
    }
    if with_epochs:
        columns[IN_AN_EPOCH, EPOCH_PX] = [saves_text(row["epoch_saves_s"]) for row in rows]
    texts = []
    for (heading, shift_px), column in columns.items():
        on_top: dict[str, Any] = {"y": 1, "yref": "paper", "yanchor": "bottom", "align": "left"}
        texts.append(axes.in_margin(heading, shift_px, **on_top))
        texts += [axes.in_margin(text, shift_px, y=i) for i, text in enumerate(column)]
    return [
        *texts,
        axes.in_margin("grey: steps", WAITED_PX, y=0, yref="y2", yanchor="bottom"),
    ]


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
        "hovertext": [_hover_text(row)],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _hover_text(row: dict[str, Any]) -> str:
    """What the cause means, what shows it and what cures it."""
    head = f"<b>{row['name']}</b>: {duration(row['seconds'])}, {percent(row['share'])} of the time"
    texts = (row["loader_name"], f"{cause_phrase(row['cause'])}: {row['evidence']}.", row["cure"])
    lines = [line for text in texts for line in textwrap.wrap(text, TEXT_WIDTH)]
    return "<br>".join([head, *map(html.escape, lines)])


def _bands(edges: Any, shares: dict[str, Any], step_share: Any) -> list[dict[str, Any]]:
    """Steps at the bottom, and on them the causes: one plotly trace each."""
    bottom = np.zeros_like(step_share)
    marks = []
    for cause, share in {"steps": step_share, **shares}.items():
        x, y = _outlines(edges, bottom, bottom + share)
        marks.append({
            "type": "scatter",
            "name": cause_name(cause),
            "yaxis": "y2",
            "x": x.round(6),
            "y": y.round(4),
            "mode": "lines",
            "line": {"width": 0},
            "fill": "toself",
            "fillcolor": COLOURS.get(cause, STEPS_FILL),
            "fillpattern": {**PATTERN, "shape": SHAPES.get(cause, "")},
            "hoveron": "fills",
            "hoverinfo": "text",
            "text": f"<b>{cause_name(cause)}</b>: {percent(share.mean())} of the time",
        })  # fmt: skip
        bottom = bottom + share
    return marks


def _outlines(edges: Any, bottom: Any, top: Any) -> tuple[Any, Any]:
    """Around each run of bins in which there is something, NaN between two of them."""
    tall = np.concatenate([[False], top - bottom > LEAST_SHARE, [False]])
    x, y = [], []
    for first, end in np.flatnonzero(np.diff(tall)).reshape(-1, 2):
        along = np.repeat(edges[first : end + 1], 2)[1:-1]
        up, down = np.repeat(top[first:end], 2), np.repeat(bottom[first:end], 2)
        x += [along, along[::-1], along[:1], [np.nan]]
        y += [up, down[::-1], up[:1], [np.nan]]
    return np.concatenate([*x, ()]), np.concatenate([*y, ()])
