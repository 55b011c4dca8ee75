"""The recording of this process: from the first DataLoader that is iterated to the process's end.

A forked process that iterates a loader has a recording of its own. A DataLoader's worker has none:
a loader that it iterates itself is a part of its samples.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import util

from torch.utils.data import get_worker_info

from loaderviz._run import script_process
from loaderviz.errors import LoaderVizError
from loaderviz.own_errors import own_errors_suppressed
from loaderviz.recorder import Recording, dataloader_hooks

EXIT_PRIORITY = 100  # before multiprocessing's own finalizers, and before it ends the workers

_recording: Recording | None = None
_arm_again: Callable[[set[type]], None] | None = None


def begin(arm_again: Callable[[set[type]], None]) -> None:
    """Record every DataLoader of this process from now on; in a DataLoader's worker, do nothing.

    ``arm_again`` is called in a forked process, with the classes that need a trigger again.

    Raises:
        Exception: where this process cannot be recorded, whatever the cause.
    """
    global _recording, _arm_again
    _arm_again = arm_again
    if get_worker_info() is not None:
        return
    # atexit does not run in multiprocessing's children; its finalizers do, and at exit too.
    util.Finalize(None, _end, exitpriority=EXIT_PRIORITY)
    folder, limits = script_process.run_settings()
    recording = Recording(
        [],
        every_loader=True,
        path=folder,
        path_is_shared=True,
        allow_restart=True,
        loop_thread=threading.main_thread().ident,  # the first loader may be iterated in another
        **limits,
    )
    try:
        recording.__enter__()
        _recording = recording
        if limits.get("last_s"):
            _answer_signal()
    except BaseException:
        recording.__exit__(None, None, None)
        raise


def add_class(cls: type) -> None:
    """Record a class of loaders that was made after the recording began."""
    if _recording is not None:
        _recording.add_class(cls)


def _end() -> None:
    """End the recording of this process, where there is one."""
    global _recording
    recording, _recording = _recording, None
    if recording is not None:
        with suppress(KeyboardInterrupt):  # a second Ctrl-C: what is written so far can be loaded
            _signal_no_more()
            error = _what_ended_it()
            recording.__exit__(None if error is None else type(error), error, None)
            script_process.remember_batches(recording)
        script_process.remember_interrupt()


def _what_ended_it() -> BaseException | None:
    """The exception that nobody caught; of a multiprocessing child it is under way."""
    error, last = sys.exc_info()[1], getattr(sys, "last_value", None)
    if error is None and isinstance(last, BaseException):
        outermost = last.__traceback__
        if outermost is not None and outermost.tb_frame.f_back is None:  # else the script went on
            error = last
    return error


def _answer_signal() -> None:
    """Save an incident on SIGUSR2, where the script has no handler and this is its main thread."""
    with own_errors_suppressed(ValueError, AttributeError):  # another thread; Windows has none
        if signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR2, _save_on_signal)


def _signal_no_more() -> None:
    with own_errors_suppressed(ValueError, AttributeError):
        if signal.getsignal(signal.SIGUSR2) is _save_on_signal:
            signal.signal(signal.SIGUSR2, signal.SIG_DFL)


def _save_on_signal(number: int, frame: object) -> None:
    """Save it in a thread, since the loop may be in the middle of writing something down."""
    if _recording is not None:
        threading.Thread(target=_save, args=[_recording], daemon=True).start()


def _save(recording: Recording) -> None:
    with own_errors_suppressed(LoaderVizError):  # it has just ended
        recording.save_incident("SIGUSR2")


def _reset_after_fork() -> None:
    """In a forked process: forget the parent's recording, and wait for the first loader again."""
    global _recording
    _recording = None
    _signal_no_more()
    if _arm_again is not None:
        _arm_again(dataloader_hooks.every_class())


# Runs after the hook of class_hooks.py, which is registered before and restores torch's
# classes.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
