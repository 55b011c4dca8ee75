"""Hooks into the classes of loaders that are none of torch's: ``__iter__``, and ``__next__``.

They are replaced on the class of each recorded loader while its recording runs, so the loader keeps
its own attributes. Other objects of the class are iterated as ever. A loader that is its own
iterator is seen in ``__next__``; before any other iterator stands a ``ForeignIterator``.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from loaderviz.clocks.process_clock import now
from loaderviz.recorder import dataloader_hooks
from loaderviz.recorder.dataloader_hooks import call_guarded
from loaderviz.recorder.user_frames import hide_recorder_frames

_NAMES = ("__iter__", "__next__")

_lock = threading.RLock()
_thread = threading.local()  # .making: the loaders whose __iter__ it is in
_observed: dict[Any, set[type]] = {}  # by the recording that watches the classes
_replaced: dict[Any, dict[str, Any]] = {}  # what classes define themselves, None: nothing


def attach(watcher: Any, classes: Iterable[type]) -> None:
    """Tell the running recordings of each iteration of their loaders of these classes.

    May be called again, to add classes.
    """
    with _lock:
        _observed.setdefault(watcher, set()).update(classes)
        _hook_what_is_observed()


def detach(watcher: Any) -> None:
    """Undo ``attach``."""
    with _lock:
        _observed.pop(watcher, None)
        _hook_what_is_observed()


def _hook_what_is_observed() -> None:
    """Put in the hooks that are missing, and remove those that nobody needs.

    Wherever an exception from outside has interrupted it, the next call sets things right.
    """
    observed = set().union(*_observed.values())
    for cls in observed - _replaced.keys():
        _replaced[cls] = {name: vars(cls).get(name) for name in _NAMES if hasattr(cls, name)}
    for cls, originals in list(_replaced.items()):
        for name, original in originals.items():
            is_original = vars(cls).get(name) is original
            if cls in observed and is_original:
                setattr(cls, name, _HOOKS[name](cls))
            elif cls not in observed and original is not None:
                setattr(cls, name, original)
            elif cls not in observed and not is_original:
                delattr(cls, name)
        if cls not in observed:
            del _replaced[cls]


def _iter_hook(cls: Any) -> Any:
    original = cls.__iter__

    @functools.wraps(original)
    def __iter__(loader: Any) -> Iterator[Any]:  # noqa: N807
        making: list[Any] = _thread.__dict__.setdefault("making", [])
        # Torch's own iterator reads it as a dataset, or a subclass calls super().
        if dataloader_hooks.is_building() or any(loader is each for each in making):
            return original(loader)  # type: ignore[no-any-return]
        logs = dataloader_hooks.begin_foreign(loader, now())
        try:
            making.append(loader)
            iterator = original(loader)
        except BaseException as error:
            hide_recorder_frames(error)
            raise
        finally:
            making[:] = [each for each in making if each is not loader]
        return dataloader_hooks.watch_foreign(iterator, logs, loader)  # type: ignore[no-any-return]

    return __iter__


def _next_hook(cls: Any) -> Any:
    original = cls.__next__

    @functools.wraps(original)
    def __next__(loader: Any) -> Any:  # noqa: N807
        take = functools.partial(original, loader)
        for watcher in dataloader_hooks.running():
            log = call_guarded(watcher, watcher.foreign_log, loader)
            if log is not None:
                take = functools.partial(log.take, take)
        try:
            return take()
        except BaseException as error:
            hide_recorder_frames(error)
            raise

    return __next__


_HOOKS: dict[str, Callable[[Any], Any]] = {"__iter__": _iter_hook, "__next__": _next_hook}


def _forget_in_child() -> None:
    """Remove all hooks in a forked process: it is not the one that is recorded."""
    global _lock, _thread
    _lock = threading.RLock()
    _thread = threading.local()
    _observed.clear()
    _hook_what_is_observed()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
