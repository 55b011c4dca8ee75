"""Which of overlapping slices can share a lane: those that lie one inside another, or apart.

A viewer draws a lane as a stack: a slice that begins inside another one and outlives it has no
place there, and Perfetto leaves it out.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def sublanes(lane: Any, start: Any, end: Any) -> Any:
    """For each slice the number of the sublane of its lane, mostly 0, in which all nest."""
    found = np.zeros(len(start), np.int64)
    order = np.lexsort((-end, start, lane))
    same = lane[order][1:] == lane[order][:-1]
    crowded = lane[order][1:][same & (start[order][1:] < end[order][:-1])]
    for each in np.unique(crowded):
        rows = order[lane[order] == each]
        found[rows] = _stacked(start[rows].tolist(), end[rows].tolist())
    return found


def fitting(start: Any, end: Any, others_start: Any, others_end: Any) -> Any:
    """Whether each slice lies apart from, inside or around each of the others.

    Those lie one after another.
    """
    if not len(others_start):
        return np.ones(len(start), bool)
    order = np.argsort(others_start, kind="stable")
    starts, ends = others_start[order], others_end[order]

    def last_before(moments: Any) -> tuple[Any, Any]:  # the last of the others to begin before
        at = np.searchsorted(starts, moments) - 1
        known = at >= 0
        return np.where(known, starts[at], moments), np.where(known, ends[at], moments)

    _, ended = last_before(start)
    begun, until = last_before(end)
    outlives = (start < ended) & (end > ended)
    cuts_in = (end < until) & (start < begun)
    return ~(outlives | cuts_in)


def _stacked(starts: list[int], ends: list[int]) -> list[int]:
    """Sorted by start, the longer first."""
    stacks: list[list[int]] = []  # of each sublane, the ends of the slices that are open

    def place(start: int, end: int) -> int:
        for number, stack in enumerate(stacks):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1]:
                stack.append(end)
                return number
        stacks.append([end])
        return len(stacks) - 1

    return [place(start, end) for start, end in zip(starts, ends, strict=True)]
