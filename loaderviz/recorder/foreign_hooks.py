"""Hooks into the classes of loaders that are none of torch's: ``__iter__``, and ``__next__``.

They are replaced on the class of each recorded loader while its recording runs, so the loader keeps
its own attributes. Other objects of the class are iterated as ever. A loader that is its own
iterator is seen in ``__next__``; before any other iterator stands a ``ForeignIterator``.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from loaderviz.clocks.process_clock import now
from loaderviz.recorder import dataloader_hooks
from loaderviz.recorder.dataloader_hooks import call_guarded
from loaderviz.recorder.traceback_filter import hide_recorder_frames

_lock = threading.RLock()
_users: dict[type, int] = {}
_own: dict[tuple[type, str], Any] = {}  # what classes define themselves, of what is replaced


def attach(classes: Iterable[type]) -> None:
    """Tell the running recordings of each iteration of their loaders of these classes."""
    with _lock:
        for cls in classes:
            _users[cls] = _users.get(cls, 0) + 1
            if _users[cls] == 1:
                _replace(cls, "__iter__", _iter_hook(cls))
                if hasattr(cls, "__next__"):
                    _replace(cls, "__next__", _next_hook(cls))


def detach(classes: Iterable[type]) -> None:
    """Undo ``attach``; in a forked process, where nothing is left to undo, nothing."""
    with _lock:
        for cls in classes:
            if cls in _users:
                _users[cls] -= 1
                if not _users[cls]:
                    _restore(cls)


def _replace(cls: Any, name: str, hook: Any) -> None:
    if name in vars(cls):
        _own[cls, name] = vars(cls)[name]
    setattr(cls, name, hook)


def _restore(cls: Any) -> None:
    del _users[cls]
    for name in ("__iter__", "__next__"):
        if (cls, name) in _own:
            setattr(cls, name, _own.pop((cls, name)))
        elif name in vars(cls):
            delattr(cls, name)


def _iter_hook(cls: Any) -> Any:
    original = cls.__iter__

    @functools.wraps(original)
    def __iter__(loader: Any) -> Iterator[Any]:  # noqa: N807
        if dataloader_hooks.is_building():  # torch's own iterator reads it as a dataset
            return original(loader)  # type: ignore[no-any-return]
        logs = dataloader_hooks.begin_foreign(loader, now())
        try:
            iterator = original(loader)
        except BaseException as error:
            hide_recorder_frames(error)
            raise
        return dataloader_hooks.watch_foreign(iterator, logs, loader)  # type: ignore[no-any-return]

    return __iter__


def _next_hook(cls: Any) -> Any:
    original = cls.__next__

    @functools.wraps(original)
    def __next__(loader: Any) -> Any:  # noqa: N807
        take = functools.partial(original, loader)
        for observer in dataloader_hooks.running():
            log = call_guarded(observer, observer.foreign_log, loader)
            if log is not None:
                take = functools.partial(log.take, take)
        try:
            return take()
        except BaseException as error:
            hide_recorder_frames(error)
            raise

    return __next__


def _forget_in_child() -> None:
    """Remove all hooks in a forked process: it is not the one that is recorded."""
    global _lock
    _lock = threading.RLock()
    for cls in list(_users):
        _restore(cls)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
