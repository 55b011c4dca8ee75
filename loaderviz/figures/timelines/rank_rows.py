"""Many ranks on one time axis: a row for each rank, coloured by the share of time it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.style import AXIS_PX, TITLE_PX
from loaderviz.figures.timelines import bands
from loaderviz.text import duration, percent
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.described_loaders import recordings
from loaderviz.trace.steps import step_ends

if TYPE_CHECKING:
    from loaderviz.trace import Trace

ROW_PX = {8: 34, 16: 24, 32: 16, 64: 10, 200: 4}  # the height of a row, for at most as many ranks
TIME = "seconds since the first rank began · blue: steps, orange-red: waits"
SORTED_TITLE = "those that wait the most on top"
FEW = 32  # up to here each rank is named, and ranks stay in their order
LEAST_PX, MOST_PX = 200, 560  # the height of all rows
TOTALS_WIDTH = 0.16  # of the bars on the right, as a part of the figure
SCALE = [[0, "rgba(91, 155, 200, 0.45)"], [0.5, "rgba(224, 130, 60, 0.8)"], [1, style.WAIT]]


def draw(
    trace: Trace, title: str, numbers: str, time_range: list[float], theme: style.Theme
) -> Figure:
    """A figure with, for each rank, when it waited on the left and how much in all on the right.

    Past ``FEW`` ranks, those that wait the most are on top. ``time_range``: the time axis, in
    seconds.
    """
    batches = arrays(trace.batches)
    delivered = where(batches, ~np.isnan(batches["delivered_s"]))
    ranks = np.unique(batches["rank"])
    edges = bands.bin_edges(time_range)
    wait, step = _seconds_by_rank(delivered, ranks, edges)
    wait_sum, known_sum = wait.sum(axis=1), (wait + step).sum(axis=1)
    percent_waiting = 100 * np.divide(
        wait_sum, known_sum, out=np.zeros(len(ranks)), where=known_sum > 0
    )
    if len(ranks) > FEW:
        order = np.argsort(-percent_waiting, kind="stable")
        ranks, wait, step = ranks[order], wait[order], step[order]
        percent_waiting = percent_waiting[order]
    height, margins = _height(len(ranks)), (92, 40, TITLE_PX, AXIS_PX)
    layout = style.layout(theme, title=title, numbers=numbers, height=height, margins=margins)
    layout |= _axes(ranks, time_range, theme)
    marks = [_wait_heatmap(wait, step, ranks, edges), _total_bars(percent_waiting, ranks)]
    return Figure.unchecked(marks, layout)


def clock_uncertainty(meta: Mapping[str, Any]) -> str:
    """How well the ranks' clocks are aligned, as text; "" for one machine or if not known."""
    ranks = [rank for rank in recordings(meta) if "uncertainty_s" in rank]
    uncertainties_s = [rank["uncertainty_s"] for rank in ranks if rank["uncertainty_s"] != 0.0]
    if not uncertainties_s:
        return ""
    machines = f"clocks of {len({str(rank.get('host')) for rank in ranks}):,} machines"
    if None in uncertainties_s:
        return f"{machines} compared by their wall clocks alone"
    return f"{machines} aligned to ± {duration(max(uncertainties_s))}"


def _seconds_by_rank(delivered: Table, ranks: Any, edges: Any) -> tuple[Any, Any]:
    """Seconds of waiting and of steps, each of shape (ranks, bins)."""
    row = np.searchsorted(ranks, delivered["rank"])
    ends = step_ends(delivered)
    no_seconds = np.zeros(len(edges) - 1)

    def seconds(start: Any, end: Any) -> Any:
        by_row = bands.seconds_by_lane(row, start, end, edges)
        return np.stack([by_row.get(i, no_seconds) for i in range(len(ranks))])

    wait = seconds(delivered["requested_s"], delivered["delivered_s"])
    return wait, seconds(delivered["delivered_s"], ends)


def _wait_heatmap(wait: Any, step: Any, ranks: Any, edges: Any) -> dict[str, Any]:
    known = wait + step
    least = 0.02 * (edges[1] - edges[0])  # less of a bin is only the end of a wait or step
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(known > least, wait / known, np.nan)
    return {
        "type": "heatmap",
        "name": "waits",
        "z": (100 * share).astype(np.float32).round(),
        "x0": float(edges[0] + edges[1]) / 2,
        "dx": float(edges[1] - edges[0]),
        "y": _rank_names(ranks),
        "colorscale": SCALE,
        "zmin": 0,
        "zmax": 100,
        "showscale": False,
        "hoverongaps": False,
        "ygap": 1 if len(ranks) <= FEW else 0,
        "hovertemplate": "<b>%{y}</b> at %{x:.3s}s: waits %{z:.0f} %<extra></extra>",
    }


def _total_bars(percent_waiting: Any, ranks: Any) -> dict[str, Any]:
    """A bar for each rank: the share of its time that it waits, 0 to 100."""
    few = len(ranks) <= FEW
    return {
        "type": "bar",
        "name": "in all",
        "orientation": "h",
        "x": percent_waiting.round(2),
        "y": _rank_names(ranks),
        "xaxis": "x2",
        "width": 0.72 if few else 1,
        "marker": {"color": style.WAIT, "line": {"width": 0}},
        "text": [percent(value / 100) if few else "" for value in percent_waiting],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "<b>%{y}</b> waits %{x:.1f} % in all<extra></extra>",
    }


def _axes(ranks: Any, time_range: list[float], theme: style.Theme) -> dict[str, Any]:
    n = len(ranks)
    few = n <= FEW
    ticks = range(0, n, 1 + (n > 16)) if few else [0, n - 1]
    return {
        "xaxis": axes.axis(
            theme, TIME, range=time_range, domain=[0, 1 - TOTALS_WIDTH - 0.03], nticks=10
        ),
        "xaxis2": axes.axis(
            theme, "% in all", range=[0, 108], tickvals=[0, 50, 100],
            domain=[1 - TOTALS_WIDTH, 1], fixedrange=True, anchor="y",
        ),
        "yaxis": axes.axis(
            theme, "" if few else SORTED_TITLE, 4, showgrid=False, type="category",
            tickmode="array", tickvals=list(ticks), tickfont={"color": theme.text},
            ticklabelstandoff=8, range=[n - 0.5, -0.5],
        ),
    }  # fmt: skip


def _rank_names(ranks: Any) -> list[str]:
    return [f"rank {rank}" for rank in ranks]


def _height(n_ranks: int) -> int:
    row_px = next((px for most, px in ROW_PX.items() if n_ranks <= most), 0)
    inner = min(max(n_ranks * row_px, LEAST_PX) if row_px else MOST_PX, MOST_PX)
    return TITLE_PX + AXIS_PX + inner
