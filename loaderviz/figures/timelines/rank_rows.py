"""Many ranks on one time axis: a row for each, coloured by how much of the time it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import bands
from loaderviz.text import duration, percent
from loaderviz.trace.analysis.steps import step_ends
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.merge.run_meta import recordings

if TYPE_CHECKING:
    from loaderviz.trace import Trace

ROW_PX = {8: 34, 16: 24, 32: 16, 64: 10, 200: 4}  # a rank's height, by how many there are
TIME = "seconds since the first rank began · waits: orange"
MANY = "those that wait the most on top"
FEW = 32  # ranks that are named one by one, and stay in their order
LEAST_PX, MOST_PX = 200, 560
TITLE_PX, AXIS_PX, SHARE_OF_WIDTH = 82, 58, 0.16
SCALE = [[0, "rgba(91, 155, 200, 0.45)"], [0.5, "rgba(224, 130, 60, 0.8)"], [1, style.WAIT]]


def draw(trace: Trace, title: str, numbers: str, shown: list[float], theme: style.Theme) -> Figure:
    """On the left when each rank waited, on the right how much in all.

    ``shown``: the time axis in seconds. Where there are many, those that wait the most are on top.
    """
    batches = arrays(trace.batches)
    taken = where(batches, ~np.isnan(batches["delivered_s"]))
    ranks = np.unique(batches["rank"])
    edges = bands.edges(shown)
    wait, step = _spent(taken, ranks, edges)
    waits, both = wait.sum(axis=1), (wait + step).sum(axis=1)
    share = 100 * np.divide(waits, both, out=np.zeros(len(ranks)), where=both > 0)
    if len(ranks) > FEW:
        order = np.argsort(-share, kind="stable")
        ranks, wait, step, share = (each[order] for each in (ranks, wait, step, share))
    height, margins = _height(len(ranks)), (92, 40, TITLE_PX, AXIS_PX)
    layout = style.layout(theme, title=title, numbers=numbers, height=height, margins=margins)
    layout |= _axes(ranks, shown, theme)
    return Figure.of([_when(wait, step, ranks, edges), _in_all(share, ranks)], layout)


def clocks(meta: Mapping[str, Any]) -> str:
    """How sure the common time axis is, where the ranks ran on several machines."""
    ranks = [each for each in recordings(meta) if "uncertainty_s" in each]  # a stranger's may not
    unsure_s = [each["uncertainty_s"] for each in ranks if each["uncertainty_s"] != 0.0]
    if not unsure_s or not all(isinstance(each, int | float | None) for each in unsure_s):
        return ""
    machines = f"clocks of {len({str(each.get('host')) for each in ranks}):,} machines"
    if None in unsure_s:
        return f"{machines} compared by their wall clocks alone"
    return f"{machines} aligned to ± {duration(max(unsure_s))}"


def _spent(taken: Table, ranks: Any, edges: Any) -> tuple[Any, Any]:
    """Seconds of waiting and of steps, ranks x bins."""
    row = np.searchsorted(ranks, taken["rank"])
    ends = step_ends(taken)
    spans = ((taken["requested_s"], taken["delivered_s"]), (taken["delivered_s"], ends))
    found = []
    for start, end in spans:
        by_row = bands.by_lane(row, start, end, edges)
        none = np.zeros(len(edges) - 1)
        found.append(np.stack([by_row.get(each, none) for each in range(len(ranks))]))
    return found[0], found[1]


def _when(wait: Any, step: Any, ranks: Any, edges: Any) -> dict[str, Any]:
    both = wait + step
    least = 0.02 * (edges[1] - edges[0])  # less of a bin is the end of something
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(both > least, wait / both, np.nan)
    return {
        "type": "heatmap",
        "name": "waits",
        "z": (100 * share).astype(np.float32).round(),
        "x0": float(edges[0] + edges[1]) / 2,
        "dx": float(edges[1] - edges[0]),
        "y": _names(ranks),
        "colorscale": SCALE,
        "zmin": 0,
        "zmax": 100,
        "showscale": False,
        "hoverongaps": False,
        "ygap": 1 if len(ranks) <= FEW else 0,
        "hovertemplate": "<b>%{y}</b> at %{x:.3s}s: waits %{z:.0f} %<extra></extra>",
    }


def _in_all(share: Any, ranks: Any) -> dict[str, Any]:
    """Bars: the share of its time that each rank waits, 0 to 100."""
    few = len(ranks) <= FEW
    return {
        "type": "bar",
        "name": "in all",
        "orientation": "h",
        "x": share.round(2),
        "y": _names(ranks),
        "xaxis": "x2",
        "width": 0.72 if few else 1,
        "marker": {"color": style.WAIT, "line": {"width": 0}},
        "text": [percent(each / 100) if few else "" for each in share],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "<b>%{y}</b> waits %{x:.1f} % in all<extra></extra>",
    }


def _axes(ranks: Any, shown: list[float], theme: style.Theme) -> dict[str, Any]:
    n = len(ranks)
    few = n <= FEW
    ticks = range(0, n, 1 + (n > 16)) if few else [0, n - 1]
    return {
        "xaxis": axes.axis(
            theme, TIME, range=shown, domain=[0, 1 - SHARE_OF_WIDTH - 0.03], nticks=10
        ),
        "xaxis2": axes.axis(
            theme, "% in all", range=[0, 108], tickvals=[0, 50, 100],
            domain=[1 - SHARE_OF_WIDTH, 1], fixedrange=True, anchor="y",
        ),
        "yaxis": axes.axis(
            theme, "" if few else MANY, 4, showgrid=False, type="category", tickmode="array",
            tickvals=list(ticks), tickfont={"color": theme.text}, ticklabelstandoff=8,
            range=[n - 0.5, -0.5],
        ),
    }  # fmt: skip


def _names(ranks: Any) -> list[str]:
    return [f"rank {rank}" for rank in ranks]


def _height(n_ranks: int) -> int:
    row_px = next((px for most, px in ROW_PX.items() if n_ranks <= most), 0)
    inner = min(max(n_ranks * row_px, LEAST_PX) if row_px else MOST_PX, MOST_PX)
    return TITLE_PX + AXIS_PX + inner
