"""The axes that all figures share: a faint grid without lines, and small titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loaderviz.figures import style


def axis(
    theme: style.Theme, title: str | None = None, standoff: int | None = 10, **more: Any
) -> dict[str, Any]:
    """``standoff``: pixels between numbers and title, None for plotly's own; ``more``: plotly's."""
    titled = {"text": title, "standoff": standoff, "font": {"size": 12}}
    return {
        "gridcolor": theme.grid,
        "zeroline": False,
        "showline": False,
        **({} if title is None else {"title": titled}),
        **more,
    }


def lanes(theme: style.Theme, labels: Sequence[str], **more: Any) -> dict[str, Any]:
    """A vertical axis with a name for each lane, the first on top."""
    names = {
        "showgrid": False,
        "tickmode": "array",
        "tickvals": list(range(len(labels))),
        "ticktext": labels,
        "tickfont": {"color": theme.text},
        "ticklabelstandoff": 8,
        "range": [len(labels) - 0.5, -0.5],
        "fixedrange": True,
    }
    return axis(theme, **{**names, **more})


def from_zero(
    theme: style.Theme, top: float, title: str | None = None, **more: Any
) -> dict[str, Any]:
    """A vertical axis of amounts, up to ``top``."""
    return axis(theme, title, 6, range=[0, top], nticks=6, ticklabelstandoff=6, **more)


def names_px(labels: Sequence[str]) -> int:
    """How much room on the left the names of lanes take."""
    return 36 + 7 * max(map(len, labels))
