"""The one clock. Every time that loaderviz records is an int64 of nanoseconds read here.

``time.perf_counter_ns`` is monotonic, has the finest resolution that Python offers, and counts from
one origin for all processes of a machine (CLOCK_MONOTONIC on Linux, mach_absolute_time on macOS,
the performance counter on Windows), so that times of workers and of the main process compare.
"""

import time
from time import perf_counter_ns as now

__all__ = ["now", "pair"]


_TRIES = 5  # a process may be interrupted between two reads, for milliseconds, but not each time


def pair() -> tuple[int, int]:
    """This clock and the wall clock (ns since 1970), read together: aligns several machines."""
    tries = [(now(), time.time_ns(), now()) for _ in range(_TRIES)]
    before, wall, after = min(tries, key=lambda each: each[2] - each[0])
    return (before + after) // 2, wall
