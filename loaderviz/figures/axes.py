"""The axes that all figures share: a faint grid, no axis lines, small titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loaderviz.figures import style


def axis(
    theme: style.Theme, title: str | None = None, standoff: int | None = 10, **options: Any
) -> dict[str, Any]:
    """An axis as plotly describes it.

    Args:
        theme: gives the colour of the grid.
        title: None for an axis without one.
        standoff: pixels between numbers and title; None for plotly's default.
        options: plotly's own options for an axis; they win over ours.
    """
    titled = {"text": title, "standoff": standoff, "font": {"size": 12}}
    return {
        "gridcolor": theme.grid,
        "zeroline": False,
        "showline": False,
        **({} if title is None else {"title": titled}),
        **options,
    }


def lane_axis(theme: style.Theme, labels: Sequence[str], **options: Any) -> dict[str, Any]:
    """A vertical axis that names each lane, the first on top; ``options`` are plotly's."""
    lane_options = {
        "showgrid": False,
        "tickmode": "array",
        "tickvals": list(range(len(labels))),
        "ticktext": labels,
        "tickfont": {"color": theme.text},
        "ticklabelstandoff": 8,
        "range": [len(labels) - 0.5, -0.5],
        "fixedrange": True,
    }
    return axis(theme, **{**lane_options, **options})


def axis_from_zero(
    theme: style.Theme, top: float, title: str | None = None, **options: Any
) -> dict[str, Any]:
    """A vertical axis of amounts, from 0 to ``top``; ``options`` are plotly's."""
    return axis(theme, title, 6, range=[0, top], nticks=6, ticklabelstandoff=6, **options)


def labels_px(labels: Sequence[str]) -> int:
    """The width in pixels that the names of lanes need on the left."""
    return 36 + 7 * max(map(len, labels))
