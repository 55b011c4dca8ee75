"""CPUs that all who compute share evenly: processor sharing, the model of a fair scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

Then = Callable[[], None]


class SharedCpus:
    """The time, and the processes that compute; all times are in seconds.

    Each computes one thing at a time, and says what follows. While more threads compute than there
    are CPUs, each gets the same part of them (L. Kleinrock, Time-shared systems, J. ACM 14, 1967).
    Who runs where, and for how long in turn, is not modelled.
    """

    def __init__(self, cores: float) -> None:
        self.now = 0.0
        self._cores = cores
        self._work = 0.0  # that one who computed all the time has done
        self._threads = 0.0  # that compute
        self._ends: list[tuple[float, int, Then, float]] = []  # work, tie, and then; threads
        self._n = 0  # breaks ties: first come, first served

    @property
    def rate(self) -> float:
        """Seconds of work that each thread gets done in a second."""
        return 1.0 if self._threads <= self._cores else self._cores / self._threads

    def compute(self, then: Then, seconds: float, threads: float = 1.0) -> None:
        """Somebody begins to compute in so many threads at once, for ``seconds`` if alone."""
        self._n += 1
        self._threads += threads
        heappush(self._ends, (self._work + seconds, self._n, then, threads))

    def next_s(self) -> float:
        """When the next one is done; infinite where none computes."""
        if not self._ends:
            return math.inf
        return self.now + max(self._ends[0][0] - self._work, 0.0) / self.rate

    def go_to(self, at_s: float) -> None:
        """Let time go on to a moment at which none is done yet."""
        self._work += (at_s - self.now) * self.rate
        self.now = at_s

    def finish(self) -> Then:
        """Let time go on until the next one is done, and return what it does then."""
        self.now = self.next_s()
        self._work, _, then, threads = heappop(self._ends)
        self._threads = self._threads - threads if self._ends else 0.0  # no rounding piles up
        return then
