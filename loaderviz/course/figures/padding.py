"""Padded batches: how much of each is data and how much is padding, for several ways to batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from loaderviz.course.figures.lane_figures import AXIS_PX, RIGHT_PX
from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.text import percent

WAY_PX, NAME_PX, TITLE_PX, LEFT_PX = 150, 34, 66, 70
PADDING = "rgba(125, 133, 144, 0.45)"  # no batch's colour, and not hatched: that is waiting


def padding(ways: Mapping[str, Iterable[Any]]) -> Figure:
    """Draw a bar for each padded batch: its data, and above it, grey, its padding.

    Args:
        ways: by name, the batches of each way to make them: tensors of shape (sequences, longest),
            in which 0 is padding. The ways are drawn below one another, on the same axes.

    Raises:
        LoaderVizError: for no way, and a way without a batch.
    """
    batches_of = {name: list(batches) for name, batches in ways.items()}
    if not batches_of or not all(batches_of.values()):
        raise LoaderVizError("there is no batch to look at: give at least one way, and its batches")
    n_numbers = {name: np.array([each.numel() for each in of]) for name, of in batches_of.items()}
    n_data = {
        name: np.array([int((each != 0).sum()) for each in of]) for name, of in batches_of.items()
    }
    shares = [f"{percent(1 - n_data[each].sum() / n_numbers[each].sum())} {each}" for each in ways]
    colours, n_ways = style.theme("light"), len(ways)
    layout = style.layout(
        colours,
        title=f"Padding: {', '.join(shares)}",
        numbers="a bar is a batch · coloured: data · grey: padding",
        height=TITLE_PX + AXIS_PX + n_ways * (WAY_PX + NAME_PX),
        margins=(LEFT_PX, RIGHT_PX, TITLE_PX, AXIS_PX),
    )
    top = 1.05 * max(each.max() for each in n_numbers.values())
    layout |= {
        "barmode": "stack",
        "bargap": 0.15,
        "xaxis": axes.axis(
            colours, "batches, in the order in which they come",
            range=[-0.6, max(map(len, batches_of.values())) - 0.4], showgrid=False,
            anchor=f"y{n_ways if n_ways > 1 else ''}", fixedrange=True,
        ),
        "annotations": [],
    }  # fmt: skip
    marks = []
    for number, (name, batches) in enumerate(batches_of.items()):
        suffix = str(number + 1) if number else ""
        bottom = 1 - (number + 1) / n_ways
        bars_end = bottom + WAY_PX / (WAY_PX + NAME_PX) / n_ways
        layout[f"yaxis{suffix}"] = axes.axis_from_zero(
            colours, top, "tokens, with padding", domain=[bottom, bars_end], fixedrange=True
        )
        layout["annotations"].append(_caption(name, batches, bars_end))
        marks += _bars(name, batches, n_data[name], f"y{suffix}")
    return Figure.unchecked(marks, layout)


def _caption(name: str, batches: list[Any], height: float) -> dict[str, Any]:
    """The name of a way and its batches' sizes, above its bars."""
    least, most = (choose(map(len, batches)) for choose in (min, max))
    size = f"{most}" if least == most else f"{least} to {most}"
    total = sum(each.numel() for each in batches)
    sequences = f"{name}: {len(batches)} batches of {size} sequences"
    return {
        "text": f"{sequences} · {total:,} tokens, with padding",
        "x": 0, "xref": "paper", "xanchor": "left",
        "y": height, "yref": "paper", "yanchor": "bottom",
        "showarrow": False,
    }  # fmt: skip


def _bars(name: str, batches: list[Any], n_data: Any, axis: str) -> list[dict[str, Any]]:
    n_padding = np.array([each.numel() for each in batches]) - n_data
    hover = [
        f"{name}, batch {i}: {len(each)} sequences, {each.shape[1]} long<br>{n_zeros:,} of "
        f"{each.numel():,} tokens are padding"
        for i, (each, n_zeros) in enumerate(zip(batches, n_padding, strict=True))
    ]
    return [
        {
            "type": "bar", "name": kind, "x": np.arange(len(batches)), "y": height, "yaxis": axis,
            "marker": {"color": [colour] * len(batches)}, "hovertext": hover,
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        for kind, height, colour in (
            ("data", n_data, style.colour(0)),
            ("padding", n_padding, PADDING),
        )
    ]  # fmt: skip
