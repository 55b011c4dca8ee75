"""The figure of a mixing: each sample's place in the source against its place in the run."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.text import count, percent

if TYPE_CHECKING:
    from loaderviz._audit.mixing_result import Mixing

MOST_DOTS = 8000  # samples that are drawn one by one
MOST_CELLS = 160  # across, in which more samples are counted
IN_A_CELL = 4  # samples, in the middle: of fewer, chance would make a pattern
HEIGHT_PX, TITLE_PX, AXIS_PX = 460, 86, 56
MOST_COLOURS = len(style.PALETTE)  # of more workers, no colour would tell which it is
FULL = 4.0  # times as many samples as a shuffle puts in a cell: the cell is opaque
LEAST_OPACITY = 0.12


def draw(mixing: Mixing, theme: style.ThemeName) -> Figure:
    """Draw a dot for each sample, or where there are many, how many lie in each cell.

    The line joins the mean places of the tenths of the run. In the order of the source the samples
    lie on the diagonal; a shuffle fills the square, and its line is level.

    Raises:
        LoaderVizError: for an unknown theme.
    """
    colours = style.theme(theme)
    fills = _fills(mixing)
    names = [mixing.lane_name(lane) for lane in mixing.workers.index]
    labels = names if len(fills) > 1 else []
    right_px = 22 + max((24 + 7 * len(name) for name in labels), default=0)
    layout = style.layout(
        colours,
        title=mixing.verdict,
        numbers=mixing.numbers,
        height=HEIGHT_PX,
        margins=(76, right_px, TITLE_PX, AXIS_PX),
    )
    n = len(mixing.order)
    range_of_axis = [-0.01 * n - 0.5, 1.01 * n - 0.5]
    options: dict[str, Any] = {"range": range_of_axis, "tickformat": ",d", "scaleanchor": False}
    layout |= {
        "xaxis": axes.axis(colours, "place in the run", **options),
        "yaxis": axes.axis(colours, "place in the source", 8, **options),
        "annotations": _names_of_lanes(labels, fills),
    }
    marks = _dots(mixing, fills, names) if n <= MOST_DOTS else [_cells(mixing, fills)]
    return Figure.unchecked([*marks, _means(mixing, colours)], layout)


def _fills(mixing: Mixing) -> list[str]:
    """The colour of each worker; a single one where there are too many."""
    n = len(mixing.workers)
    return [style.colour(lane) for lane in range(n)] if n <= MOST_COLOURS else [style.READY_LINE]


def _names_of_lanes(names: list[str], fills: list[str]) -> list[dict[str, Any]]:
    """The workers' names beside dots in their colours, on the right."""
    return [
        axes.in_margin(
            f"<span style='color: {fills[lane]}'>●</span> {name}", 8,
            y=1, yref="paper", yanchor="top", yshift=-20 * lane, font={"size": 12},
        )
        for lane, name in enumerate(names)
    ]  # fmt: skip


def _dots(mixing: Mixing, fills: list[str], names: list[str]) -> list[dict[str, Any]]:
    size = 6 if len(mixing.order) <= 300 else 4 if len(mixing.order) <= 2000 else 3
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": (x := np.flatnonzero(mixing.lane == lane)),
            "y": mixing.order[x],
            "marker": {"size": size, "color": fills[lane % len(fills)], "opacity": 0.9},
            "hovertemplate": f"{name}<br>place %{{x:,}} in the run<br>"
            "place %{y:,} in the source<extra></extra>",
        }
        for lane, name in enumerate(names)
    ]


def _cells(mixing: Mixing, fills: list[str]) -> dict[str, Any]:
    """An image: a cell is as opaque as it holds samples, and has the colour of their workers."""
    n = len(mixing.order)
    across = up = min(int((n / IN_A_CELL) ** 0.5), MOST_CELLS)
    cell = mixing.order * up // n * across + np.arange(n) * across // n
    lane = mixing.lane if len(fills) > 1 else np.zeros(n, np.int16)
    counts = np.bincount(cell * len(fills) + lane, minlength=across * up * len(fills))
    counts = counts.reshape(across * up, len(fills))
    total = counts.sum(axis=1, keepdims=True)
    inks = np.array([[int(fill[i : i + 2], 16) for i in (1, 3, 5)] for fill in fills], float)
    colour = counts @ inks / np.maximum(total, 1)
    share = np.minimum(total * (across * up) / (FULL * n), 1)
    opacity = np.where(total > 0, np.maximum(share, LEAST_OPACITY), 0)
    pixels = np.concatenate([colour, 255 * opacity], axis=1).round().astype(np.uint8)
    picture = pixels.reshape(up, across, 4)
    return {
        "type": "image",
        "name": "samples",
        "source": _png(picture),
        "x0": n / across / 2 - 0.5,
        "dx": n / across,
        "y0": n / up / 2 - 0.5,
        "dy": n / up,
        "zsmooth": False,
        "hovertemplate": "place %{x:,.0f} in the run<br>place %{y:,.0f} in the source"
        "<extra></extra>",
    }


def _png(pixels: Any) -> str:
    """A PNG of these pixels, uint8 (height, width, 4), as the URL that plotly takes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)  # 8 bits each of RGBA
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _means(mixing: Mixing, colours: style.Theme) -> dict[str, Any]:
    """The mean place of each tenth of the run, joined by a line."""
    n, drift = len(mixing.order), mixing.drift
    hover = [
        f"{count(samples, 'sample')} from {percent(begins)} of the run on:<br>"
        f"their mean place is at {percent(mean)} of the source"
        for begins, samples, mean in zip(
            drift["begins_at"], drift["samples"], drift["mean_place"], strict=True
        )
    ]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "mean place",
        "x": drift["begins_at"] * n + drift["samples"] / 2 - 0.5,
        "y": drift["mean_place"] * n - 0.5,
        "line": {"width": 2, "color": style.AMBER},
        "marker": {"size": 8, "color": style.AMBER, "line": {"width": 1, "color": style.EDGE}},
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
