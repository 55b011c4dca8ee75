"""How a run fails: what sort of failure it is, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from loaderviz.ask_for_stack import Stack, ask
from loaderviz.stack_note import PATTERN, StackNote

OUTPUT_FILE = "said"  # in the folder of an examination: what the user's code prints
LATE = "no batch came in the time given"  # what ``alarm`` raises


class OwnFault(Exception):  # noqa: N818
    """The doctor itself failed, not the loader."""


@dataclass(frozen=True)
class Trouble:
    """Why a run ended early."""

    run: str  # PLAIN, or what came later
    kind: str  # "length": of the dataset, is broken; else see ``kind_of``
    text: str
    wait_channels: tuple[str, ...] = ()  # of workers that are stuck; see ``wait_channels``
    stacks: tuple[Stack, ...] = ()  # of the same, as far as they answered


def kind_of(error: BaseException) -> str:
    """The kind of failure, recognised by torch's messages (torch/utils/data/dataloader.py).

    "ours" (a fault of the doctor), "stuck", "files" (too many are open), "shared memory", "cuda"
    (in a forked worker), "died" (a worker), "no worker info" (``get_worker_info()`` is None),
    "shapes" (of samples differ), "pickle", "index" (an IndexError), or "raised": anything else.
    """
    if isinstance(error, OwnFault):
        return "ours"
    text = str(error)
    in_worker = "Caught" in text and "DataLoader worker process" in text
    kind_by_message = {
        "timed out after": "stuck",
        LATE: "stuck",
        "ancdata": "files",
        "Too many open files": "files",
        "insufficient shared memory": "shared memory",
        "unable to allocate shared memory": "shared memory",  # ATen's MapAllocator.cpp
        "Cannot re-initialize CUDA in forked": "cuda" if in_worker else "raised",
        "exited unexpectedly": "died",
        "killed by signal": "died",
        "stack expects each tensor to be equal size": "shapes",
        "Trying to resize storage that is not resizable": "shapes",
        "'NoneType' object has no attribute 'id'": "no worker info",
        "'NoneType' object has no attribute 'num_workers'": "no worker info",
        "'NoneType' object has no attribute 'seed'": "no worker info",
    }
    for message, kind in kind_by_message.items():
        if message in text:
            return kind
    if "pickle" in text.lower() or isinstance(error, pickle.PicklingError):
        return "pickle"
    if isinstance(error, IndexError) or "Caught IndexError" in text:
        return "index"
    return "raised"


def wait_channels() -> tuple[str, ...]:
    """What each child of this process waits for in the kernel (proc(5), wchan); Linux only."""
    channels = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error, OSError):
            channels.append(Path(f"/proc/{child.pid}/wchan").read_text().strip())
    return tuple(channels)


def stacks_of_workers(folder: Path) -> tuple[Stack, ...]:
    """Where the workers stand whose recording is in ``folder``; not of those that do not answer.

    A timer in each worker (``faulthandler.dump_traceback_later``) would tell too, but waits for
    ever in a process that was forked while its parent had one.
    """
    notes = [StackNote.read(path) for path in sorted(folder.glob(PATTERN))]
    return tuple(ask(folder, [note for note in notes if note and note.pid != os.getpid()]).values())


def child_processes() -> set[psutil.Process]:
    """All processes below this one, except the helpers of multiprocessing, which serve others."""
    children = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            if "resource_tracker" not in command and "multiprocessing.forkserver" not in command:
                children.add(process)
    return children


def end_workers(already_running: set[psutil.Process]) -> None:
    """Kill the child processes that a run has left behind, but not those that ran before it."""
    left_behind = child_processes() - already_running
    if not left_behind:
        return
    # Torch's own handler would raise because workers are killed.
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL) if hasattr(signal, "SIGCHLD") else None
    for process in left_behind:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left_behind, timeout=5)
    if handler is not None:
        signal.signal(signal.SIGCHLD, handler)


@contextlib.contextmanager
def output_to_file(folder: Path) -> Iterator[None]:
    """Send what the user's code prints to a file in ``folder``, for good (in a copied process)."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(folder / OUTPUT_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.close(descriptor)
    with warnings.catch_warnings(), (folder / OUTPUT_FILE).open("a", buffering=1) as output:
        warnings.simplefilter("ignore")
        sys.stdout = sys.stderr = output
        yield


@contextlib.contextmanager
def alarm(until: float, *, again_s: float = 0.0) -> Iterator[None]:
    """Raise TimeoutError in the body at ``until``, a time of ``time.monotonic()``.

    ``again_s``: and again every so many seconds, for a body in which it may be swallowed. Only in a
    copied process, whose signals are ours.
    """

    def ring(*_: Any) -> None:
        raise TimeoutError(LATE)

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 0.01), again_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
