"""Batches as they arrive and as they are handed over: what a buffer does, or fails to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderviz.course.figures.lane_figure import lane_figure
from loaderviz.figures import style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes

LANES = ("arrives", "you hand over", "in order, at once")
Handed = Sequence[tuple[int, int]]  # after how many arrivals, and which batch


def handover(arrived: Sequence[int], handed: Handed, title: str) -> Figure:
    """Draw three lanes: what arrives, what was handed over then, and what should have been.

    Args:
        arrived: the numbers of the batches, 0 to n - 1, in the order in which they arrive.
        handed: for each batch handed over, after how many arrivals, and its number.
        title: what the picture shows.
    """
    n = len(arrived)
    lanes = [[(i + 1, batch) for i, batch in enumerate(arrived)], handed, _at_once(arrived)]
    return lane_figure(
        [_boxes(lanes)],
        LANES,
        title=title,
        numbers=f"{n} batches · several in one column are handed over one right after the other",
        x_title="arrival",
        x={"range": [0.4, n + 0.6], "dtick": 1, "showgrid": False, "fixedrange": True},
    )


def _at_once(arrived: Sequence[int]) -> Handed:
    """Each batch in its turn, as soon as it and all before it have arrived."""
    place = {batch: i + 1 for i, batch in enumerate(arrived)}
    free_after = np.maximum.accumulate([place[batch] for batch in range(len(arrived))])
    return [(int(after), batch) for batch, after in enumerate(free_after)]


def _boxes(lanes: list[Any]) -> dict[str, Any]:
    """One box for each batch in each lane; those of one arrival share its column."""
    rows = []
    for lane, handed in enumerate(lanes):
        together = Counter(after for after, _ in handed)
        before: Counter[int] = Counter()
        for after, batch in handed:
            width = 0.94 / together[after]
            rows.append((after - 0.47 + before[after] * width, width, lane, batch))
            before[after] += 1
    starts, widths, y, batches = map(np.array, zip(*rows, strict=True))
    return boxes.bars(
        "batch", starts, starts + widths, y, thickness=0.78, fill=style.batch_codes(batches),
        hover=(f"batch {batch}" for batch in batches), insidetextanchor="middle",
        **boxes.number_labels(batches, 13),
    )  # fmt: skip
