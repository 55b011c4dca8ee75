"""Attributes of classes, replaced while a recording runs: the only place that changes a class."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from loaderviz.own_errors import own_errors

if TYPE_CHECKING:
    from loaderviz.recorder.iterator_watcher import Watcher

Place = tuple[type, str]  # a class, and the name of an attribute
Hook = Callable[[Any], Any]  # makes what takes its place; is given the class

under_way = threading.local()  # what this thread is in the middle of, by attributes of hooks
_lock = threading.RLock()
_watchers: dict[Watcher, dict[Place, Hook]] = {}
_replaced: dict[Place, Any] = {}  # what the class defines there itself, None: nothing


def running() -> list[Watcher]:
    """The recordings that are running in this process."""
    return list(_watchers)


def attach(watcher: Watcher, hooks: Mapping[Place, Hook]) -> None:
    """Put in these hooks, which tell the running recordings; may be called again, to add some."""
    with _lock:
        _watchers.setdefault(watcher, {}).update(hooks)
        _set_right()


def detach(watcher: Watcher) -> None:
    """Tell ``watcher`` nothing more; what nobody else needs is as it was."""
    with _lock:
        _watchers.pop(watcher, None)
        _set_right()


def _set_right() -> None:
    """Put in the hooks that are missing, and remove those that nobody needs.

    Wherever an exception from outside has interrupted it, the next call does the rest.
    """
    needed = {place: hook for hooks in _watchers.values() for place, hook in hooks.items()}
    for cls, name in [place for place in needed if place not in _replaced]:
        _replaced[cls, name] = vars(cls).get(name)
    for (cls, name), original in list(_replaced.items()):
        is_original = vars(cls).get(name) is original
        if (cls, name) in needed:
            if is_original:
                setattr(cls, name, needed[cls, name](cls))
            continue
        if original is not None:
            setattr(cls, name, original)
        elif not is_original:
            delattr(cls, name)
        del _replaced[cls, name]


def call_guarded(watcher: Watcher, function: Callable[..., Any], *args: Any) -> Any:
    """Call ``function`` for a recording; returns its result, or None where it failed.

    A failure of ours ends that recording and nothing else; an error from outside goes on.
    """
    try:
        return function(*args)
    except own_errors(Exception) as error:
        watcher.fail(error)
        return None


def _forget_in_child() -> None:
    """Remove all hooks in a forked process: it is not the one that is recorded.

    A worker sets up its own recording anew (``worker_process.py``).
    """
    global _lock
    _lock = threading.RLock()
    under_way.__dict__.clear()
    for watcher in _watchers:
        watcher.forget()
    _watchers.clear()
    _set_right()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
