"""The look that all figures share: palette, type, and the layout they start from.

The colours of marks are legible on white and on black; only text, grid and background differ by
theme. Where our script runs (``adopt_figures.js``), the background is transparent and the rest
follows the page's theme. Where it does not run, as in a notebook that somebody else sent, the
figure has a background of its own that its text is legible on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from loaderviz.errors import LoaderVizError

ThemeName = Literal["light", "dark"]

# Warm colours are trouble, and no batch has one: vermillion is waiting, amber is too often, red is
# failed or missing. Batches have Okabe and Ito's other hues and, in place of the yellow, which is
# not seen on white, lime, plum and olive; in this order the colour-blind tell neighbours apart too.
BLUE, LIME, PINK, PLUM = "#0072b2", "#a3b135", "#cc79a7", "#9b3f9b"
OLIVE, SKY, GREEN = "#7c8420", "#56b4e9", "#009e73"
AMBER = "#e69f00"
# Fill and the colour of text on it.
PALETTE = (
    (BLUE, "#ffffff"),
    (LIME, "#1b1f24"),
    (PINK, "#1b1f24"),
    (PLUM, "#ffffff"),
    (OLIVE, "#ffffff"),
    (SKY, "#1b1f24"),
    (GREEN, "#ffffff"),
)
SERIES = BLUE, GREEN, PLUM, PINK
OTHER_SHADE = 0.28  # how far every second sample in a batch is moved away from its ink
PLUM_FILL = "rgba(155, 63, 155, 0.35)"
WAIT = "#d55e00"
WAIT_FILL = "rgba(213, 94, 0, 0.16)"
WAIT_LINE = "rgba(213, 94, 0, 0.55)"
QUIET = "#7d8590"  # start-up, collate: legible on white and on black
BUSY = "#5b9bc8"  # a zoomed-out lane, where batches have no colour of their own
FAILED = "#c1121f"
READY_LINE = "#3a87c2"
READY_FILL = "rgba(58, 135, 194, 0.18)"
EDGE = "rgba(255, 255, 255, 0.9)"
TRANSPARENT = "rgba(0, 0, 0, 0)"
TITLE_PX, AXIS_PX = 70, 50  # of title and subtitle; of the numbers and the title of an axis of time
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Theme:
    """The colours that differ between a light and a dark page, as CSS writes them."""

    text: str
    muted: str
    grid: str
    paper: str


THEMES: dict[ThemeName, Theme] = {
    "light": Theme("#1f2328", muted="#59636e", grid="rgba(31, 35, 40, 0.10)", paper="#ffffff"),
    "dark": Theme("#e6e8eb", muted="#9aa4af", grid="rgba(230, 232, 235, 0.13)", paper="#111111"),
}


def colour(batch: int) -> str:
    """The fill of a batch, a series or a lane, by its number; the palette repeats."""
    return PALETTE[batch % len(PALETTE)][0]


def text_on(batch: int) -> str:
    """The colour of text that is legible on ``colour(batch)``."""
    return PALETTE[batch % len(PALETTE)][1]


def series(number: int) -> str:
    """The colour of a line by its number, legible on white and on black; they repeat."""
    return SERIES[number % len(SERIES)]


def _other_shade(fill: str, ink: str) -> str:
    """Darker where the text is white, else lighter: a number that lies over both is legible."""
    end = 0 if ink == "#ffffff" else 255
    channels = (int(fill[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(value + (end - value) * OTHER_SHADE):02x}" for value in channels)


# All colours of boxes. A colour's code is its position in here: boxes are computed with codes,
# which become colours when they go to plotly.
COLOURS = (
    *(fill for fill, _ in PALETTE),
    *(_other_shade(fill, ink) for fill, ink in PALETTE),
    *(WAIT, WAIT_LINE, QUIET, EDGE, TRANSPARENT),
)
_COLOUR_OF_CODE = np.array(COLOURS, object)


def code_of(colour: str) -> int:
    """The code of one of ``COLOURS``."""
    return COLOURS.index(colour)


def colours_of(codes: Any) -> list[str]:
    """The colour of each code in an integer array."""
    colours: list[str] = _COLOUR_OF_CODE[codes].tolist()
    return colours


def batch_codes(batch: Any, position: Any = 0) -> Any:
    """The colour code (int8) of each batch, or of each sample in it.

    Every second position in a batch has another shade, so that samples can be counted.
    """
    other_shade = np.asarray(position) % 2 * len(PALETTE)
    return (np.asarray(batch) % len(PALETTE) + other_shade).astype(np.int8)


# In place of plotly's default template, which is long, and which a user may have replaced.
TEMPLATE = {
    "layout": {
        "hoverlabel": {"align": "left"},
        **{axis: {"automargin": True, "ticks": ""} for axis in ("xaxis", "yaxis")},
    }
}


def theme(name: str) -> Theme:
    """The colours of the theme with this name.

    Raises:
        LoaderVizError: for a name that is not in ``THEMES``.
    """
    for known_name, colours in THEMES.items():
        if known_name == name:
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
    """A layout with title and subtitle, without frame and legend.

    Args:
        theme: the colours of text and grid.
        title: the verdict.
        numbers: the subtitle: the numbers that the verdict rests on.
        height: of the whole figure, in pixels.
        margins: left, right, top and bottom, in pixels.
        lanes: the names of the lanes, from top to bottom.
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
