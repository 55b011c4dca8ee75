"""The figure of a shuffle: the place where each sample came out against where it went in."""

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
    """Draw how well an order is shuffled: a dot for each sample, on the diagonal if it stayed.

    Args:
        order: for each place at which a sample comes out, the place at which it went in: 0 to
            n - 1, each once, shape (n,).
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, and an order that is empty or no such permutation.
    """
    places_in = np.asarray(order)
    n = len(places_in)
    if not n or places_in.ndim != 1 or not np.array_equal(np.sort(places_in), np.arange(n)):
        raise LoaderVizError(
            f"order={order!r:.60} does not have each of the places 0 to n - 1 once: give where "
            "each sample went in, in the order of coming out"
        )
    colours = style.theme(theme)
    layout = style.layout(
        colours,
        title=_verdict(places_in),
        numbers=_numbers(places_in),
        height=HEIGHT_PX,
        margins=(76, 22, TITLE_PX, AXIS_PX),
    )
    room = 0.02 * n + 0.5
    axis_options: dict[str, Any] = {"range": [-room, n - 1 + room], "tickformat": ",d"}
    layout |= {
        "xaxis": axes.axis(colours, "place when it came out", **axis_options),
        "yaxis": axes.axis(colours, "place when it went in", 8, **axis_options),
    }
    return Figure.unchecked([_diagonal(n), _dots(places_in)], layout)


def mean_move(places_in: Any) -> float:
    """How many places a sample moves on average; ``places_in`` is an order as ``shuffle`` takes."""
    return float(np.abs(np.asarray(places_in) - np.arange(len(places_in))).mean())


def full_move(n: int) -> float:
    """The expected ``mean_move`` of a random order of n samples: (n * n - 1) / 3n."""
    return (n * n - 1) / (3 * n)


def _verdict(places_in: Any) -> str:
    """How far samples move, and what part of a full shuffle that is."""
    move = mean_move(places_in)
    if not move:
        return "Nothing is shuffled: every sample comes out in its place"
    share = move / full_move(len(places_in))
    places = f"{move:,.0f}" if move >= 10 else f"{move:.1f}"
    return f"A sample moves {places} places on average: {percent(share)} of a full shuffle"


def _numbers(places_in: Any) -> str:
    n = len(places_in)
    moves = np.arange(n) - places_in  # above 0: later
    return (
        f"{n:,} samples · at most {max(-int(moves.min()), 0):,} places earlier and "
        f"{max(int(moves.max()), 0):,} later · a full shuffle moves {full_move(n):,.0f}"
    )


def _dots(places_in: Any) -> dict[str, Any]:
    few = len(places_in) <= 300
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "sample",
        "x": np.arange(len(places_in)),
        "y": places_in,
        "marker": {"size": 6 if few else 4, "color": style.READY_LINE, "opacity": 0.9},
        "hovertemplate": "went in at %{y}<br>came out at %{x}<extra></extra>",
    }


def _diagonal(n: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "in place",
        "x": [0, n - 1],
        "y": [0, n - 1],
        "line": {"width": 1.5, "dash": "dot", "color": style.QUIET},
        "hoverinfo": "skip",
    }
