"""Padded batches: how much of each is data, and how much is filling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines.consumer_marks import HATCH
from loaderviz.text import percent

HEIGHT = 300


def filling(batches: Iterable[Any], *, theme: style.ThemeName = "light") -> Figure:
    """Draw a bar for each padded batch: its data below, what fills it up above, hatched.

    Args:
        batches: tensors of shape (sequences, longest); 0 is filling.
        theme: text and grid for a light or a dark page.

    Raises:
        LoaderVizError: for no batch.
    """
    kept = list(batches)
    if not kept:
        raise LoaderVizError("there is no batch to look at: give a list of batches")
    many, longest = (np.array([batch.shape[axis] for batch in kept]) for axis in (0, 1))
    data = np.array([int((batch != 0).sum()) for batch in kept])
    empty = many * longest - data
    share = empty.sum() / (many * longest).sum()
    look = style.theme(theme)
    layout = style.layout(
        look,
        title=f"{percent(share)} of all that is sent is filling",
        numbers=f"{len(kept)} batches · {many.sum()} sequences · {many.min()} to {many.max()} in a "
        f"batch · {many.dot(longest):,} numbers, {empty.sum():,} of them filling",
        height=HEIGHT,
        margins=(70, 22, 80, 56),
    )
    layout |= {
        "barmode": "stack",
        "bargap": 0.15,
        "xaxis": axes.axis(look, "batch", None, showgrid=False),
        "yaxis": axes.axis(look, "numbers", None, nticks=5),
    }
    hover = [
        f"batch {i}: {n} sequences, {long} long<br>{none:,} of {n * long:,} numbers are filling"
        for i, (n, long, none) in enumerate(zip(many, longest, empty, strict=True))
    ]
    marks = [
        ("data", data, {"color": [style.colour(0)] * len(kept)}),
        ("filling", empty, {"color": [style.WAIT] * len(kept), "pattern": HATCH}),
    ]
    return Figure(
        data=[
            {
                "type": "bar", "name": name, "x": np.arange(len(kept)), "y": tall, "marker": marker,
                "hovertext": hover, "hovertemplate": "%{hovertext}<extra></extra>",
            }
            for name, tall, marker in marks
        ],
        layout=layout,
    )  # fmt: skip
