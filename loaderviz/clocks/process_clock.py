"""The one clock. Every time that loaderviz records is an int64 of nanoseconds read here.

``time.perf_counter_ns`` is monotonic, has the finest resolution that Python offers, and counts from
one origin for all processes of a machine (CLOCK_MONOTONIC on Linux, mach_absolute_time on macOS,
the performance counter on Windows), so times of workers and of the main process can be compared.
"""

import time
from time import perf_counter_ns as now

__all__ = ["now", "read_with_wall_clock"]

_TRIES = 5  # the process may be interrupted between two reads, for milliseconds, but not each time


def read_with_wall_clock() -> tuple[int, int]:
    """This clock and the wall clock (since 1970) at one moment, both in ns."""
    tries = [(now(), time.time_ns(), now()) for _ in range(_TRIES)]
    before_ns, wall_ns, after_ns = min(tries, key=lambda reads: reads[2] - reads[0])
    return (before_ns + after_ns) // 2, wall_ns
