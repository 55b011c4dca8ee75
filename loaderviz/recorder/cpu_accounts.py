"""What the kernel books of a worker: CPU time of all its threads, waiting for a CPU, throttling."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from time import process_time_ns

from loaderviz import machine

LEAST_NS = 500_000  # a shorter batch is not worth the two system calls


class CpuAccounts:
    """Differences from one look to the next; made and asked by the thread that makes batches.

    The line for a CPU is the second number of ``/proc/self/task/<tid>/schedstat`` (Linux,
    Documentation/scheduler/sched-stats.rst): nanoseconds that the thread was ready and not running.
    """

    def __init__(self) -> None:
        self._queue_fd = self._throttling_fd = -1
        with suppress(OSError, AttributeError):  # another system, or a kernel without these
            self._queue_fd = _open(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._process_ns, self._queued_ns = self._look()
        self._throttled_ns = 0
        file = machine.throttling_file()
        if file is not None:
            with suppress(OSError, ValueError):
                fd = _open(file)
                self._throttled_ns = _throttled_ns(fd)
                self._throttling_fd = fd

    def since_last(self, took_ns: int) -> tuple[int, int, int]:
        """CPU time of the process, time in line and throttled time since the last look, in ns.

        One more each, as a record has it, where 0 is "not known".
        """
        process_ns, queued_ns = self._look()
        process = process_ns - self._process_ns + 1
        queued = min(queued_ns - self._queued_ns, took_ns) + 1 if self._queue_fd >= 0 else 0
        self._process_ns, self._queued_ns = process_ns, queued_ns
        if self._throttling_fd < 0:
            return process, queued, 0
        throttled_ns = _throttled_ns(self._throttling_fd)
        throttled = min(throttled_ns - self._throttled_ns, took_ns) + 1
        self._throttled_ns = throttled_ns
        return process, queued, throttled

    def _look(self) -> tuple[int, int]:
        queued_ns = int(os.pread(self._queue_fd, 64, 0).split()[1]) if self._queue_fd >= 0 else 0
        return process_time_ns(), queued_ns


def _throttled_ns(fd: int) -> int:
    return machine.throttled_ns(os.pread(fd, 1024, 0))


def _open(path: str | Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
