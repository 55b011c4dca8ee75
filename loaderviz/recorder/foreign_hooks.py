"""Hooks into the classes of loaders that are none of torch's: ``__iter__``, and ``__next__``.

They are replaced on the class of each recorded loader while its recording runs, so the loader keeps
its own attributes. Other objects of the class are iterated as ever. A loader that is its own
iterator is seen in ``__next__``; before any other iterator stands a ``ForeignIterator``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from loaderviz.clocks.process_clock import now
from loaderviz.recorder import dataloader_hooks
from loaderviz.recorder.class_hooks import Hook, Place, call_guarded, running, under_way
from loaderviz.recorder.user_frames import hide_recorder_frames


def hooks_of(classes: Iterable[type]) -> dict[Place, Hook]:
    """The hooks that tell of each iteration of loaders of these classes."""
    hooks = {"__iter__": _iter_hook, "__next__": _next_hook}
    return {
        (cls, name): hook for cls in classes for name, hook in hooks.items() if hasattr(cls, name)
    }


def _iter_hook(cls: Any) -> Any:
    original = cls.__iter__

    @functools.wraps(original)
    def __iter__(loader: Any) -> Iterator[Any]:  # noqa: N807
        making: list[Any] = under_way.__dict__.setdefault("making", [])
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
        for watcher in running():
            log = call_guarded(watcher, watcher.foreign_log, loader)
            if log is not None:
                take = functools.partial(log.take, take)
        try:
            return take()
        except BaseException as error:
            hide_recorder_frames(error)
            raise

    return __next__
