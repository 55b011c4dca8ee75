"""The figure of a shuffle: where each sample was, against where it came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.text import percent

HEIGHT_PX = 440
TITLE_PX, AXIS_PX = 86, 56


def shuffle(order: Sequence[int], *, theme: style.ThemeName = "light") -> Figure:
    """Draw how well an order is shuffled: a dot for each sample, on the diagonal if it has stayed.

    Args:
        order: for each place, from the first that came out, the place at which that sample went in:
            0 to n - 1, each once.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, and an order that is empty or no such permutation.
    """
    came = np.asarray(order)
    n = len(came)
    if not n or came.ndim != 1 or not np.array_equal(np.sort(came), np.arange(n)):
        raise LoaderVizError(
            f"order={order!r:.60} does not have each of the places 0 to n - 1 once: give, in the "
            "order of coming out, where each sample went in"
        )
    look = style.theme(theme)
    layout = style.layout(
        look,
        title=verdict(came),
        numbers=numbers(came),
        height=HEIGHT_PX,
        margins=(76, 22, TITLE_PX, AXIS_PX),
    )
    edge = 0.02 * n + 0.5
    places: dict[str, Any] = {"range": [-edge, n - 1 + edge], "tickformat": ",d"}
    layout |= {
        "xaxis": axes.axis(look, "place when it came out", **places),
        "yaxis": axes.axis(look, "place when it went in", 8, **places),
    }
    return Figure.unchecked([_diagonal(n), _dots(came)], layout)


def mean_move(came: Any) -> float:
    """How many places a sample moves, on average."""
    return float(np.abs(np.asarray(came) - np.arange(len(came))).mean())


def full_move(n: int) -> float:
    """What ``mean_move`` is expected to be where every order is as likely: (n * n - 1) / 3n."""
    return (n * n - 1) / (3 * n)


def verdict(came: Any) -> str:
    """How far samples move, and what part of a full shuffle that is."""
    moved = mean_move(came)
    if not moved:
        return "Nothing is shuffled: every sample comes out in its place"
    share = moved / full_move(len(came))
    places = f"{moved:,.0f}" if moved >= 10 else f"{moved:.1f}"
    return f"A sample moves {places} places on average: {percent(share)} of a full shuffle"


def numbers(came: Any) -> str:
    later = np.arange(len(came)) - came
    return (
        f"{len(came):,} samples · at most {max(-int(later.min()), 0):,} places earlier and "
        f"{max(int(later.max()), 0):,} later · a full shuffle moves {full_move(len(came)):,.0f}"
    )


def _dots(came: Any) -> dict[str, Any]:
    few = len(came) <= 300
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "sample",
        "x": np.arange(len(came)),
        "y": came,
        "marker": {"size": 6 if few else 4, "color": style.colour(0), "opacity": 0.75},
        "hovertemplate": "went in at %{y}<br>came out at %{x}<extra></extra>",
    }


def _diagonal(n: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "in place",
        "x": [0, n - 1],
        "y": [0, n - 1],
        "line": {"width": 1.5, "dash": "dot", "color": style.WAIT},
        "hoverinfo": "skip",
    }
