"""Samples along the x axis, and the strip that shows how often each of them was delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loaderviz.figures import style

if TYPE_CHECKING:
    import pandas as pd

MOST_SAMPLES = 240  # past it a column stands for several samples
MOST_EDGED = 60  # past it columns are too narrow for edges
LEAST_HEIGHT = 0.12  # of a column: a smaller share would not be seen
LEAST_WIDTH = 0.007  # of the axis, for missing samples: they have to be seen first
TWICE, NEVER = style.AMBER, "#e5383b"  # the red stands out on white and on black
HOLE = "rgba(229, 56, 59, 0.16)"
HOLE_AMONG_OTHERS = "#ffe3e3"  # opaque: it covers the grey of the column's delivered samples
CELL_HEIGHT = 0.26  # of a cell at 0, as a part of the strip's height above 0
ROOM_BELOW = 0.18  # below 0, as a part of the same height


class Columns(NamedTuple):
    """How samples lie on the x axis: ``size`` of them make a column, the last may be smaller."""

    n: int  # samples
    size: int

    @classmethod
    def for_samples(cls, n: int) -> Columns:
        """At most ``MOST_SAMPLES`` columns for ``n`` samples."""
        return cls(n, -(-n // MOST_SAMPLES))

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def counts(self, samples: Any) -> Any:
        """How many of these samples (an array of their numbers) lie in each column, (columns,)."""
        column = np.asarray(samples, np.int64) // self.size
        return np.bincount(column, minlength=len(self))

    @property
    def start(self) -> Any:
        """The first sample of each column, (columns,)."""
        return np.arange(len(self)) * self.size

    @property
    def width(self) -> Any:
        """How many samples each column stands for, (columns,)."""
        return np.minimum(self.size, self.n - self.start)

    @property
    def middle(self) -> Any:
        """The middle of each column on the x axis, in samples, (columns,)."""
        return self.start + (self.width - 1) / 2

    def name(self, column: int) -> str:
        """Which samples a column stands for, in words."""
        first, last = int(self.start[column]), int(self.start[column] + self.width[column] - 1)
        return f"sample {first:,}" if first == last else f"samples {first:,} to {last:,}"


def strip(
    columns: Columns, deliveries: pd.DataFrame, missing: pd.DataFrame
) -> list[dict[str, Any]]:
    """The plotly traces of the strip: bars as tall as samples were delivered often.

    A sample's first delivery is grey, further ones above it stand out; a red cell at 0 stands for a
    missing sample. ``deliveries`` and ``missing`` have a column ``sample``.
    """
    width = columns.width
    times = columns.counts(deliveries["sample"])
    times_of_sample = np.bincount(deliveries["sample"], minlength=columns.n)
    n_delivered = columns.counts(np.flatnonzero(times_of_sample))
    n_repeated = columns.counts(np.flatnonzero(times_of_sample > 1))
    n_missing = columns.counts(missing["sample"])
    hover = [
        f"{columns.name(column)}<br>{_hover_text(columns, *map(int, counts))}"
        for column, counts in enumerate(zip(times, n_missing, n_repeated, strict=True))
    ]
    repeats = np.where(n_repeated > 0, np.maximum((times - n_delivered) / width, LEAST_HEIGHT), 0)
    cell_height = CELL_HEIGHT * strip_top(columns, deliveries)
    return [
        _upright_bars(columns, hover, "once", 0, n_delivered / width, style.QUIET),
        _upright_bars(columns, hover, "twice", 1, repeats, TWICE),
        _missing_cells(columns, hover, n_missing, cell_height),
    ]


def strip_top(columns: Columns, deliveries: pd.DataFrame) -> int:
    """How far the strip's axis reaches: at least 2, and as often as any sample was delivered.

    It is 2 where a column stands for several samples.
    """
    if columns.size > 1:
        return 2
    return max(2, int(np.bincount(deliveries["sample"], minlength=1).max()))


def _upright_bars(
    columns: Columns, hover: list[str], kind: str, base: int, height: Any, fill: str
) -> dict[str, Any]:
    shown = np.flatnonzero(height > 0)
    edge = (1, style.EDGE) if len(columns) <= MOST_EDGED else (0.6, fill)
    return _bars(columns, hover, kind, shown, columns.width[shown], fill, edge) | {
        "y": height[shown],
        "base": np.full(len(shown), base),
    }


def _missing_cells(
    columns: Columns, hover: list[str], n_missing: Any, height: float
) -> dict[str, Any]:
    """Hollow cells with their middle at 0: these samples were delivered 0 times."""
    shown = np.flatnonzero(n_missing)
    few = len(columns) <= MOST_EDGED
    width = np.maximum(columns.width[shown] * (0.8 if few else 1), LEAST_WIDTH * columns.n)
    fill = HOLE if columns.size == 1 else HOLE_AMONG_OTHERS
    edge = (2 if few or columns.size > 1 else 1, NEVER)
    return _bars(columns, hover, "never", shown, width, fill, edge) | {
        "y": np.full(len(shown), height),
        "base": np.full(len(shown), -height / 2),
    }


def _bars(
    columns: Columns, hover: list[str], kind: str, shown: Any, width: Any, fill: str,
    edge: tuple[float, str],
) -> dict[str, Any]:  # fmt: skip
    """``shown``: the columns that get a bar; ``edge``: its width in pixels and its colour."""
    edge_px, edge_colour = edge
    return {
        "type": "bar",
        "name": kind,
        "x": columns.middle[shown],
        "width": width,
        "yaxis": "y2",
        "marker": {
            "color": [fill] * len(shown),
            "line": {"width": edge_px, "color": [edge_colour] * len(shown)},
        },
        "customdata": [int(column) for column in shown],
        "hovertext": [hover[column] for column in shown],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _hover_text(columns: Columns, times: int, n_missing: int, n_repeated: int) -> str:
    if columns.size > 1:
        repeated = f", {n_repeated:,} samples more than once" if n_repeated else ""
        never = f"<br>{n_missing:,} never arrived" if n_missing else ""
        return f"{times:,} came{repeated}{never}"
    words = {0: "came 0 times: it never arrived", 1: "came once", 2: "came twice"}
    return words.get(times, f"came {times} times")
