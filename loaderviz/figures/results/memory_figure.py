"""The resident memory of each worker over time."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.style import AXIS_PX, TITLE_PX
from loaderviz.figures.timelines.timeline import TIME
from loaderviz.text import worker_name
from loaderviz.trace import Trace
from loaderviz.trace.columns_of_rows import Table, arrays, codes, where
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.why.loader_share import short_names

HEIGHT_PX = 280
NUMBERS = "resident memory with each batch · what processes share counts in each of them"
MOST_NAMED = 6  # up to here each line has a colour and a name; past it all look alike
MOST_LINES = 64
POINTS = 400  # of a line at most, each the highest of a stretch
AXIS_TOP = 1.08  # the height of the axis, in heights of the highest point
NAMES_APART = 0.11  # of the height of the axis
WORKER = ("rank", "loader", "worker")
_MiB = 1 << 20


def memory(trace: Trace, *, theme: style.ThemeName = "light") -> Figure:
    """Draw the memory of each worker, in MiB, as it was measured with each batch.

    It is resident memory: pages that workers share with the main process count in each of them.

    Raises:
        LoaderVizError: for a trace without such measurements, or an unknown theme.
    """
    lines = _worker_lines(as_one(trace))
    if not lines:
        raise LoaderVizError("this trace does not tell what memory its workers held")
    top = max(float(line["y"].max()) for line in lines)
    colours = style.theme(theme)
    title = f"Up to {top:,.0f} MiB in a worker"
    named = len(lines) <= MOST_NAMED
    right_px = 18 + 7 * max(len(line["name"]) for line in lines) if named else 22
    margins = (74, right_px, TITLE_PX, AXIS_PX)
    layout = style.layout(colours, title=title, numbers=NUMBERS, height=HEIGHT_PX, margins=margins)
    layout |= {
        "xaxis": axes.axis(colours, TIME, showgrid=False, nticks=10),
        "yaxis": axes.axis_from_zero(colours, AXIS_TOP * top, "MiB"),
        "annotations": _line_names(lines, top) if named else [],
    }
    marks = [_line_mark(line, i if named else None) for i, line in enumerate(lines)]
    return Figure.unchecked(marks, layout)


def _worker_lines(trace: Trace) -> list[Table]:
    """The line of each worker, or of the main process if it alone made batches."""
    rows = arrays(trace.batches)
    rows = where(rows, (rows["rss_bytes"] > 0) & ~np.isnan(rows["ready_s"]))
    if (rows["worker"] >= 0).any():
        rows = where(rows, rows["worker"] >= 0)
    rows = where(rows, np.argsort(rows["ready_s"], kind="stable"))
    if not len(rows["rank"]):
        return []
    several_ranks, several = (len(np.unique(rows[name])) > 1 for name in ("rank", "loader"))
    names = short_names(trace) if several else {}
    loaders = {loader: html.escape(name) for loader, name in names.items()}
    worker_codes = codes(WORKER, rows)[0]
    order = np.argsort(worker_codes, kind="stable")
    cuts = np.flatnonzero(np.diff(worker_codes[order])) + 1
    rows_of_workers = np.split(order, cuts)[:MOST_LINES]
    return [_worker_line(where(rows, picked), several_ranks, loaders) for picked in rows_of_workers]


def _worker_line(rows: Table, several_ranks: bool, loaders: Mapping[int, str]) -> Table:
    """MiB (``y``) over seconds (``x``), the highest of each stretch, and the worker's ``name``.

    ``loaders``: their names, where there are several.
    """
    n = len(rows["ready_s"])
    starts = np.unique(np.linspace(0, n, min(POINTS, n), endpoint=False).astype(int))
    highest = np.maximum.reduceat(rows["rss_bytes"], starts) / _MiB
    rank, loader, worker = (int(rows[column][0]) for column in WORKER)
    name = f"rank {rank} · " if several_ranks else ""
    name += f"{loaders[loader]} · " if loader in loaders else ""
    name += worker_name(worker)
    return {"x": rows["ready_s"][starts], "y": highest, "name": name}


def _line_mark(line: Table, number: int | None) -> dict[str, Any]:
    """``number`` gives the line its own colour and dash; None: it looks like all others."""
    dashes = ("solid", "dash", "dot")
    colour = style.READY_LINE if number is None else style.series(number)
    return {
        "type": "scatter",
        "name": line["name"],
        "x": line["x"],
        "y": line["y"],
        "mode": "lines" if len(line["x"]) > 1 else "markers",
        "opacity": 0.45 if number is None else 1,
        "line": {"width": 1.6, "color": colour, "dash": dashes[(number or 0) % 3]},
        "hovertemplate": f"<b>{line['name']}</b><br>%{{y:,.0f}} MiB at %{{x:.3~g}} s"
        "<extra></extra>",
    }


def _line_names(lines: list[Table], top: float) -> list[dict[str, Any]]:
    """At the right end of each line, moved apart where they would overlap."""
    ends = [float(line["y"][-1]) / (AXIS_TOP * top) for line in lines]
    heights = axes.moved_apart(ends, NAMES_APART)
    excess = max(*heights, 1.0) - 1
    return [
        axes.in_margin(
            line["name"], 6, y=height - excess, yref="paper", yanchor="middle",
            font={"size": 12, "color": style.series(i)},
        )
        for i, (line, height) in enumerate(zip(lines, heights, strict=True))
    ]  # fmt: skip
