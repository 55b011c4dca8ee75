"""Lines with their names beside them, and named points on them: for what no timeline shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure

Line = tuple[Sequence[float], Sequence[float]]
HEIGHT_PX, TITLE_PX, NAME_PX = 360, 100, 110
FEW = 16
ROOM = 1.18  # above the highest point, for the names of points


def chart(
    lines: Mapping[str, Line],
    *,
    title: str,
    x: str,
    y: str,
    numbers: str = "",
    points: Mapping[str, tuple[float, float]] | None = None,
    theme: style.ThemeName = "light",
) -> Figure:
    """Draw lines from zero upwards, in the look of all other figures.

    Args:
        lines: by name, the positions along the x axis and the values.
        title: what is to be seen, in one line.
        x: what the x axis counts, with its unit.
        y: the same of the y axis.
        numbers: what the title rests on, under it.
        points: by name, single places to point out; one without a name has just its mark.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for no lines, a line without a value, or an unknown theme.
    """
    if not lines or not all(len(xs) and len(xs) == len(ys) for xs, ys in lines.values()):
        raise LoaderVizError("chart() takes lines with as many x as y values, at least one")
    marks = points or {}
    top = max(max(ys) for _, ys in lines.values())
    colours = style.theme(theme)
    margins = (74, NAME_PX, TITLE_PX, 54)
    layout = style.layout(colours, title=title, numbers=numbers, height=HEIGHT_PX, margins=margins)
    layout |= {
        "xaxis": axes.axis(colours, x, 8, showgrid=False, **_across(lines)),
        "yaxis": axes.axis_from_zero(colours, ROOM * max(top, 1e-9)),
        "annotations": [
            {
                "text": y,
                "x": 0, "xref": "paper", "xanchor": "left", "xshift": -60,
                "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 2,
                "showarrow": False,
            },
            *(_named(name, line, at) for at, (name, line) in enumerate(lines.items())),
            *(_pointed_out(name, point) for name, point in marks.items() if name),
        ],
    }  # fmt: skip
    drawn = [_drawn(name, line, x, at) for at, (name, line) in enumerate(lines.items())]
    places: dict[str, Any] = {"type": "scatter", "mode": "markers", "hoverinfo": "skip"}
    places |= {"x": [at for at, _ in marks.values()], "y": [value for _, value in marks.values()]}
    places["marker"] = {"size": 14, "color": style.colour(2)}
    return Figure(data=[*drawn, places], layout=layout)


def _across(lines: Mapping[str, Line]) -> dict[str, Any]:
    """A tick for each of a few whole numbers: there are no 1.5 workers."""
    xs = [x for line in lines.values() for x in line[0]]
    few = all(isinstance(x, int) for x in xs) and max(xs) - min(xs) <= FEW
    return {"dtick": 1} if few else {}


def _drawn(name: str, line: Line, x: str, at: int) -> dict[str, Any]:
    colour = style.colour(at)
    return {
        "type": "scatter",
        "name": name,
        "x": list(line[0]),
        "y": list(line[1]),
        "mode": "lines+markers",
        "line": {"width": 2, "color": colour},
        "marker": {"size": 7, "color": colour, "symbol": ["circle", "diamond", "square"][at % 3]},
        "hovertemplate": f"<b>{name}</b><br>{x}: %{{x:,}}<br>%{{y:.3s}}<extra></extra>",
    }


def _named(name: str, line: Line, at: int) -> dict[str, Any]:
    """The line's name at its right end."""
    return {
        "text": name,
        "x": line[0][-1], "y": line[1][-1],
        "xanchor": "left", "xshift": 12,
        "showarrow": False,
        "font": {"color": style.colour(at)},
    }  # fmt: skip


def _pointed_out(name: str, point: tuple[float, float]) -> dict[str, Any]:
    return {
        "text": name,
        "x": point[0], "y": point[1],
        "ax": 0, "ay": -30,
        "arrowhead": 0, "arrowwidth": 1, "arrowcolor": style.QUIET,
        "standoff": 9,
    }  # fmt: skip
