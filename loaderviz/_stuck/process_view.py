"""What the kernel says of a process from outside: whether it runs, and what its thread waits for.

It is read from /proc (proc(5)), which disturbs nobody. What this user may not read, or another
system does not tell, is empty: nothing is guessed.
"""

from __future__ import annotations

import ipaddress
import os
import platform
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

# The system calls that a process can be stuck in, by their numbers on each kind of machine.
_NUMBERS: Final = {
    "x86_64": {
        0: "read", 1: "write", 17: "pread64", 42: "connect", 43: "accept", 288: "accept4",
        45: "recvfrom", 47: "recvmsg", 44: "sendto", 46: "sendmsg", 72: "fcntl", 73: "flock",
        74: "fsync", 232: "epoll_wait", 281: "epoll_pwait", 7: "poll", 271: "ppoll", 23: "select",
        270: "pselect6", 202: "futex", 35: "nanosleep", 230: "clock_nanosleep", 61: "wait4",
        247: "waitid", 257: "openat", 262: "newfstatat",
    },
    "aarch64": {
        63: "read", 64: "write", 67: "pread64", 203: "connect", 202: "accept", 242: "accept4",
        207: "recvfrom", 212: "recvmsg", 206: "sendto", 211: "sendmsg", 25: "fcntl", 32: "flock",
        82: "fsync", 22: "epoll_pwait", 73: "ppoll", 72: "pselect6", 98: "futex", 101: "nanosleep",
        115: "clock_nanosleep", 260: "wait4", 95: "waitid", 56: "openat", 79: "newfstatat",
    },
}  # fmt: skip
_OF_NO_FILE: Final = (  # whose first argument is no file descriptor
    "poll", "ppoll", "select", "pselect6", "futex", "nanosleep", "clock_nanosleep", "wait4",
    "waitid", "openat", "newfstatat",
)  # fmt: skip
_POLLS: Final = ("poll", "ppoll")
_STATES: Final = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_ZOMBIE: "Z",
}
PROC: Final = Path("/proc")
_FUTEX_PRIVATE: Final = 128  # in the second argument: only threads of this process can end the wait
_MOST_POLLED = 64


