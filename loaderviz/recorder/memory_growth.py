"""Whether the memory of those who read grows until none is left, told while there is time."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from loaderviz.why.level_changes import FEWEST_IN_BLOCK

MOST_BEFORE: Final = 60  # windows that are looked at
PARTS: Final = 3  # of them, each of which lies above the one before


class MemoryGrowth:
    """The memory of one loader's processes, window by window."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=MOST_BEFORE)

    def note(
        self, end_s: float, used_bytes: float, free_bytes: float
    ) -> tuple[float, float] | None:
        """Note the next window; returns bytes a second, and the seconds until none is free.

        None where it does not grow in each third of the windows, or where there is more time than
        these windows span: a cache that fills up is not told, unless it fills the machine.
        """
        if used_bytes > 0:
            self._seen.append((end_s, used_bytes))
        if len(self._seen) < PARTS * FEWEST_IN_BLOCK:
            return None
        parts = np.array_split(np.array(self._seen), PARTS)
        lows, highs = ([pick(part[:, 1]) for part in parts] for pick in (np.min, np.max))
        if any(low <= high for low, high in zip(lows[1:], highs, strict=False)):
            return None
        first, last = np.median(parts[0], axis=0), np.median(parts[-1], axis=0)
        per_s = float((last[1] - first[1]) / (last[0] - first[0]))
        left_s = max(free_bytes, 0.0) / per_s
        return (per_s, left_s) if left_s <= self._seen[-1][0] - self._seen[0][0] else None

    @property
    def since_s(self) -> float:
        """When the windows that were looked at begin."""
        return self._seen[0][0] if self._seen else 0.0
