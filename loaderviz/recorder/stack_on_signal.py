"""Makes a recorded process write its stack when ``loaderviz stuck`` asks: see ``stack_note``.

The handler is faulthandler's, in C: it answers also where no line of Python is run any more, and
calls that it interrupts are begun again (SA_RESTART; Python begins the others again itself, PEP
475). It writes the stack of the thread that is sent the signal and of no other: the frames of a
thread that runs meanwhile can be gone while they are read, which ends the process
(python/cpython#116008).
"""

from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path
from typing import Self

from loaderviz.own_errors import own_errors, own_errors_suppressed
from loaderviz.stack_note import SIGNAL, StackNote, has_signal, stack_path

_owner: int | None = None  # whose handler it is: this process, or the one that it was forked from


class StackOnSignal:
    """The file into which this process writes its stack; ``close`` ends that."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path, self._fd, self._pid = path, fd, os.getpid()

    @classmethod
    def register(cls, folder: Path) -> Self | None:
        """Answer from now on, in the thread that calls this.

        None where the program, or another recording, uses the signal, and where the system does
        not tell; a note is left even so, where it can be.
        """
        global _owner
        path, fd = stack_path(folder, os.getpid()), -1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        try:
            is_free = _is_free()
            path.unlink(missing_ok=True)  # that of a process which had our number and was killed
            fd = os.open(path, flags, 0o666)
            os.write(fd, StackNote.of_this_thread(fd if is_free else -1).as_line())
            if is_free:
                faulthandler.register(SIGNAL, file=fd, all_threads=False, chain=False)
                _owner = os.getpid()
                return cls(path, fd)
        except own_errors(OSError, ValueError, RuntimeError):  # nobody can ask, and that is all
            pass
        if fd >= 0:
            os.close(fd)
        return None

    def close(self) -> None:
        """Answer no more, unless this process was forked from the one that does."""
        global _owner
        if os.getpid() != self._pid:
            return
        if signal.getsignal(SIGNAL) is signal.SIG_DFL:  # else the program has replaced the handler
            faulthandler.unregister(SIGNAL)
        _owner = None
        with own_errors_suppressed(OSError):
            if os.path.samestat(os.fstat(self._fd), self._path.stat()):
                os.close(self._fd)  # and not a file that the program has opened in its place
        with own_errors_suppressed(OSError):
            self._path.unlink()


def _is_free() -> bool:
    """Whether nothing handles the signal but the default, or a handler inherited from our parent.

    Raises OSError or ValueError where that cannot be known.
    """
    pid = os.getpid()
    is_caught = has_signal(pid, "SigCgt")
    is_used = has_signal(pid, "SigIgn") or has_signal(pid, "SigBlk")  # sigwait(3) wants it blocked
    if is_used or _owner == pid or signal.getsignal(SIGNAL) is not signal.SIG_DFL:
        return False
    return _owner is not None or not is_caught
