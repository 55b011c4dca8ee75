"""A line chart with the names of lines and points beside them, for what no timeline shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure

Line = tuple[Sequence[float], Sequence[float]]  # positions along the x axis, and the values
HEIGHT_PX, TITLE_PX, NAME_PX, AXIS_PX = 330, 84, 110, 50
LINE_PX = 16  # between two names, one above the other
CLOSE = 6  # points nearer than one of so many parts of the x axis: names of 12 letters touch
ROOM = 1.18  # the height of the axis, in heights of the highest point: names need room


def chart(
    lines: Mapping[str, Line],
    *,
    title: str,
    x: str,
    y: str,
    numbers: str = "",
    points: Mapping[str, tuple[float, float]] | None = None,
) -> Figure:
    """Draw lines on a value axis that begins at 0, in the style of all other figures.

    Args:
        lines: by name, the positions along the x axis and the values, equally many of both.
        title: what the chart shows, in one line.
        x: the title of the x axis, with its unit.
        y: the title of the y axis, with its unit.
        numbers: the subtitle: what the title rests on.
        points: by name, single (x, y) to point out; one with the name of a line has just its mark.

    Raises:
        LoaderVizError: for no lines, and a line without values or with unequal numbers of positions
            and values.
    """
    if not lines or not all(len(xs) and len(xs) == len(ys) for xs, ys in lines.values()):
        raise LoaderVizError("chart() takes lines with as many x as y values, at least one")
    points = points or {}
    top = ROOM * max(1e-9, *(max(ys) for _, ys in lines.values()))
    colours = style.theme("light")
    margins = (74, NAME_PX, TITLE_PX, AXIS_PX)
    layout = style.layout(colours, title=title, numbers=numbers, height=HEIGHT_PX, margins=margins)
    layout |= {
        "xaxis": axes.axis(colours, x, 8, showgrid=False, **_tick_options(lines)),
        "yaxis": axes.axis_from_zero(colours, top),
        "annotations": [
            {
                "text": y,
                "x": 0, "xref": "paper", "xanchor": "left", "xshift": -60,
                "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 2,
                "showarrow": False,
            },
            *_line_labels(lines, top),
            *_point_labels({name: at for name, at in points.items() if name not in lines}, lines),
        ],
    }  # fmt: skip
    line_marks = [_line_mark(name, line, x, i) for i, (name, line) in enumerate(lines.items())]
    series = {name: style.series(i) for i, name in enumerate(lines)}
    point_marks: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "hoverinfo": "skip",
        "x": [x for x, _ in points.values()],
        "y": [y for _, y in points.values()],
        "marker": {"size": 14, "color": [series.get(name, style.GREEN) for name in points]},
    }
    return Figure(data=[*line_marks, point_marks], layout=layout)


def _tick_options(lines: Mapping[str, Line]) -> dict[str, Any]:
    """A tick for each of a few whole numbers: there are no 1.5 workers, and no -1."""
    xs = [x for line in lines.values() for x in line[0]]
    whole = [x for x in xs if isinstance(x, int)]
    if len(whole) < len(xs) or max(whole) - min(whole) > 16:
        return {}
    return {"tickvals": list(range(min(whole), max(whole) + 1))}


def _line_mark(name: str, line: Line, x_title: str, number: int) -> dict[str, Any]:
    colour, symbols = style.series(number), ["circle", "diamond", "square"]
    return {
        "type": "scatter",
        "name": name,
        "x": list(line[0]),
        "y": list(line[1]),
        "mode": "lines+markers",
        "line": {"width": 2, "color": colour},
        "marker": {"size": 7, "color": colour, "symbol": symbols[number % 3]},
        "hovertemplate": f"<b>{name}</b><br>{x_title}: %{{x:,}}<br>%{{y:.3s}}<extra></extra>",
    }


def _line_labels(lines: Mapping[str, Line], top: float) -> list[dict[str, Any]]:
    """Each line's name at its right end, moved up where it would cover another."""
    plot_px = HEIGHT_PX - TITLE_PX - AXIS_PX
    ends_px = {name: plot_px * ys[-1] / top for name, (_, ys) in lines.items() if name}
    names_px = axes.moved_apart([*ends_px.values()], LINE_PX)
    shifts_px = {name: at_px - ends_px[name] for name, at_px in zip(ends_px, names_px, strict=True)}
    return [
        {
            "text": name,
            "x": xs[-1], "y": ys[-1],
            "xanchor": "left", "xshift": 12, "yshift": shifts_px.get(name, 0.0),
            "showarrow": False,
            "font": {"color": style.series(number)},
        }
        for number, (name, (xs, ys)) in enumerate(lines.items())
    ]  # fmt: skip


def _point_labels(
    points: Mapping[str, tuple[float, float]], lines: Mapping[str, Line]
) -> list[dict[str, Any]]:
    """Each point's name above it; of two that lie close, one goes to either side."""
    xs = [x for line in lines.values() for x in line[0]]
    close = (max(xs) - min(xs)) / CLOSE
    others = [x for x, _ in points.values()]
    return [
        {
            "text": name,
            "x": x, "y": y,
            "xanchor": "left" if any(0 < x - other < close for other in others)
            else "right" if any(0 < other - x < close for other in others)
            else "center",
            "ax": 0, "ay": -30,
            "arrowhead": 0, "arrowwidth": 1, "arrowcolor": style.QUIET,
            "standoff": 9,
        }
        for name, (x, y) in points.items()
    ]  # fmt: skip
