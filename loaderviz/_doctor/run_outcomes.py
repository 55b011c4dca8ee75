"""How a run ends, other than well: what sort of failure it is, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

_LATE = "no batch came in the time that was given"


class OwnFault(Exception):  # noqa: N818
    """The doctor failed, and not the loader."""


@dataclass(frozen=True)
class Fact:
    """Something learnt by a run: ``name`` says what, such as "len(dataset)"."""

    name: str
    value: Any


@dataclass(frozen=True)
class Trouble:
    """Why a run ended early."""

    run: str
    epoch: int
    kind: str  # see kind_of
    text: str
    details: dict[str, Any] = field(default_factory=dict)


def kind_of(error: BaseException) -> str:
    """What sort of failure this is, from torch's words (torch/utils/data/dataloader.py)."""
    if isinstance(error, OwnFault):
        return "ours"
    text = str(error)
    in_worker = "Caught" in text and "DataLoader worker process" in text
    kinds = {
        "timed out after": "stuck",
        _LATE: "stuck",
        "ancdata": "files",
        "Too many open files": "files",
        "insufficient shared memory": "shared memory",
        "Cannot re-initialize CUDA in forked": "cuda" if in_worker else "raised",
        "exited unexpectedly": "died",
        "killed by signal": "died",
        "'NoneType' object has no attribute 'id'": "no worker info",
        "'NoneType' object has no attribute 'num_workers'": "no worker info",
        "'NoneType' object has no attribute 'seed'": "no worker info",
    }
    for words, kind in kinds.items():
        if words in text:
            return kind
    if "pickle" in text.lower() or isinstance(error, pickle.PicklingError):
        return "pickle"
    if isinstance(error, IndexError) or "Caught IndexError" in text:
        return "index"
    return "raised"


def text_of(error: BaseException) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}" + (
        f" ... {lines[-1].strip()}" if len(lines) > 1 else ""
    )


def look_around(error: BaseException) -> dict[str, Any]:
    """What the workers are doing, where they do not answer."""
    if kind_of(error) != "stuck":
        return {}
    waiting, cpu_s = [], []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error, OSError):
            waiting.append(Path(f"/proc/{child.pid}/wchan").read_text().strip())
            cpu_s.append(sum(child.cpu_times()[:2]))
    return {"waiting": waiting, "cpu_s": cpu_s}


def children() -> set[psutil.Process]:
    """The processes below this one; not the helpers of multiprocessing, which serve others too."""
    found = set()
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(each.cmdline())
            if "resource_tracker" not in line and "multiprocessing.forkserver" not in line:
                found.add(each)
    return found


def end_workers(before: set[psutil.Process]) -> None:
    """What a run that failed has left running."""
    left = children() - before
    if not left:
        return
    # Torch's own handler would raise, of workers that are killed.
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL) if hasattr(signal, "SIGCHLD") else None
    for child in left:
        with contextlib.suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(left, timeout=5)
    if handler is not None:
        signal.signal(signal.SIGCHLD, handler)


@contextlib.contextmanager
def in_silence(folder: Path) -> Iterator[None]:
    """What the user's code prints goes to a file of the examination (in a copied process)."""
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(target, number)
    os.close(target)
    with warnings.catch_warnings(), (folder / "said").open("a", buffering=1) as said:
        warnings.simplefilter("ignore")
        sys.stdout = sys.stderr = said
        yield


@contextlib.contextmanager
def alarm(at_s: float) -> Iterator[None]:
    """Break off what does not return in time (in a copied process, whose signals are ours)."""

    def ring(*_: Any) -> None:
        raise TimeoutError(_LATE)

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(at_s - time.monotonic(), 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
