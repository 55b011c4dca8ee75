"""Samples along an axis, and the strip that counts how often each of them came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loaderviz.figures import style

if TYPE_CHECKING:
    import pandas as pd

MOST_SAMPLES = 240  # past it a column stands for several samples
LEAST = 0.12  # of a column's height: what is there is seen, however little it is
LEAST_HOLE, LEAST_WIDTH = 0.4, 0.005  # of the height, of the axis: what is missing is seen first
TWICE, NEVER = "#e69f00", style.FAILED


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
    """How often samples came: once is quiet, more stands out above it, never is red."""
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
    hole = np.where(never > 0, np.clip(never / width, LEAST_HOLE, 1), 0)
    more = np.where(twice > 0, np.maximum((times - there) / width, LEAST), 0)
    marks = (
        ("once", 0 * hole, np.minimum(there / width, 1 - hole), width, style.QUIET),
        ("twice", 0 * hole + 1, more, width, TWICE),
        ("never", 1 - hole, hole, np.maximum(width, LEAST_WIDTH * columns.n), NEVER),
    )
    return [_upright(columns, told, *mark) for mark in marks]


def _upright(
    columns: Columns, told: list[str], kind: str, base: Any, tall: Any, width: Any, fill: str
) -> dict[str, Any]:
    shown = np.flatnonzero(tall > 0)
    edge = (1, style.EDGE) if len(columns) <= 60 else (0.6, fill)
    return {
        "type": "bar",
        "name": kind,
        "x": columns.middle[shown],
        "y": tall[shown],
        "base": base[shown],
        "width": width[shown],
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
    return {0: "never arrived", 1: "came once", 2: "came twice"}.get(times, f"came {times} times")
