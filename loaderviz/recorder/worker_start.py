"""How long the parts of a worker's start take, by what is pickled for it anyway.

Spawn and forkserver pickle the arguments of ``_worker_loop`` one after another: the dataset's kind,
the dataset, its ``collate_fn``, its ``worker_init_fn`` (torch/utils/data/dataloader.py,
``_MultiProcessingDataLoaderIter.__init__``). ``BeforeDataset`` takes the place of the kind, and
``AfterDataset`` is the end of what takes the place of ``worker_init_fn``. Both read the clock when
they are pickled and when they are unpickled, so nothing is pickled for the sake of it.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing import reduction
from typing import Any

from loaderviz.clocks.process_clock import now
from loaderviz.own_errors import own_errors

_thread = threading.local()  # .before: when its BeforeDataset was (un)pickled, and bytes until then
_forked_ns = 0


def _note_fork() -> None:
    global _forked_ns
    _forked_ns = now()


# A forked worker cannot tell otherwise when it was started. This costs one clock read a fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


class BeforeDataset(int):
    """The kind of the dataset, as which it is unpickled."""

    def __reduce__(self) -> Any:
        _thread.before = now(), _n_pickled_bytes()
        return _begin_unpickling, (int(self),)


class AfterDataset:
    """Is unpickled as the parts of the start so far: when it began, and what parts took."""

    def __reduce__(self) -> Any:
        pickled_ns, end = now(), _n_pickled_bytes()
        began_ns, start = getattr(_thread, "before", (pickled_ns, None))
        n_bytes = None if start is None or end is None else end - start
        return _end_unpickling, (pickled_ns, pickled_ns - began_ns, n_bytes)


def forked_parts() -> dict[str, int]:
    """The parts of this worker's start so far, where it was forked."""
    return {"started_ns": _forked_ns, "boot_ns": now() - _forked_ns} if _forked_ns else {}


def _begin_unpickling(kind: int) -> int:
    _thread.before = now(), None
    return kind


def _end_unpickling(started_ns: int, pickle_ns: int, pickle_bytes: int | None) -> dict[str, Any]:
    unpickled_ns = now()
    began_ns, _ = getattr(_thread, "before", (unpickled_ns, None))
    return {
        "started_ns": started_ns,
        "pickle_ns": pickle_ns,
        "pickle_bytes": pickle_bytes,
        "boot_ns": began_ns - started_ns,
        "unpickle_ns": unpickled_ns - began_ns,
    }


def _n_pickled_bytes() -> int | None:
    """How much the pickler that asks has written, which it does every 64 KiB; None: unknown.

    Picklers do not say so, but multiprocessing's writes to a file of the function that calls it.
    """
    caller = sys._getframe(2)
    if caller.f_code is not reduction.dump.__code__:
        return None
    try:
        return int(caller.f_locals["file"].tell())
    except own_errors(OSError):  # a pipe: so on Windows
        return None
