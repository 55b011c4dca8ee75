"""Which of overlapping slices can share a lane: those that lie one inside another, or apart.

A viewer draws a lane as a stack: a slice that begins inside another one and outlives it has no
place there, and Perfetto leaves it out.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def sublanes(lane: Any, start: Any, end: Any) -> Any:
    """For each slice the number of a sublane of its lane, mostly 0, in which all slices nest.

    Takes the slices' lanes, starts and ends as int arrays of shape (n,), and returns one.
    """
    numbers = np.zeros(len(start), np.int64)
    order = np.lexsort((-end, start, lane))
    same_lane = lane[order][1:] == lane[order][:-1]
    crowded = lane[order][1:][same_lane & (start[order][1:] < end[order][:-1])]
    for crowded_lane in np.unique(crowded):
        rows = order[lane[order] == crowded_lane]
        numbers[rows] = _stack_numbers(start[rows].tolist(), end[rows].tolist())
    return numbers


def fitting(start: Any, end: Any, others_start: Any, others_end: Any) -> Any:
    """For each slice, whether it lies apart from, inside or around each of the others.

    The others do not overlap. Times are int arrays; returns a bool array as long as ``start``.
    """
    if not len(others_start):
        return np.ones(len(start), bool)
    order = np.argsort(others_start, kind="stable")
    starts, ends = others_start[order], others_end[order]

    def last_before(moments: Any) -> tuple[Any, Any]:
        """Start and end of the last of the others that began before each moment."""
        last = np.searchsorted(starts, moments) - 1
        exists = last >= 0
        return np.where(exists, starts[last], moments), np.where(exists, ends[last], moments)

    _, end_at_start = last_before(start)
    start_at_end, end_at_end = last_before(end)
    outlives = (start < end_at_start) & (end > end_at_start)
    cuts_in = (end < end_at_end) & (start < start_at_end)
    return ~(outlives | cuts_in)


def _stack_numbers(starts: list[int], ends: list[int]) -> list[int]:
    """The number of the stack for each slice; they come sorted by start, the longer first."""
    stacks: list[list[int]] = []  # of each sublane, the ends of the slices that are open

    def place(start: int, end: int) -> int:
        for number, open_ends in enumerate(stacks):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if not open_ends or end <= open_ends[-1]:
                open_ends.append(end)
                return number
        stacks.append([end])
        return len(stacks) - 1

    return [place(start, end) for start, end in zip(starts, ends, strict=True)]
