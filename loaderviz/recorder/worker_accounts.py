"""What the kernel books of a worker for each batch, and the CPUs and threads that it may use."""

from __future__ import annotations

import os

import torch

from loaderviz import machine
from loaderviz.clocks.process_clock import now
from loaderviz.own_errors import own_errors
from loaderviz.record_layout import pack_text
from loaderviz.recorder.cpu_accounts import CpuAccounts

MOST_SHARE = 0.01  # of the time of a batch: what a look at /proc/self/io may take
FEWEST_LOOKS = 16  # that show what it takes


class WorkerAccounts:
    """Of this process; made and asked by the thread that makes its batches."""

    def __init__(self) -> None:
        self._cpu, self._reads = CpuAccounts(), ReadAccounts()
        self._cpus: tuple[set[int], int] | None = None

    def begin(self) -> None:
        """A batch begins: see ``CpuAccounts``."""
        self._cpu.begin()

    def since_last(self, took_ns: int) -> tuple[int, ...]:
        """The words of a record from ``Task.PROCESS_CPU`` on, of the batch that took so long.

        As ``CpuAccounts`` and ``ReadAccounts`` say; ``Task.SHAPES``, which is among them, is 0.
        """
        process_ns, queued_ns, throttled_ns, children_ns = self._cpu.since_last(took_ns)
        read, from_disk = self._reads.since_last(took_ns)
        return process_ns, queued_ns, throttled_ns, 0, children_ns, read, from_disk

    def new_cpus(self) -> tuple[int, ...] | None:
        """The fields of a ``Tag.CPUS`` record; None where nothing has changed since it was asked.

        A library may set both whenever the process first uses it.
        """
        cpus = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()
        before, self._cpus = self._cpus, (cpus, torch.get_num_threads())
        if self._cpus == before:
            return None
        return self._cpus[1], *pack_text(machine.cpu_list(cpus))


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
