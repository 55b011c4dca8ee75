"""A training script's process without its start: a fork of this one, in a session of its own."""

import faulthandler
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import pytest

CONTEXT = multiprocessing.get_context("fork")
HANGS_S = 300  # what takes so long hangs, on the busiest machine too


class Forked:
    """One that runs this function; leaving the block kills it and all that it has left.

    In place of the argument ``TALK`` it gets the other end of the pipe, to ``send`` and ``recv``.
    """

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_run, args=(theirs, function, args))
        self._process.start()
        theirs.close()
        self.pid = self._process.pid or 0
        assert self.hear() == "begun"

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        left = [each for each in psutil.process_iter() if _session(each.pid) == self.pid]
        for each in left:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.join()
        psutil.wait_procs(left, timeout=10)
        self._pipe.close()

    def hear(self) -> Any:
        """What it says next; last of all is what the function returns, or its error."""
        if not self._pipe.poll(HANGS_S):
            pytest.fail("the process hangs")
        said = self._pipe.recv()
        if isinstance(said, _Failed):
            pytest.fail(f"in the process:\n{said}", pytrace=False)
        return said

    def say(self, what: Any = None) -> None:
        self._pipe.send(what)

    def exit_code(self) -> int | None:
        """That with which it ends; its workers may outlive it."""
        end = time.monotonic() + HANGS_S
        while self._process.exitcode is None and time.monotonic() < end:
            time.sleep(0.01)  # to join with a limit is to wait for its workers, too
        return self._process.exitcode


class _Failed(str):
    """A traceback."""


def _run(pipe: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.setsid()
    faulthandler.disable()  # pytest's: where one is to die, nobody needs to read how
    pipe.send("begun")
    try:
        told = function(*(pipe if each is TALK else each for each in args))
    except Exception:
        told = _Failed(traceback.format_exc())
    pipe.send(told)


TALK = object()  # as an argument: the process's own end of the pipe


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def forked(function: Callable[..., Any], *args: Any) -> Any:
    """What the function returns, in a process of its own."""
    with Forked(function, *args) as process:
        return process.hear()
