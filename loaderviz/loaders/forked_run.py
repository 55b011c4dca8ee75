"""Runs a function in a process of its own, mostly a fork of this one, and leaves nothing behind.

``run_forked`` waits until the process has ended or its time is up, and returns what it has sent:
for the doctor and ``recommend``. ``ChildProcess`` is for a run that is followed meanwhile and can
be ended by a button: the explorer's, which works on every system, and so need not be a fork. Either
is ended with all processes that it has started. An audit uses neither: it runs its copy of the
loader in this process, where its results are needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import torch

from loaderviz.loaders.start_method import start_method
from loaderviz.own_errors import own_errors

TERMINATE_S = 0.5  # for a process to end when asked; one that is stuck in its dataset is killed
GRACE_S = 5.0  # for a process that has sent all or was killed to be gone
_LIBRARY = re.compile(r"/\S*/lib(?:gomp|iomp5|omp)\b\S*\.so\S*$", re.MULTILINE)
_SOFT = 1  # the settings are kept (OpenMP 5.0, ``omp_pause_resource_t``)


def fork_loses_cuda() -> bool:
    """Whether no fork of this process can use CUDA, because it is in use here or was asked about.

    To ask for the devices is enough, as ``torch.cuda.is_available()`` does, and torch itself where
    a loader pins (``poison_fork`` in torch/csrc/cuda/Module.cpp); only a fork knows of that. See
    torch/cuda/__init__.py, "Cannot re-initialize CUDA in forked subprocess". Ask before the fork:
    in it, torch says that CUDA is not initialised.
    """
    if torch.cuda.is_initialized():
        return True
    return torch.backends.cuda.is_built() and _fork_says_so() and torch.cuda.is_available()


def _fork_says_so() -> bool:
    if not hasattr(os, "fork"):
        return False
    says_so = torch.cuda._is_in_bad_fork
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)  # as below
        pid = os.fork()
    if not pid:
        os._exit(int(says_so()))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0


def may_fork(num_workers: int) -> bool:
    """Whether a loader with so many workers can be run in a fork of this process.

    It cannot on other systems than Linux, and in a daemonic process, which may have no children.
    Nor can a loader without workers once CUDA is in use here, because its dataset may use CUDA.
    With workers it can: once they are forked they could not use CUDA either way.
    """
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return False
    return num_workers > 0 or not torch.cuda.is_initialized()


@dataclass(frozen=True)
class ForkedRun:
    """What a function sent from a process of its own, and how the process ended."""

    sent: tuple[Any, ...]  # in order
    in_time: bool
    exit_code: int | None  # as ChildProcess.exit_code; None: it had not ended yet, and was killed


def run_forked(
    work: Callable[..., None], *args: Any, timeout_s: float, threads: bool = False
) -> ForkedRun:
    """Run ``work(*args, send)`` in a fork, and return what ``send`` was called with.

    After ``timeout_s`` seconds the process is ended, with all that it has started. With ``threads``
    torch computes in it with as many of them as here, where that can be; else as in a worker.
    """
    n_threads = torch.get_num_threads() if threads and end_idle_threads() else 1
    child = ChildProcess(_with_threads, n_threads, work, *args, method="fork")
    try:
        in_time = child.receive(time.monotonic() + timeout_s)
        if in_time:
            child.join(GRACE_S)
        return ForkedRun(tuple(child.sent), in_time, child.exit_code)
    finally:
        child.end()


class ChildProcess:
    """A process that runs ``work(*args, send)`` and starts at once; call ``end()`` in any case.

    It leads a process group, so that its workers are ended with it, even where it ends before them.

    Attributes:
        sent: what ``send`` was called with, as far as ``receive`` has received it.
    """

    def __init__(self, work: Callable[..., None], *args: Any, method: str | None = None) -> None:
        """``method``: the start method; None: this process's own, or spawn if CUDA is in use."""
        self.sent: list[Any] = []
        self._ended = False
        context: Any = multiprocessing.get_context(
            method or ("spawn" if torch.cuda.is_initialized() else start_method())
        )
        self._messages, child_end = context.Pipe(duplex=False)
        self._process = context.Process(target=_run_work, args=(work, args, child_end))
        try:
            with warnings.catch_warnings():  # Python 3.12 and later: this process has threads
                warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
                self._process.start()
            if hasattr(os, "setpgid"):
                with contextlib.suppress(OSError):  # the child does the same; one comes first
                    os.setpgid(self._process.pid, self._process.pid)
        except BaseException:
            self.end()
            raise
        finally:
            child_end.close()

    @property
    def pid(self) -> int | None:
        """Its process id; None where it could not be started."""
        pid: int | None = self._process.pid
        return pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return bool(self._process.is_alive())

    @property
    def exit_code(self) -> int | None:
        """Its exit code; below 0: minus the signal that ended it. None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def receive(self, deadline: float = 0.0) -> bool:
        """Receive what it has sent and what it sends before ``deadline``.

        That is a time of ``time.monotonic``, in seconds. Returns whether nothing more can come.
        """
        try:
            while self._messages.poll(max(deadline - time.monotonic(), 0)):
                self.sent.append(self._messages.recv())
        except own_errors(EOFError, OSError):  # it has ended, perhaps amid a message
            return True
        return False

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended, at most so many seconds."""
        self._process.join(timeout_s)

    def end(self) -> None:
        """End it, whatever it is doing, and return when none of its processes is left.

        A second call does nothing: the process id may be another process's by then.
        """
        if self._ended:
            return
        self._ended = True
        if self.pid is not None:
            self._kill(self.pid)
        self._messages.close()

    def _kill(self, pid: int) -> None:
        """Ask it to end, then kill it with its process group and all its descendants."""
        descendants: list[psutil.Process] = []
        if self.running:
            with contextlib.suppress(psutil.Error):
                descendants = psutil.Process(pid).children(recursive=True)
            self._process.terminate()
            self._process.join(TERMINATE_S)
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        for process in descendants:  # which may have left the group
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._process.kill()
        self._process.join()
        deadline = time.monotonic() + GRACE_S
        while any(map(_is_alive, descendants)) and time.monotonic() < deadline:
            time.sleep(0.01)


