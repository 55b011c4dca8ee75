"""The look that all figures share: palette, type, and the layout they start from.

The colours of marks hold on white and on black; only text, grid and background differ by theme.
Where our script runs (``adopt_figures.js``) the background is transparent and the rest follows
the page's theme. Where none runs, as in a notebook that was sent by somebody else, the figure
brings the background that its text needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from loaderviz.errors import LoaderVizError

ThemeName = Literal["light", "dark"]

# Okabe and Ito's hues, without the yellow that vanishes on white, and one violet. The second
# value is the colour of text on it.
PALETTE = (
    ("#0072b2", "#ffffff"),
    ("#e69f00", "#1b1f24"),
    ("#009e73", "#ffffff"),
    ("#cc79a7", "#1b1f24"),
    ("#56b4e9", "#1b1f24"),
    ("#d55e00", "#ffffff"),
    ("#8c6bb1", "#ffffff"),
)
LIGHTER = 0.28  # how far every second sample of a batch is moved towards white
WAIT_FILL = "rgba(213, 94, 0, 0.16)"
WAIT = "#d55e00"
WAIT_LINE = "rgba(213, 94, 0, 0.55)"
QUIET = "#7d8590"  # start-up, collate: legible on white and on black
BUSY = "#5b9bc8"  # a lane from afar, where batches have no colour of their own
FAILED = "#c1121f"
HOLE = "rgba(193, 18, 31, 0.09)"
READY_LINE = "#3a87c2"
READY_FILL = "rgba(58, 135, 194, 0.18)"
EDGE = "rgba(255, 255, 255, 0.9)"
NONE = "rgba(0, 0, 0, 0)"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Theme:
    text: str
    muted: str
    grid: str
    paper: str


THEMES: dict[ThemeName, Theme] = {
    "light": Theme("#1f2328", muted="#59636e", grid="rgba(31, 35, 40, 0.10)", paper="#ffffff"),
    "dark": Theme("#e6e8eb", muted="#9aa4af", grid="rgba(230, 232, 235, 0.13)", paper="#111111"),
}


def colour(batch: int) -> str:
    return PALETTE[batch % len(PALETTE)][0]


def text_on(batch: int) -> str:
    return PALETTE[batch % len(PALETTE)][1]


def _lighter(colour: str) -> str:
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * LIGHTER):02x}" for c in channels)


# What a box can look like: each by its position in here, until plotly gets the colours.
COLOURS = (
    *(own for own, _ in PALETTE),
    *(_lighter(own) for own, _ in PALETTE),
    *(WAIT, WAIT_LINE, QUIET, EDGE, HOLE, NONE),
)
_COLOURS = np.array(COLOURS, object)


def code(colour: str) -> int:
    return COLOURS.index(colour)


def colours(codes: Any) -> list[str]:
    found: list[str] = _COLOURS[codes].tolist()
    return found


def shades(batch: Any, position: Any = 0) -> Any:
    """The codes of batches; lighter for every second sample, so that they can be counted."""
    lighter = np.asarray(position) % 2 * len(PALETTE)
    return (np.asarray(batch) % len(PALETTE) + lighter).astype(np.int8)


# Of our own: plotly's is long, and whoever has chosen another would change figures without it.
TEMPLATE = {
    "layout": {
        "hoverlabel": {"align": "left"},
        **{axis: {"automargin": True, "ticks": ""} for axis in ("xaxis", "yaxis")},
    }
}


def theme(name: str) -> Theme:
    """Its colours. Raises LoaderVizError for a name that is none."""
    for known, colours in THEMES.items():
        if known == name:
            return colours
    raise LoaderVizError(f"theme={name!r} is not one of {', '.join(THEMES)}")


def layout(
    theme: Theme,
    *,
    title: str,
    numbers: str,
    height: int,
    margins: tuple[int, int, int, int],
    lanes: Sequence[str] = (),
) -> dict[str, Any]:
    """The verdict as title, the numbers it rests on under it, no box, no legend.

    Args:
        theme: the colours of text and grid.
        title: the verdict.
        numbers: what it rests on.
        height: of all, in pixels.
        margins: left, right, top and bottom, in pixels.
        lanes: their names, from top to bottom.
    """
    return {
        "template": TEMPLATE,
        "title": {
            "text": f"<b>{title}</b>",
            "subtitle": {"text": numbers, "font": {"size": 12, "color": theme.muted}},
            "font": {"size": 18, "color": theme.text},
            "x": 0,
            "xref": "container",
            "pad": {"l": 14, "t": 12},
            "y": 1,
            "yref": "container",
            "yanchor": "top",
        },
        "font": {"family": FONT, "size": 13, "color": theme.muted},
        "height": height,
        "margin": dict(zip("lrtb", margins, strict=True)),
        "paper_bgcolor": theme.paper,
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "barmode": "overlay",
        "hovermode": "closest",
        "dragmode": "zoom",
        "meta": {"loaderviz": {"paths": [], "lanes": list(lanes)}},
    }
