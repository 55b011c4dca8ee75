"""A function run in a process of its own, mostly a fork of this one, which leaves nothing behind.

``run_forked`` waits until it has ended or its time is up, and returns what it has sent: for the
doctor and ``recommend``. ``ChildProcess`` is for what is followed meanwhile and ended by a button:
the explorer's run, which works on every system, and so need not be a fork. Either is ended with all
that it has started. An audit runs its copy of the loader in this process, where its results are.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

import psutil
import torch

from loaderviz.loaders.start_method import start_method

ASK_S = 0.5  # for a process to end itself; one that is stuck in its dataset is killed then
GRACE_S = 5.0  # for what has been told to end


def fork_loses_cuda() -> bool:
    """Whether CUDA is in use here: no fork of this process can use it then.

    See torch/cuda/__init__.py, "Cannot re-initialize CUDA in forked subprocess". It is asked before
    a fork, because in the fork torch says that CUDA is not initialised.
    """
    return bool(torch.cuda.is_initialized())


def may_fork(num_workers: int) -> bool:
    """Whether a loader with so many workers can be run in a fork of this process.

    Not on other systems than Linux; and not a loader without workers once CUDA is in use here,
    because its dataset may use it. A worker that is forked could not use it either.
    """
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return False
    return num_workers > 0 or not fork_loses_cuda()


@dataclass(frozen=True)
class ForkedRun:
    """What came of a run."""

    sent: tuple[Any, ...]  # in order
    in_time: bool
    exit_code: int | None  # None: it had to be killed


def run_forked(work: Callable[..., None], *args: Any, timeout_s: float) -> ForkedRun:
    """Runs ``work(*args, send)`` in a fork; whatever ``send`` is given comes back."""
    child = ChildProcess(work, *args, method="fork")
    try:
        in_time = child.receive(time.monotonic() + timeout_s)
        if in_time:
            child.join(GRACE_S)
        return ForkedRun(tuple(child.sent), in_time, child.exit_code)
    finally:
        child.end()


class ChildProcess:
    """Runs ``work(*args, send)``, and begins at once; ``end()`` it when it is over. Not reusable.

    It leads a process group, so that its workers are ended with it, and can be after it.

    Attributes:
        sent: what ``send`` was given, as far as it was received.
    """

    def __init__(self, work: Callable[..., None], *args: Any, method: str | None = None) -> None:
        """``method``: how it is started. None: as this process starts others, if CUDA permits."""
        self.sent: list[Any] = []
        self._ended = False
        context: Any = multiprocessing.get_context(
            method or ("spawn" if fork_loses_cuda() else start_method())
        )
        self._messages, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_begin, args=(work, args, theirs))
        try:
            with warnings.catch_warnings():  # of Python 3.12 and later: this process has threads
                warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
                self._process.start()
            if hasattr(os, "setpgid"):
                with contextlib.suppress(OSError):  # it does the same; one of them comes first
                    os.setpgid(self._process.pid, self._process.pid)
        except BaseException:
            self.end()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int | None:
        pid: int | None = self._process.pid
        return pid

    @property
    def running(self) -> bool:
        return bool(self._process.is_alive())

    @property
    def exit_code(self) -> int | None:
        """Below 0: the signal that ended it. None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def receive(self, until: float = 0.0) -> bool:
        """Take what it has sent and will send until then, a time of ``time.monotonic``.

        Returns whether that is all: nothing more can come.
        """
        try:
            while self._messages.poll(max(until - time.monotonic(), 0)):
                self.sent.append(self._messages.recv())
        except (EOFError, OSError):  # it has ended, perhaps amid a message
            return True
        return False

    def join(self, timeout_s: float) -> None:
        self._process.join(timeout_s)

    def end(self) -> None:
        """Whatever it is doing; returns when none of its processes is left.

        Once: later the number of the process may be another's.
        """
        if self._ended:
            return
        self._ended = True
        if self.pid is not None:
            self._kill(self.pid)
        self._messages.close()

    def _kill(self, pid: int) -> None:
        below: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(pid).children(recursive=True)
        if self.running:
            self._process.terminate()
            self._process.join(ASK_S)
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        for each in below:  # which may have left the group
            with contextlib.suppress(psutil.Error):
                each.kill()
        self._process.kill()
        self._process.join()
        until = time.monotonic() + GRACE_S
        while any(map(_lives, below)) and time.monotonic() < until:
            time.sleep(0.01)


def _lives(process: psutil.Process) -> bool:
    """Not so of one that has ended and that nobody has asked for its exit code."""
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _begin(work: Callable[..., None], args: tuple[Any, ...], messages: Connection) -> None:
    """What happens in the process."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
        _end_when_asked()
    torch.set_num_threads(1)  # as in a worker: OpenMP's threads do not survive a fork
    _forget_fork_server()
    work(*args, messages.send)
    messages.close()


def _end_when_asked() -> None:
    """Between two steps of Python: a kill from outside may come while a queue is being made.

    glibc's ``sem_open`` makes a file of another name first, which such a kill would leave behind.
    """
    own = os.getpid()

    def end(number: int, frame: Any) -> None:
        if os.getpid() == own:
            os.killpg(own, signal.SIGKILL)
        os._exit(1)  # a worker that torch ends

    signal.signal(signal.SIGTERM, end)


def _forget_fork_server() -> None:
    """The one of the process that was forked is no child of this one, which starts its own."""
    server: Any = forkserver._forkserver
    for name in ("_forkserver_address", "_forkserver_alive_fd", "_forkserver_pid"):
        if name in vars(server):
            setattr(server, name, None)
