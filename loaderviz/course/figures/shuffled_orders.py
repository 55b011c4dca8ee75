"""Two figures of shuffled orders: where each sample went, and which classes follow one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loaderviz.course.figures.lane_figures import AXIS_PX, RIGHT_PX, TITLE_PX, lane_figure
from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.text import count, percent

HEIGHT_PX, LEFT_PX = 440, 76
STRIP_PX = 56
CLASS_COLOURS = (  # neighbours differ in hue and in lightness
    *(style.BLUE, style.AMBER, style.GREEN, style.PINK, style.OLIVE, style.SKY, style.PLUM),
    *(style.LIME, style.WAIT, style.QUIET),
)
STRIP_SHARE = 0.78  # of a lane's height


def classes(orders: Mapping[str, Sequence[int]], *, title: str, colour: str = "class") -> Figure:
    """Draw which classes come one after another: a strip for each order, all on one axis.

    Args:
        orders: by name, from top to bottom, the class (from 0) of each sample in the order in
            which the samples come; equally many of each.
        title: what the figure shows, in one line.
        colour: what a class is.

    Raises:
        LoaderVizError: for no order, an empty one, or orders of unequal length.
    """
    table = [np.asarray(order, int) for order in orders.values()]
    if len({len(order) for order in table}) != 1 or not len(table[0]):
        raise LoaderVizError("classes() takes orders of equally many samples, at least one")
    n, n_classes = len(table[0]), 1 + max(int(order.max()) for order in table)
    strips = [
        {
            "type": "heatmap", "name": name, "z": order[None, :], "x0": 0, "dx": 1, "y0": lane,
            "dy": STRIP_SHARE, "zmin": 0, "zmax": max(n_classes - 1, 1), "showscale": False,
            "colorscale": _scale(n_classes),
            "hovertemplate": f"{name}<br>sample %{{x}}: {colour} %{{z}}<extra></extra>",
        }
        for lane, (name, order) in enumerate(zip(orders, table, strict=True))
    ]  # fmt: skip
    return lane_figure(
        strips,
        list(orders),
        title=title,
        numbers=f"{n:,} samples · each of {n_classes} colours is a {colour}",
        lane_px=STRIP_PX,
        x_title="samples, in the order in which they come",
        x={"range": [-0.5, n - 0.5], "showgrid": False, "tickformat": ",d"},
    )


def _scale(n_classes: int) -> Any:
    """A colour for each class, that no other has; a scale where there are more than colours."""
    if not 1 < n_classes <= len(CLASS_COLOURS):
        return "Cividis"
    return [[i / (n_classes - 1), CLASS_COLOURS[i]] for i in range(n_classes)]


def shuffle(order: Sequence[int]) -> Figure:
    """Draw how well an order is shuffled: a dot for each sample, on the diagonal if it stayed.

    The samples that moved farthest, earlier and later, have their moves drawn.

    Args:
        order: for each place at which a sample comes out, the place at which it went in: 0 to
            n - 1, each once, shape (n,).

    Raises:
        LoaderVizError: for an order that is empty or no such permutation.
    """
    places_in = np.asarray(order)
    n = len(places_in)
    if not n or places_in.ndim != 1 or not np.array_equal(np.sort(places_in), np.arange(n)):
        raise LoaderVizError(
            f"order={order!r:.60} does not have each of the places 0 to n - 1 once: give where "
            "each sample went in, in the order of coming out"
        )
    colours = style.theme("light")
    title, numbers = _how_far_samples_move(places_in)
    layout = style.layout(
        colours,
        title=title,
        numbers=numbers,
        height=HEIGHT_PX,
        margins=(LEFT_PX, RIGHT_PX, TITLE_PX, AXIS_PX),
    )
    room = 0.02 * n + 0.5
    options: dict[str, Any] = {"range": [-room, n - 1 + room], "tickformat": ",d"}
    layout |= {
        "xaxis": axes.axis(colours, "place in the run", **options),
        "yaxis": axes.axis(colours, "place in the source", 8, **options),
        "annotations": [
            _in_a_corner("above the line: came earlier than in the source", 0.02, 0.97, "left"),
            _in_a_corner("below the line: came later", 0.99, 0.03, "right"),
            *_farthest_labels(places_in),
        ],
    }
    diagonal = {
        "type": "scatter", "mode": "lines", "name": "in place", "x": [0, n - 1], "y": [0, n - 1],
        "line": {"width": 1.5, "dash": "dot", "color": style.QUIET}, "hoverinfo": "skip",
    }  # fmt: skip
    dots = {
        "type": "scatter", "mode": "markers", "name": "sample", "x": np.arange(n), "y": places_in,
        "marker": {"size": 6 if n <= 300 else 4, "color": style.READY_LINE, "opacity": 0.9},
        "hovertemplate": "place %{x} in the run<br>place %{y} in the source<extra></extra>",
    }  # fmt: skip
    return Figure.unchecked([diagonal, dots, *_farthest_marks(places_in)], layout)


def _farthest(places_in: Any) -> list[tuple[int, int, str]]:
    """Of the sample that came most places too early, and too late: places out and in, and words."""
    moves = np.arange(len(places_in)) - places_in  # above 0: later
    return [
        (at, int(places_in[at]), f"{count(abs(int(moves[at])), 'place')} {when}")
        for at, when in ((int(moves.argmin()), "early"), (int(moves.argmax()), "late"))
        if moves[at]
    ]


def _farthest_marks(places_in: Any) -> list[dict[str, Any]]:
    """A line from where such a sample would have stayed to where it came, and its dot."""
    return [
        {
            "type": "scatter", "mode": "lines+markers", "name": text, "x": [place, at],
            "y": [place, place], "line": {"width": 2, "color": style.FAILED},
            "marker": {"size": [0, 10], "color": style.FAILED}, "hoverinfo": "skip",
        }
        for at, place, text in _farthest(places_in)
    ]  # fmt: skip


def _farthest_labels(places_in: Any) -> list[dict[str, Any]]:
    """How far it moved, beside its dot: in the empty part of the picture."""
    return [
        {
            "text": text, "x": at, "y": place, "showarrow": False, "yanchor": "middle",
            "xanchor": (side := "right" if at < place else "left"),
            "xshift": -10 if side == "right" else 10, "font": {"color": style.FAILED},
        }
        for at, place, text in _farthest(places_in)
    ]  # fmt: skip


def _in_a_corner(text: str, x: float, y: float, side: str) -> dict[str, Any]:
    return {
        "text": text, "x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": side,
        "yanchor": "top" if y > 0.5 else "bottom", "showarrow": False,
    }  # fmt: skip


def _how_far_samples_move(places_in: Any) -> tuple[str, str]:
    """The title and the subtitle: the average against that of a full shuffle, and the extremes.

    Over all orders of n samples, one moves (n * n - 1) / 3n places on average.
    """
    n = len(places_in)
    moves = np.arange(n) - places_in  # above 0: later
    move, full_move = float(np.abs(moves).mean()), (n * n - 1) / (3 * n)
    numbers = (
        f"{n:,} samples · at most {max(-int(moves.min()), 0):,} places earlier and "
        f"{max(int(moves.max()), 0):,} later · a full shuffle moves {full_move:,.0f}"
    )
    if not move:
        return "Nothing is shuffled: every sample comes out in its place", numbers
    places = f"{move:,.0f}" if move >= 10 else f"{move:.1f}"
    share = percent(move / full_move)
    return f"A sample moves {places} places on average: {share} of a full shuffle", numbers
