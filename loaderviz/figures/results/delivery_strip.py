"""Samples along an axis, and the strip that counts how often each of them came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loaderviz.figures import style

if TYPE_CHECKING:
    import pandas as pd

MOST_SAMPLES = 240  # past it a column stands for several samples
MOST_EDGED = 60  # past it columns are too narrow for edges
LEAST = 0.12  # of a column's height: what is there is seen, however little it is
LEAST_WIDTH = 0.007  # of the axis: what is missing is seen first
TWICE, NEVER = "#e69f00", "#e5383b"  # a red that stands out on white and on black
HOLE = "rgba(229, 56, 59, 0.16)"
HOLE_AMONG_OTHERS = "#ffe3e3"  # where samples of the same column came, whose grey lies behind
CELL, BELOW = 0.26, 0.18  # of the strip's height above 0: of a cell at 0, and of the room below it


class Columns(NamedTuple):
    """How samples lie on the x axis: ``size`` of them make a column, the last may be smaller."""

    n: int
    size: int

    @classmethod
    def of(cls, n: int) -> Columns:
        return cls(n, -(-n // MOST_SAMPLES))

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def counts(self, samples: Any, weights: Any = None) -> Any:
        column = np.asarray(samples, np.int64) // self.size
        return np.bincount(column, weights, minlength=len(self))

    @property
    def start(self) -> Any:
        return np.arange(len(self)) * self.size

    @property
    def width(self) -> Any:
        return np.minimum(self.size, self.n - self.start)

    @property
    def middle(self) -> Any:
        return self.start + (self.width - 1) / 2

    def name(self, column: int) -> str:
        first, last = int(self.start[column]), int(self.start[column] + self.width[column] - 1)
        return f"sample {first:,}" if first == last else f"samples {first:,} to {last:,}"


def strip(columns: Columns, came: pd.DataFrame, missing: pd.DataFrame) -> list[dict[str, Any]]:
    """How often samples came: once is quiet, more stands out above it, never is a red cell at 0."""
    width = columns.width
    times = columns.counts(came["sample"])
    per_sample = np.bincount(came["sample"], minlength=columns.n)
    there = columns.counts(np.flatnonzero(per_sample))
    twice = columns.counts(np.flatnonzero(per_sample > 1))
    never = columns.counts(missing["sample"])
    told = [
        f"{columns.name(column)}<br>{_told(columns, *map(int, row))}"
        for column, row in enumerate(zip(times, never, twice, strict=True))
    ]
    more = np.where(twice > 0, np.maximum((times - there) / width, LEAST), 0)
    return [
        _upright(columns, told, "once", 0, there / width, style.QUIET),
        _upright(columns, told, "twice", 1, more, TWICE),
        _hollow(columns, told, never, CELL * most(columns, came)),
    ]


def most(columns: Columns, came: pd.DataFrame) -> int:
    """How far the strip reaches up: 2 times, or as often as any sample came."""
    if columns.size > 1:
        return 2
    return max(2, int(np.bincount(came["sample"], minlength=1).max()))


def _upright(
    columns: Columns, told: list[str], kind: str, base: int, tall: Any, fill: str
) -> dict[str, Any]:
    shown = np.flatnonzero(tall > 0)
    edge = (1, style.EDGE) if len(columns) <= MOST_EDGED else (0.6, fill)
    return _bars(columns, told, kind, shown, columns.width[shown], fill, edge) | {
        "y": tall[shown],
        "base": np.full(len(shown), base),
    }


def _hollow(columns: Columns, told: list[str], never: Any, tall: float) -> dict[str, Any]:
    """As many times as these samples came: its middle is at 0."""
    shown = np.flatnonzero(never)
    few = len(columns) <= MOST_EDGED
    width = np.maximum(columns.width[shown] * (0.8 if few else 1), LEAST_WIDTH * columns.n)
    fill = HOLE if columns.size == 1 else HOLE_AMONG_OTHERS
    edge = (2 if few or columns.size > 1 else 1, NEVER)
    return _bars(columns, told, "never", shown, width, fill, edge) | {
        "y": np.full(len(shown), tall),
        "base": np.full(len(shown), -tall / 2),
    }


def _bars(
    columns: Columns, told: list[str], kind: str, shown: Any, width: Any, fill: str,
    edge: tuple[float, str],
) -> dict[str, Any]:  # fmt: skip
    return {
        "type": "bar",
        "name": kind,
        "x": columns.middle[shown],
        "width": width,
        "yaxis": "y2",
        "marker": {
            "color": [fill] * len(shown),
            "line": {"width": edge[0], "color": [edge[1]] * len(shown)},
        },
        "customdata": [int(each) for each in shown],
        "hovertext": [told[each] for each in shown],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _told(columns: Columns, times: int, never: int, twice: int) -> str:
    if columns.size > 1:
        more = f", {twice:,} samples more than once" if twice else ""
        return f"{times:,} came{more}" + (f"<br>{never:,} never arrived" if never else "")
    words = {0: "came 0 times: it never arrived", 1: "came once", 2: "came twice"}
    return words.get(times, f"came {times} times")
