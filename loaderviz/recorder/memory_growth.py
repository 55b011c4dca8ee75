"""Whether the memory of those who read grows until none is left, told while there is time."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from loaderviz.why.level_changes import FEWEST_IN_BLOCK

MOST_BEFORE: Final = 60  # windows that are looked at: an hour of minutes
PARTS: Final = 3  # of them: of two, one step up would do; a leak is higher in each


class RunningOut(NamedTuple):
    """What grows: bytes a second that are held more, and free less, and seconds until none is."""

    held_per_s: float
    lost_per_s: float
    left_s: float


class MemoryGrowth:
    """The memory of one loader's processes, window by window, and what is free."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=MOST_BEFORE)

    def note(self, end_s: float, used_bytes: float, free_bytes: float) -> RunningOut | None:
        """Note the next window.

        None unless, in each third of the windows, more is held and less is free than ever before:
        what is held counts pages of mapped files, which the system takes back. None, too, where
        there is more time than these windows span: a cache that fills up is not told, unless it
        fills the machine.
        """
        if used_bytes > 0:
            self._seen.append((end_s, used_bytes, -free_bytes))
        if len(self._seen) < PARTS * FEWEST_IN_BLOCK:
            return None
        parts = np.array_split(np.array(self._seen), PARTS)
        if not (_rises(parts, 1) and _rises(parts, 2)):
            return None
        first, last = np.median(parts[0], axis=0), np.median(parts[-1], axis=0)
        held_per_s, lost_per_s = (last - first)[1:] / (last[0] - first[0])
        left_s = max(free_bytes, 0.0) / lost_per_s
        spans_s = self._seen[-1][0] - self._seen[0][0]
        return RunningOut(held_per_s, lost_per_s, left_s) if left_s <= spans_s else None

    @property
    def since_s(self) -> float:
        """When the windows that were looked at begin."""
        return self._seen[0][0] if self._seen else 0.0


def _rises(parts: list[Any], column: int) -> bool:
    """Whether each part lies above the one before."""
    return all(
        after[:, column].min() > before[:, column].max() for before, after in pairwise(parts)
    )
