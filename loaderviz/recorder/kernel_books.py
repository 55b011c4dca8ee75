"""What the kernel books: of a worker for each of its batches, and of the machine for a recording.

Of a worker: CPU time, also of children, waiting for a CPU, throttling, reads, and the CPUs and
threads that it may use. Of the machine: throttling by a quota, pressure. What is not there, or is
there no more, is unknown and no error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import process_time_ns
from typing import Any

import torch

from loaderviz import machine
from loaderviz.clocks.process_clock import now
from loaderviz.own_errors import own_errors
from loaderviz.record_layout import pack_text

LEAST_NS = 500_000  # a shorter batch is not worth the system calls: some 60 us (measured)
MOST_SHARE = 0.01  # of the time of a batch: what a look at /proc/self/io may take
FEWEST_LOOKS = 16  # that show what it takes


class WorkerAccounts:
    """Differences from one batch to the next; made and asked by the thread that makes batches.

    The line for a CPU is the second number of ``/proc/self/task/<tid>/schedstat`` (Linux,
    Documentation/scheduler/sched-stats.rst): nanoseconds that the thread was ready and not running.
    """

    def __init__(self) -> None:
        thread = threading.get_native_id()
        schedstat = Path(f"/proc/self/task/{thread}/schedstat")
        self._queued = _Book(schedstat, lambda text: int(text.split()[1]))
        self._throttled = _Book(machine.throttling_file(), machine.throttled_ns)
        self._process_ns = process_time_ns()
        self._children_ns = machine.children_cpu_ns()
        self._reads = ReadAccounts()
        self._cpus: tuple[set[int], int] | None = None

    def begin(self) -> None:
        """A batch begins: what its thread has waited for a CPU until now is not the batch's."""
        self._queued.added()

    def since_last(self, took_ns: int) -> tuple[int, ...]:
        """The words of a record from ``Task.PROCESS_CPU`` on, of the batch that took so long.

        Time in line counts since the batch began, where ``begin`` was called then. CPU time is that
        of the process and of its children, such as a decoder that a sample starts, as far as it has
        waited for them. ``Task.SHAPES``, which is among the words, is 0.
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
            0,
            children_ns + 1,
            *self._reads.since_last(took_ns),
        )

    def new_cpus(self) -> tuple[int, ...] | None:
        """The fields of a ``Tag.CPUS`` record; None where nothing has changed since it was asked.

        A library may set both whenever the process first uses it.
        """
        cpus = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()
        before, self._cpus = self._cpus, (cpus, torch.get_num_threads())
        if self._cpus == before:
            return None
        return self._cpus[1], *pack_text(machine.cpu_list(cpus))


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


class ReadAccounts:
    """Differences from one look at ``/proc/self/io`` (proc(5)) to the next, one look a batch.

    ``rchar`` is what read(2) and the like have returned, be it from the page cache; what comes by a
    memory map is not in it. ``read_bytes`` is what a disk had to give, also for maps. Both are of
    the process and of children that it has waited for; some hundred bytes a batch are its queue's
    and ours.

    A look takes 1 us in a loop, some 7 us between batches (measured), and longer the more threads
    the process has. There are no more of them once most have taken over ``MOST_SHARE`` of the time
    of their batch.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._read = self._from_disk = self._looks = self._costly_looks = 0
        try:
            self._fd = os.open("/proc/self/io", os.O_RDONLY | os.O_CLOEXEC)
        except own_errors(OSError, AttributeError):
            pass  # another system, or a kernel that does not count this
        self._look()

    def since_last(self, took_ns: int) -> tuple[int, int]:
        """Bytes read since the last look, and those of them from a disk; one more each, 0: unknown.

        ``took_ns``: the batch.
        """
        if self._fd < 0:
            return 0, 0
        begun_ns = now()
        before = self._read, self._from_disk
        self._look()
        self._looks += 1
        self._costly_looks += now() - begun_ns > MOST_SHARE * took_ns
        if self._fd < 0:
            return 0, 0
        if self._looks >= FEWEST_LOOKS and 2 * self._costly_looks > self._looks:
            os.close(self._fd)  # it is still ours: it has just been read
            self._fd = -1
        return self._read - before[0] + 1, self._from_disk - before[1] + 1

    def _look(self) -> None:
        if self._fd < 0:
            return
        try:
            words = os.pread(self._fd, 1024, 0).split()
            if words[8] != b"read_bytes:":
                raise ValueError
            self._read, self._from_disk = int(words[1]), int(words[9])
        except own_errors(OSError, ValueError, IndexError):  # the user's code has closed it, say
            self._fd = -1


class MachineAccounts:
    """Looks at the kernel's books once when it is made, and once when it is asked."""

    def __init__(self) -> None:
        self._throttling_file = machine.throttling_file()
        self._throttled_ns = _throttled_ns(self._throttling_file)
        self._pressure_s = machine.pressure_s()
        self._since_ns, self._since_cpu_ns = now(), process_time_ns()

    def since_then(self) -> dict[str, Any]:
        """Seconds since it was made, for a trace's ``meta``; what is not known is not in.

        ``recorded_s`` by the clock; ``main_cpu_s`` that this process computed, in its steps, too,
        and in all threads; ``throttled_s`` that CPUs were withheld by a quota, added up over the
        CPUs; ``pressure_s`` that some task waited, by resource.
        """
        facts: dict[str, Any] = {
            "recorded_s": (now() - self._since_ns) / 1e9,
            "main_cpu_s": max(process_time_ns() - self._since_cpu_ns, 0) / 1e9,
        }
        throttled_ns = _throttled_ns(self._throttling_file)
        if self._throttled_ns is not None and throttled_ns is not None:
            facts["throttled_s"] = (throttled_ns - self._throttled_ns) / 1e9
        pressure_s = {
            name: round(total_s - self._pressure_s[name], 6)
            for name, total_s in machine.pressure_s().items()
            if name in self._pressure_s
        }
        return {**facts, "pressure_s": pressure_s} if pressure_s else facts


def _throttled_ns(file: Path | None) -> int | None:
    try:
        return machine.throttled_ns(file.read_bytes()) if file is not None else None
    except own_errors(OSError, ValueError):
        return None