def _is_alive(process: psutil.Process) -> bool:
    """Whether it has not ended; a zombie, whose exit code nobody has read yet, has."""
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


_to_parent: Connection | None = None  # of this process, where it is a ChildProcess


def _run_work(work: Callable[..., None], args: tuple[Any, ...], messages: Connection) -> None:
    """Run ``work`` in the new process."""
    global _to_parent
    if _to_parent is not None:  # of the process that this is a fork of: its end must be seen
        _to_parent.close()
    _to_parent = messages
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
        _end_group_on_sigterm()
    torch.set_num_threads(1)  # as in a worker: OpenMP's threads do not survive a fork
    forget_fork_server()
    work(*args, messages.send)
    messages.close()


def _with_threads(n_threads: int, work: Callable[..., None], *args: Any) -> None:
    torch.set_num_threads(n_threads)
    work(*args)


def _end_group_on_sigterm() -> None:
    """End the process group on SIGTERM, between two steps of Python.

    A SIGKILL from outside may come while a queue is being made, and leave a file behind: glibc's
    ``sem_open`` makes it first and under another name.
    """
    leader = os.getpid()

    def end(number: int, frame: Any) -> None:
        if os.getpid() == leader:
            os.killpg(leader, signal.SIGKILL)
        os._exit(1)  # in a worker, which torch ends

    signal.signal(signal.SIGTERM, end)


def forget_fork_server() -> None:
    """Let this fork start a fork server of its own: its parent's is no child of this process."""
    server: Any = forkserver._forkserver
    for name in ("_forkserver_address", "_forkserver_alive_fd", "_forkserver_pid"):
        if name in vars(server):
            setattr(server, name, None)


def end_idle_threads() -> bool:
    """End the threads with which torch computes one operation; the next one starts them again.

    A fork does not have them, and what it computes with GNU's OpenMP would wait for them for ever
    (docs.pytorch.org, "Multiprocessing best practices"). Returns whether they are known to be gone;
    Linux only.
    """
    try:
        libraries = set(_LIBRARY.findall(Path("/proc/self/maps").read_text("utf-8", "replace")))
        pauses = [ctypes.CDLL(library).omp_pause_resource_all for library in libraries]
    except own_errors(OSError, AttributeError):  # another system, or an OpenMP before 5.0
        return False
    return bool(pauses) and not any(pause(_SOFT) for pause in pauses)
