"""What the kernel books of a worker: CPU time of all its threads, and waiting for a CPU."""

from __future__ import annotations

import os
import threading
from time import process_time_ns

LEAST_NS = 500_000  # a shorter batch is not worth the two system calls


class CpuAccounts:
    """Differences from one look to the next; made and asked by the thread that makes batches.

    The line for a CPU is the second number of ``/proc/self/task/<tid>/schedstat`` (Linux,
    Documentation/scheduler/sched-stats.rst): nanoseconds that the thread was ready and not running.
    """

    def __init__(self) -> None:
        self._fd = -1
        try:
            path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, AttributeError):  # another system, or a kernel without these statistics
            pass
        self._process_ns, self._queued_ns = self._look()

    def since_last(self, took_ns: int) -> tuple[int, int]:
        """CPU time of the process and time in line since the last look, in ns.

        One more each, as a record has it, where 0 is "not known".
        """
        process_ns, queued_ns = self._look()
        process = process_ns - self._process_ns + 1
        queued = min(queued_ns - self._queued_ns, took_ns) + 1 if self._fd >= 0 else 0
        self._process_ns, self._queued_ns = process_ns, queued_ns
        return process, queued

    def _look(self) -> tuple[int, int]:
        queued_ns = int(os.pread(self._fd, 64, 0).split()[1]) if self._fd >= 0 else 0
        return process_time_ns(), queued_ns
