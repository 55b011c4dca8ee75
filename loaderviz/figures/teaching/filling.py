"""Padded batches: how much of each is data, and how much is padding ("filling")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines.consumer_marks import HATCH
from loaderviz.text import percent

HEIGHT_PX = 300


def filling(batches: Iterable[Any], *, theme: style.ThemeName = "light") -> Figure:
    """Draw a bar for each padded batch: its data below, its padding hatched above.

    Args:
        batches: tensors of shape (sequences, longest); 0 is padding.
        theme: text and grid for a light or a dark page.

    Raises:
        LoaderVizError: for no batch, or an unknown theme.
    """
    tensors = list(batches)
    if not tensors:
        raise LoaderVizError("there is no batch to look at: give a list of batches")
    n_sequences, longest = (np.array([tensor.shape[axis] for tensor in tensors]) for axis in (0, 1))
    n_data = np.array([int((tensor != 0).sum()) for tensor in tensors])
    n_filling = n_sequences * longest - n_data
    share = n_filling.sum() / (n_sequences * longest).sum()
    colours = style.theme(theme)
    layout = style.layout(
        colours,
        title=f"{percent(share)} of all that is sent is filling",
        numbers=f"{len(tensors)} batches · {n_sequences.sum()} sequences · {n_sequences.min()} to "
        f"{n_sequences.max()} in a batch · {n_sequences.dot(longest):,} numbers, "
        f"{n_filling.sum():,} of them filling",
        height=HEIGHT_PX,
        margins=(70, 22, 80, 56),
    )
    layout |= {
        "barmode": "stack",
        "bargap": 0.15,
        "xaxis": axes.axis(colours, "batch", None, showgrid=False),
        "yaxis": axes.axis(colours, "numbers", None, nticks=5),
    }
    hover = [
        f"batch {i}: {n} sequences, {length} long<br>{n_zeros:,} of {n * length:,} numbers are "
        "filling"
        for i, (n, length, n_zeros) in enumerate(zip(n_sequences, longest, n_filling, strict=True))
    ]
    marks = [
        ("data", n_data, {"color": [style.colour(0)] * len(tensors)}),
        ("filling", n_filling, {"color": [style.WAIT] * len(tensors), "pattern": HATCH}),
    ]
    return Figure(
        data=[
            {
                "type": "bar", "name": name, "x": np.arange(len(tensors)), "y": height,
                "marker": marker, "hovertext": hover,
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
            for name, height, marker in marks
        ],
        layout=layout,
    )  # fmt: skip
