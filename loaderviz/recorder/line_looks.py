"""Looks at which line this process runs, while it reads samples: timers' signal, and a handler.

A Python handler runs between two instructions of the main thread, where an instruction that calls
has just returned (``line_log.py`` finds which took the time). A look weighs as many stretches as
were due until then, so that a long call in C counts in full. A thread
that looks would be given the GIL where the code lets go of it, and see little else; Python 3.12's
``sys.monitoring`` tells of each line that is run, at several times the price, and not in 3.11.

One timer goes by the clock and one by the CPU time of the thread: how much of a line's time it was
on a CPU is not told by the clock, where lines take turns more quickly than looks. They are POSIX's
own (timer_create(2)) and signal this thread alone, so that ``signal.alarm`` and ``setitimer`` stay
the program's. The signal is SIGWINCH: one that came too late, or in a child,
does nothing where nobody handles it (signal(7)). What is in C and gives up when a signal comes
(EINTR) may notice: Python's own goes on (PEP 475), and so do calls that the kernel begins again.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from time import thread_time_ns
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple, TypeVar

from loaderviz.clocks.process_clock import now
from loaderviz.own_errors import own_errors

SIGNAL: Final = int(getattr(signal, "SIGWINCH", 0))
EVERY_NS: Final = 5_000_000  # of the time in which it looks
MOST_LOOKS: Final = 1 << 15  # after so many, half as often
MOST_FRAMES: Final = 128  # of a stack, from the innermost out
GOLDEN: Final = 0.6180339887498949  # its multiples spread evenly over a stretch
MONOTONIC, CPU_TIME, THREAD = 1, 3, 4  # CLOCK_*, CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID of Linux
OTHER_SYSTEM: Final = "only Linux has a timer for one thread"
USED: Final = "the program, or another recording, handles SIGWINCH"
NOT_MAIN: Final = "samples are read in another thread than the main one"

Frames = list[tuple[CodeType, int]]  # innermost first, each with the instruction that it is at
Function = TypeVar("Function", bound=Callable[..., Any])
_roots: set[int] = set()  # ids of code: whatever calls these is none of a sample's business
_current: LineLooks | None = None  # of this process: there is one main thread


class Look(NamedTuple):
    """What one look saw; times in ns."""

    at_ns: int
    weight_ns: int  # by the clock; 0 of a look by CPU time alone
    cpu_ns: int  # by CPU time
    frames: Frames


class _SigEvent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_char * 64),
    )


class _TimerSpec(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "s", "ns"))


class _Stretches:
    """When to look by one clock: once in each stretch of the time in which it looks.

    Somewhere else in each: no matter how long samples take, and how late a look comes.
    """

    def __init__(self) -> None:
        self.own_ns = 0  # in which it has looked
        self._every_ns, self._base_ns, self._nth = EVERY_NS, 0, 0
        self._due_ns = self._every_ns // 2

    @property
    def wait_ns(self) -> int:
        """How long until the next look."""
        return max(self._due_ns - self.own_ns, 1)

    def count_due(self) -> int:
        """The stretches whose look was due until now, in ns; and when the next one is."""
        weight_ns = 0
        while self._due_ns <= self.own_ns:
            weight_ns += self._every_ns
            self._nth += 1
            if self._nth == MOST_LOOKS:
                self._base_ns += self._nth * self._every_ns
                self._every_ns, self._nth = 2 * self._every_ns, 0
            place = self._nth + GOLDEN * self._nth % 1.0
            self._due_ns = self._base_ns + int(self._every_ns * place)
        return weight_ns


class _Timer:
    """One that signals this thread once, some time after it is set; raises OSError."""

    def __init__(self, library: Any, clock: int) -> None:
        event = _SigEvent(0, SIGNAL, THREAD, threading.get_native_id())
        timer, self._spec = ctypes.c_void_p(), _TimerSpec()
        if library.timer_create(clock, ctypes.byref(event), ctypes.byref(timer)):
            raise OSError("the system gives no timer")
        self._arguments = timer, 0, ctypes.byref(self._spec), None
        self._left = timer, ctypes.byref(self._spec)
        self._set_time, self._get_time = library.timer_settime, library.timer_gettime
        self.delete: Callable[[], object] = partial(library.timer_delete, timer)

    def set(self, wait_ns: int) -> None:
        """Signal after so long; 0: not at all."""
        self._spec.s, self._spec.ns = divmod(wait_ns, 1_000_000_000)
        self._set_time(*self._arguments)

    def is_over(self) -> bool:
        """Whether it has signalled, or was not set."""
        self._get_time(*self._left)
        return not (self._spec.s or self._spec.ns)


def root(function: Function) -> Function:
    """A function of the recorder that calls what is looked at."""
    _roots.add(id(function.__code__))
    return function


def current() -> LineLooks | None:
    """The looks of this process; None where it takes none."""
    return _current


class LineLooks:
    """The timers of this process. It looks between ``resume`` and ``pause``, at nothing else."""

    def __init__(self, library: Any) -> None:
        self._set_action, self._action_before = library.sigaction, ctypes.create_string_buffer(512)
        self._set_action(SIGNAL, None, self._action_before)
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._timer, self._cpu_timer = _Timer(library, MONOTONIC), _Timer(library, CPU_TIME)
        self._timers: tuple[_Timer, ...] = self._timer, self._cpu_timer  # until they are deleted
        self._looks: list[Look] = []
        self._since_ns = self._since_cpu_ns = 0  # by the clocks, when it began; 0: it does not look
        self._time, self._cpu_time = _Stretches(), _Stretches()

    @classmethod
    def start(cls) -> LineLooks | str:
        """Take over the signal in this process; returns why not, where that cannot be."""
        global _current
        if not sys.platform.startswith("linux") or not SIGNAL:
            return OTHER_SYSTEM
        if threading.current_thread() is not threading.main_thread():
            return NOT_MAIN
        try:
            if not _is_free():
                return USED
            library = ctypes.PyDLL(None)  # a call keeps the GIL: it takes a microsecond
            _current = cls(library)
            signal.signal(SIGNAL, _handle)
            signal.siginterrupt(SIGNAL, False)
        except own_errors(AttributeError, OSError, ValueError) as error:
            _current = None
            return f"{type(error).__name__}: {error}"
        return _current

    def stop(self) -> None:
        """Give the signal back, unless this process was forked from the one that looks."""
        global _current
        if os.getpid() != self._pid:
            return
        self.pause()
        if signal.getsignal(SIGNAL) is _handle:
            signal.signal(SIGNAL, signal.SIG_DFL)
            self._set_action(SIGNAL, self._action_before, None)
        for timer in self._timers:
            timer.delete()
        self._timers = ()
        if _current is self:
            _current = None

    def resume(self) -> None:
        """Look from now on: at what is called by a ``root``."""
        if _current is self and threading.get_ident() == self._thread:
            self._since_cpu_ns = thread_time_ns()
            self._since_ns = now()
            self._cpu_timer.set(self._cpu_time.wait_ns)
            self._timer.set(self._time.wait_ns)

    def pause(self) -> list[Look]:
        """Look no more until ``resume``; returns what was seen since it was last paused."""
        since_ns, self._since_ns = self._since_ns, 0
        looks, self._looks = self._looks, []
        if since_ns:
            self._timer.set(0)
            self._cpu_timer.set(0)
            self._time.own_ns += now() - since_ns
            self._cpu_time.own_ns += thread_time_ns() - self._since_cpu_ns
            self._time.count_due()  # what has come too late is nobody's
        return looks

    def look(self, frame: FrameType | None) -> None:
        """Note what is being run, and set the timers again."""
        if not self._since_ns:  # the signal came late
            return
        at_ns, cpu_ns = now(), thread_time_ns()
        frames: Frames = []
        while frame is not None and len(frames) < MOST_FRAMES:
            code = frame.f_code
            if id(code) in _roots:
                break
            frames.append((code, frame.f_lasti))
            frame = frame.f_back
        self._time.own_ns += at_ns - self._since_ns
        self._cpu_time.own_ns += cpu_ns - self._since_cpu_ns
        weight_ns = self._time.count_due()
        # By CPU time it is due where the kernel has seen it run: at a tick, and so a little late.
        is_by_cpu = self._cpu_timer.is_over()
        spent_ns = self._cpu_time.count_due() if is_by_cpu else 0
        if weight_ns or spent_ns:
            self._looks.append(Look(at_ns, weight_ns, spent_ns, frames))
        self._since_cpu_ns, self._since_ns = cpu_ns, now()  # the look itself is nobody's
        if is_by_cpu:
            self._cpu_timer.set(self._cpu_time.wait_ns)
        self._timer.set(self._time.wait_ns)


def _handle(_signal: int, frame: FrameType | None) -> None:
    looks = _current
    if looks is None:
        return
    try:
        looks.look(frame)
    except own_errors(Exception):  # as where the stack is at its limit: one look less
        pass


def _is_free() -> bool:
    """Whether no handler of Python's is there, but what a fork has left of ours.

    One in C, as readline's, which adapts a prompt to its window, is put back in the end.
    """
    return _current is None and signal.getsignal(SIGNAL) in (signal.SIG_DFL, None, _handle)


def _forget_in_child() -> None:
    """A forked process has the handler, and no timer: see timer_create(2)."""
    global _current
    _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
