"""What the kernel books of a worker: CPU time, also of children, waiting for a CPU, throttling."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import process_time_ns

from loaderviz import machine
from loaderviz.own_errors import own_errors

LEAST_NS = 500_000  # a shorter batch is not worth the system calls


class CpuAccounts:
    """Differences from one look to the next; made and asked by the thread that makes batches.

    The line for a CPU is the second number of ``/proc/self/task/<tid>/schedstat`` (Linux,
    Documentation/scheduler/sched-stats.rst): nanoseconds that the thread was ready and not running.
    """

    def __init__(self) -> None:
        thread = threading.get_native_id()
        self._queued = _Book(Path(f"/proc/self/task/{thread}/schedstat"), _second_number)
        self._throttled = _Book(machine.throttling_file(), machine.throttled_ns)
        self._process_ns = process_time_ns()
        self._children_ns = machine.children_cpu_ns()

    def begin(self) -> None:
        """A batch begins: what its thread has waited for a CPU until now is not the batch's."""
        self._queued.added()

    def since_last(self, took_ns: int) -> tuple[int, int, int, int]:
        """CPU time, time in line, throttled time and children's CPU time since the last look: ns.

        Time in line: since the batch began, where ``begin`` was called then.

        CPU time is that of the process and of its children, such as a decoder that a sample starts,
        as far as it has waited for them.
        One more each, as a record has it, where 0 is "not known".
        """
        # First of all: to ask for a CPU time is where the kernel notes that a slice is over, and
        # the wait that then begins is no more the batch's (kernel/sched, ``task_sched_runtime``).
        queued_ns, throttled_ns = self._queued.added(), self._throttled.added()
        before_ns, self._process_ns = self._process_ns, process_time_ns()
        booked_ns, self._children_ns = self._children_ns, machine.children_cpu_ns()
        children_ns = self._children_ns - booked_ns
        return (
            self._process_ns - before_ns + children_ns + 1,
            0 if queued_ns is None else min(queued_ns, took_ns) + 1,
            0 if throttled_ns is None else min(throttled_ns, took_ns) + 1,
            children_ns + 1,
        )


class _Book:
    """A number that the kernel counts up in a file."""

    def __init__(self, path: Path | None, parse: Callable[[bytes], int]) -> None:
        self._fd, self._parse, self._count = -1, parse, 0
        try:
            if path is not None:
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except own_errors(OSError, AttributeError):
            pass  # another system, or a kernel that does not count this
        self.added()

    def added(self) -> int | None:
        """What was added since it was asked last; None where that is not known."""
        if self._fd < 0:
            return None
        before = self._count
        try:
            self._count = self._parse(os.pread(self._fd, 1024, 0))
        except own_errors(OSError, ValueError, IndexError):  # the user's code has closed it, say
            self._fd = -1
            return None
        return self._count - before


def _second_number(text: bytes) -> int:
    return int(text.split()[1])
