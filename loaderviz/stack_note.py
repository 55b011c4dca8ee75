"""How a process that is recorded can be asked for its stack, from outside: by a signal.

Such a process keeps a file open in the folder of its recording. The first line of the file is a
note of whose it is; each signal makes the process add its stack below (``faulthandler.register``).

The signal is SIGURG, which does nothing where nobody catches it (signal(7)): one that came too late
would end no process, as most others would.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from loaderviz.regular_file import open_regular

SIGNAL: Final = int(getattr(signal, "SIGURG", 0))  # Windows has none
PATTERN: Final = "stack-*.txt"
_MOST_NOTE_BYTES = 4096


@dataclass(frozen=True)
class StackNote:
    """Who writes the stacks of one such file.

    Attributes:
        pid: of the process, in its own PID namespace.
        thread: the system's number of the thread that runs the loop, or makes a worker's batches.
        started: when the process was started, in clock ticks since the boot (proc(5), field 22).
        fd: under which number it has the file open; -1 where it is not to be sent the signal.
        host: the machine's name.
        namespace: names the PID namespace; empty where the system has none.
    """

    pid: int
    thread: int
    started: int
    fd: int
    host: str
    namespace: str

    @classmethod
    def of_this_thread(cls, fd: int) -> Self:
        """The note of this process; raises OSError or ValueError on a system without /proc."""
        pid = os.getpid()
        return cls(
            pid=pid,
            thread=threading.get_native_id(),
            started=start_ticks(pid),
            fd=fd,
            host=platform.node(),
            namespace=pid_namespace(),
        )

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The note in a file; None where it holds none, or is gone."""
        try:
            with open_regular(path) as file:
                fields = json.loads(file.readline(_MOST_NOTE_BYTES))
            note = cls(**fields)
            numbers = (note.pid, note.thread, note.started, note.fd)
            if not all(type(number) is int for number in numbers) or note.pid < 1:
                return None
            return note
        except Exception:  # it is being written, or a stranger's
            return None

    def as_line(self) -> bytes:
        """The first line of the file."""
        return f"{json.dumps(asdict(self))}\n".encode()


def stack_path(folder: Path, pid: int) -> Path:
    """The file of one process, in the folder of its recording."""
    return folder / PATTERN.replace("*", str(pid))


def pid_namespace() -> str:
    """Names the PID namespace of this process; raises OSError where the system has none."""
    return str(Path("/proc/self/ns/pid").readlink())


def start_ticks(pid: int) -> int:
    """When a process was started, in clock ticks since the boot (proc(5), field 22 of its stat).

    Raises OSError or ValueError where it is gone, or the system has no /proc.
    """
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])


def has_signal(pid: int, mask: str) -> bool:
    """Whether ``SIGNAL`` is in a mask of a process or thread.

    The masks are "SigCgt" (it is caught), "SigIgn" (ignored) and, of a thread, "SigBlk" (blocked).

    Raises OSError or ValueError where that cannot be known (proc(5), status).
    """
    if not SIGNAL:
        raise ValueError("this system has no such signal")
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition(f"\n{mask}:")[2].split()[0], 16) >> (SIGNAL - 1) & 1)
