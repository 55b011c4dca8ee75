"""The resident memory of each worker over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines.timeline import TIME
from loaderviz.text import worker_name
from loaderviz.trace import Trace
from loaderviz.trace.columns_of_rows import Table, arrays, codes, where

HEIGHT_PX, TITLE_PX, AXIS_PX = 280, 82, 58
MOST_NAMED = 6  # lines that have a colour and a name; more are drawn alike
MOST_LINES = 64
POINTS = 400  # of a line: of each stretch the highest
APART = 0.11  # of the height, between two names
WHO = ("rank", "loader", "worker")
_MiB = 1 << 20


def memory(trace: Trace, *, theme: style.ThemeName = "light") -> Figure:
    """Draw what each worker held in memory, as it was seen with each batch, in MiB.

    It is resident memory: what workers share with the main process counts in each.

    Raises:
        LoaderVizError: for a trace that holds no such numbers, or an unknown theme.
    """
    lines = _lines(trace)
    if not lines:
        raise LoaderVizError("this trace does not tell what memory its workers held")
    top = max(float(line["y"].max()) for line in lines)
    colours = style.theme(theme)
    title = f"Up to {top:,.0f} MiB in a worker"
    named = len(lines) <= MOST_NAMED
    right_px = 18 + 7 * max(len(line["name"]) for line in lines) if named else 22
    margins = (74, right_px, TITLE_PX, AXIS_PX)
    layout = style.layout(colours, title=title, numbers="", height=HEIGHT_PX, margins=margins)
    layout |= {
        "xaxis": axes.axis(colours, TIME, showgrid=False, nticks=10),
        "yaxis": axes.axis_from_zero(colours, 1.08 * top, "MiB"),
        "annotations": _names(lines, top) if named else [],
    }
    marks = [_drawn(line, at if named else None) for at, line in enumerate(lines)]
    return Figure.unchecked(marks, layout)


def _lines(trace: Trace) -> list[Table]:
    rows = arrays(trace.batches)
    rows = where(rows, (rows["rss_bytes"] > 0) & ~np.isnan(rows["ready_s"]))
    if (rows["worker"] >= 0).any():
        rows = where(rows, rows["worker"] >= 0)
    rows = where(rows, np.argsort(rows["ready_s"], kind="stable"))
    if not len(rows["rank"]):
        return []
    several = [len(np.unique(rows[column])) > 1 for column in WHO]
    who = codes(WHO, rows)[0]
    order = np.argsort(who, kind="stable")
    cuts = np.flatnonzero(np.diff(who[order])) + 1
    return [_line(where(rows, own), several) for own in np.split(order, cuts)[:MOST_LINES]]


def _line(rows: Table, several: list[bool]) -> Table:
    """One worker's line: MiB over seconds, the highest of each stretch."""
    n = len(rows["ready_s"])
    starts = np.unique(np.linspace(0, n, min(POINTS, n), endpoint=False).astype(int))
    highest = np.maximum.reduceat(rows["rss_bytes"], starts) / _MiB
    rank, loader, worker = (int(rows[column][0]) for column in WHO)
    name = f"rank {rank} · " if several[0] else ""
    name += f"loader {loader} · " if several[1] else ""
    name += worker_name(worker)
    return {"x": rows["ready_s"][starts], "y": highest, "name": name}


def _drawn(line: Table, at: int | None) -> dict[str, Any]:
    dashes = ("solid", "dash", "dot")
    colour = style.READY_LINE if at is None else style.colour(at)
    return {
        "type": "scatter",
        "name": line["name"],
        "x": line["x"],
        "y": line["y"],
        "mode": "lines" if len(line["x"]) > 1 else "markers",
        "opacity": 0.45 if at is None else 1,
        "line": {"width": 1.6, "color": colour, "dash": dashes[(at or 0) % 3]},
        "hovertemplate": f"<b>{line['name']}</b><br>%{{y:,.0f}} MiB at %{{x:.3~g}} s"
        "<extra></extra>",
    }


def _names(lines: list[Table], top: float) -> list[dict[str, Any]]:
    """At the right end of each line, moved apart where they would overlap."""
    ends = sorted(range(len(lines)), key=lambda at: float(lines[at]["y"][-1]))
    labels, free = [], 0.0
    for at in ends:
        height = max(float(lines[at]["y"][-1]) / (1.08 * top), free)
        free = height + APART
        labels.append((at, height))
    over = max(labels[-1][1] - 1, 0.0)
    return [
        {
            "text": lines[at]["name"],
            "x": 1, "xref": "paper", "xanchor": "left", "xshift": 6,
            "y": height - over, "yref": "paper", "yanchor": "middle",
            "showarrow": False, "font": {"size": 12, "color": style.colour(at)},
        }
        for at, height in labels
    ]  # fmt: skip