@dataclass(frozen=True)
class ProcessView:
    """A process at one moment.

    Attributes:
        pid: of the process.
        state: the kernel's letter: R runs, S waits, D waits and cannot be interrupted, T is
            stopped, Z has ended; empty where there is no such process, or none that is seen.
        n_threads: how many it has, 0 where that is not known.
        cpu_s: CPU time of all its threads so far.
        exit_signal: the signal that ended it; 0 where none did or it is not known.
        kernel_function: in which its thread waits in the kernel; empty where it does not.
        call: the system call that its thread waits in; empty where it does not or it is not known.
        private_wait: whether the wait is for a lock that only threads of this process can release.
        timed: whether that wait has a time limit.
        waits_on: the files and connections that the call waits for, as far as they are known.
    """

    pid: int
    state: str = ""
    n_threads: int = 0
    cpu_s: float = 0.0
    exit_signal: int = 0
    kernel_function: str = ""
    call: str = ""
    private_wait: bool = False
    timed: bool = False
    waits_on: tuple[str, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether it runs, and is not only kept for its parent to hear how it ended."""
        return self.state not in ("", "Z", "X")

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in ("T", "t")


def view_process(pid: int, thread: int = 0) -> ProcessView:
    """How the process stands now; ``thread`` is the one that matters, by default its first."""
    folder = PROC / str(pid)
    if not (PROC / "self").exists():
        return _view_without_proc(pid)
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ProcessView(pid)
    state = fields[0]
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    task = folder / "task" / str(thread or pid)
    if not task.exists():
        task = folder
    with suppress(OSError, ValueError, IndexError):
        if state != "Z":
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
    call, arguments = _call(task)
    return ProcessView(
        pid,
        state=state,
        n_threads=int(fields[17]),
        cpu_s=cpu_s,
        exit_signal=int(fields[49]) & 0x7F if state == "Z" else 0,
        kernel_function=_kernel_function(task),
        call=call,
        private_wait=call == "futex" and bool(arguments[1] & _FUTEX_PRIVATE),
        timed=call == "futex" and arguments[3] != 0,
        waits_on=_waits_on(folder, call, arguments),
    )


def _view_without_proc(pid: int) -> ProcessView:
    """What other systems tell: whether it runs, and how much."""
    with suppress(psutil.Error, ValueError, OverflowError):
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            state = _STATES.get(process.status(), "S")
            return ProcessView(pid, state, process.num_threads(), times.user + times.system)
    return ProcessView(pid)


def _kernel_function(task: Path) -> str:
    with suppress(OSError):
        name = (task / "wchan").read_text().strip()
        return "" if name == "0" else name
    return ""


def _call(task: Path) -> tuple[str, list[int]]:
    """The system call that a thread is in, and its arguments; empty where it is in none."""
    names = _NUMBERS.get(platform.machine(), {})
    with suppress(OSError, ValueError, IndexError):
        fields = (task / "syscall").read_text().split()
        number = int(fields[0])  # else it runs
        return names.get(number, f"system call {number}"), [int(word, 16) for word in fields[1:7]]
    return "", []


def _waits_on(folder: Path, call: str, arguments: list[int]) -> tuple[str, ...]:
    if not arguments or call.startswith("system call"):
        return ()
    if call in _POLLS:
        fds = _polled(folder, arguments[0], min(arguments[1], _MOST_POLLED))
    elif call.startswith("epoll"):
        fds = _in_epoll(folder, arguments[0])
    elif call in _OF_NO_FILE:
        fds = []
    else:
        fds = [arguments[0]]
    targets = (_target(folder, fd) for fd in fds)
    return tuple(dict.fromkeys(target for target in targets if target))


def _polled(folder: Path, address: int, n: int) -> list[int]:
    """The file descriptors that poll(2) was given: in the process's memory, which is only read."""
    with suppress(OSError, OverflowError, struct.error):
        with (folder / "mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            data = memory.read(8 * n)
        return [fd for fd, _, _ in struct.iter_unpack("ihh", data) if fd >= 0]
    return []


def _in_epoll(folder: Path, fd: int) -> list[int]:
    with suppress(OSError, ValueError, IndexError):
        lines = (folder / "fdinfo" / str(fd)).read_text().splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith("tfd:")]
    return []


def _target(folder: Path, fd: int) -> str:
    """What a file descriptor is: a path, "a pipe", or "the connection to ADDRESS"."""
    try:
        target = str((folder / "fd" / str(fd)).readlink())
    except OSError:
        return ""
    if target.startswith("pipe:"):
        return "a pipe"
    if not target.startswith("socket:"):
        return "" if target.startswith("anon_inode:") else target
    inode = target.partition("[")[2].rstrip("]")
    for name in ("tcp", "tcp6"):
        with suppress(OSError, ValueError, IndexError):
            for line in (folder / "net" / name).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[9] == inode:
                    return f"the connection to {_address(fields[2])}"
    return "a socket"


def _address(text: str) -> str:
    """An address as /proc/net/tcp has it: words of the machine's order, in hex, and the port."""
    host, _, port = text.partition(":")
    data = bytes.fromhex(host)
    if sys.byteorder == "little":
        data = b"".join(data[i : i + 4][::-1] for i in range(0, len(data), 4))
    address = ipaddress.ip_address(data)
    mapped = getattr(address, "ipv4_mapped", None)
    shown = str(mapped or address)
    return f"[{shown}]:{int(port, 16)}" if ":" in shown else f"{shown}:{int(port, 16)}"


def free_shared_memory(pid: int) -> tuple[int, int]:
    """Bytes of /dev/shm, as this process sees it: the free ones, and all; 0 where not known."""
    with suppress(OSError):
        status = os.statvfs(f"/proc/{pid}/root/dev/shm")
        return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    return 0, 0
