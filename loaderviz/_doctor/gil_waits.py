"""How long a thread of a worker waits for the GIL, measured by one that wakes now and then."""

from __future__ import annotations

import collections
import statistics
import threading
import time
from pathlib import Path

PAUSE_S = 0.02  # between two measures
KEPT = 64  # measures: a second or so


class GilWaits(threading.Thread):
    """Sleeps, and notes how much later than that it goes on.

    Whatever sleeps has let go of the GIL, and needs it to go on. If another thread computes in
    Python, that lets go after ``sys.getswitchinterval()`` (CPython, Python/ceval_gil.c). The time
    that this thread was ready and had no CPU (Linux) is left out.
    """

    def __init__(self) -> None:
        super().__init__(name="loaderviz", daemon=True)
        self._waits_s: collections.deque[float] = collections.deque(maxlen=KEPT)

    def run(self) -> None:
        """Measure until the process ends."""
        while True:
            self.measure()

    def measure(self) -> None:
        """Sleep once, in the thread that calls this, and note how long it waits."""
        before_s = _without_cpu_s()
        begun_s = time.perf_counter()
        time.sleep(PAUSE_S)
        late_s = time.perf_counter() - begun_s - PAUSE_S
        self._waits_s.append(late_s - (_without_cpu_s() - before_s))

    @property
    def median_s(self) -> float:
        """Of the latest waits, in seconds; NaN before the first, and where that is not known."""
        waits_s = list(self._waits_s)
        return statistics.median(waits_s) if waits_s else float("nan")


def _without_cpu_s() -> float:
    """How long this thread has been ready to run without a CPU (proc(5)); NaN elsewhere."""
    try:
        books = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text()
        return int(books.split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return float("nan")
