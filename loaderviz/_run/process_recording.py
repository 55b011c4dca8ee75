"""The recording of this process: from the first DataLoader that is iterated to the process's end.

A DataLoader's worker has none of its own, and what it iterates itself is a part of its samples. A
forked process that iterates a loader has one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import util

from torch.utils.data import get_worker_info

from loaderviz._run import final_message
from loaderviz._run.script_environment import Settings
from loaderviz.recorder import Recording, dataloader_hooks

FIRST_OF_ALL = 100  # before multiprocessing's own finalizers, and before it ends the workers

_recording: Recording | None = None
_arm_again: Callable[[set[type]], None] | None = None


def begin(arm_again: Callable[[set[type]], None]) -> None:
    """Record every DataLoader of this process from now on; raises where it cannot.

    ``arm_again`` is called in a forked process, with the classes whose first iterator begins anew.
    """
    global _recording, _arm_again
    _arm_again = arm_again
    if get_worker_info() is not None:
        return
    settings = Settings.of_run()
    _recording = Recording(
        [],
        every_loader=True,
        path=settings.folder,
        path_is_shared=True,
        allow_restart=True,
        **settings.limits,
    ).__enter__()
    # atexit does not run in multiprocessing's children; its finalizers do, and at exit too.
    util.Finalize(None, _end, exitpriority=FIRST_OF_ALL)


def add_class(cls: type) -> None:
    """Record a class of loaders that was made after the recording began."""
    if _recording is not None:
        _recording.add_class(cls)


def _end() -> None:
    """End the recording of this process, where there is one."""
    global _recording
    recording, _recording = _recording, None
    if recording is not None:
        with suppress(KeyboardInterrupt):  # a second one: what is written stays as it is, and loads
            recording.__exit__(None, None, None)
            final_message.count_batches(recording)
        final_message.remember_interrupt()


def _begin_anew() -> None:
    global _recording
    _recording = None
    if _arm_again is not None:
        _arm_again(dataloader_hooks.every_class())


# After dataloader_hooks.py has let go of torch's classes in the forked process: it came first.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
