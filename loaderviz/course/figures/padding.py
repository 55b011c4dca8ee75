"""Padded batches: how much of each is data and how much is padding, for several ways to batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.text import percent

WAY_PX, NAME_PX, TITLE_PX, AXIS_PX = 150, 34, 66, 56
PADDING = "rgba(125, 133, 144, 0.45)"  # no batch's colour, and not hatched: that is waiting


@dataclass(frozen=True)
class _Sizes:
    """The numbers in each batch of one way: all, and those that are data; int64, (batches,)."""

    n_sequences: Any
    longest: Any
    n_data: Any

    @classmethod
    def of(cls, batches: Iterable[Any]) -> _Sizes:
        tensors = list(batches)
        if not tensors:
            raise LoaderVizError("there is no batch to look at: give a list of batches")
        n_sequences, longest = (np.array([each.shape[axis] for each in tensors]) for axis in (0, 1))
        return cls(n_sequences, longest, np.array([int((each != 0).sum()) for each in tensors]))

    @property
    def n_numbers(self) -> Any:
        return self.n_sequences * self.longest

    @property
    def share(self) -> str:
        """How much of all numbers is padding."""
        return percent(1 - self.n_data.sum() / self.n_numbers.sum())

    @property
    def numbers(self) -> str:
        least, most = self.n_sequences.min(), self.n_sequences.max()
        size = f"{most}" if least == most else f"{least} to {most}"
        return f"{len(self.n_data)} batches of {size} sequences · {self.n_numbers.sum():,} numbers"


def padding(ways: Mapping[str, Iterable[Any]]) -> Figure:
    """Draw a bar for each padded batch: its data, and above it, grey, its padding.

    Args:
        ways: by name, the batches of each way to make them: tensors of shape (sequences, longest),
            in which 0 is padding. The ways are drawn below one another, on the same axes.

    Raises:
        LoaderVizError: for no way, and a way without a batch.
    """
    if not ways:
        raise LoaderVizError("there is nothing to compare: give at least one way to make batches")
    sizes = {name: _Sizes.of(batches) for name, batches in ways.items()}
    colours, n_ways = style.theme("light"), len(ways)
    layout = style.layout(
        colours,
        title="Padding: " + ", ".join(f"{each.share} {name}" for name, each in sizes.items()),
        numbers="a bar is a batch · coloured: data · grey: padding",
        height=TITLE_PX + AXIS_PX + n_ways * (WAY_PX + NAME_PX),
        margins=(70, 22, TITLE_PX, AXIS_PX),
    )
    most = max(len(each.n_data) for each in sizes.values())
    top = 1.05 * max(each.n_numbers.max() for each in sizes.values())
    share_of_bars = WAY_PX / (WAY_PX + NAME_PX)
    layout |= {
        "barmode": "stack",
        "bargap": 0.15,
        "xaxis": axes.axis(
            colours, "batches, in the order in which they come",
            range=[-0.6, most - 0.4], showgrid=False, anchor=f"y{n_ways if n_ways > 1 else ''}",
        ),
        "annotations": [],
    }  # fmt: skip
    marks = []
    for number, (name, each) in enumerate(sizes.items()):
        axis = f"y{number + 1 if number else ''}"
        bottom = 1 - (number + 1) / n_ways
        layout[axis.replace("y", "yaxis")] = axes.axis_from_zero(
            colours,
            top,
            "numbers",
            domain=[bottom, bottom + share_of_bars / n_ways],
            fixedrange=True,
        )
        layout["annotations"].append(
            _name(f"{name}: {each.numbers}", bottom + share_of_bars / n_ways)
        )
        marks += _bars(name, each, axis)
    return Figure(data=marks, layout=layout)


def _name(text: str, height: float) -> dict[str, Any]:
    """The name of a way, above its bars."""
    return {
        "text": text,
        "x": 0, "xref": "paper", "xanchor": "left",
        "y": height, "yref": "paper", "yanchor": "bottom",
        "showarrow": False,
    }  # fmt: skip


def _bars(name: str, sizes: _Sizes, axis: str) -> list[dict[str, Any]]:
    n_padding = sizes.n_numbers - sizes.n_data
    rows = zip(sizes.n_sequences, sizes.longest, n_padding, strict=True)
    hover = [
        f"{name}, batch {i}: {n} sequences, {length} long<br>{n_zeros:,} of {n * length:,} numbers "
        "are padding"
        for i, (n, length, n_zeros) in enumerate(rows)
    ]
    n_bars = len(n_padding)
    return [
        {
            "type": "bar", "name": kind, "x": np.arange(n_bars), "y": height, "yaxis": axis,
            "marker": {"color": [colour] * n_bars}, "hovertext": hover,
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        for kind, height, colour in (
            ("data", sizes.n_data, style.colour(0)),
            ("padding", n_padding, PADDING),
        )
    ]  # fmt: skip
