"""Where iterators come from: the one place that changes torch's DataLoader, while it records.

``_get_iterator`` is called below every ``__iter__``, once for each iterator (torch/utils/data/
dataloader.py, ``DataLoader.__iter__``). It is shadowed on the class that defines it, so that the
user's loader keeps its attributes and can be pickled or copied meanwhile. While it runs, the
attributes that torch gives the new iterator tell how far it is.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from torch.utils.data import DataLoader, _utils, dataloader

from loaderviz.errors import LoaderVizError
from loaderviz.recorder.iterator_log import IteratorLog
from loaderviz.recorder.recorded_iterator import time_pins
from loaderviz.recorder.traceback_filter import is_ours, unseen


class Observer(Protocol):
    """A running recording, as seen from here."""

    def wants(self, loader: DataLoader[Any]) -> bool: ...

    def iterator_begun(self, loader: DataLoader[Any], iterator: Any) -> IteratorLog | None: ...

    def worker_hook(self, log: IteratorLog, user_init: Any) -> Any: ...

    def fetcher_made(self, log: IteratorLog, iterator: Any, fetcher: Any) -> None: ...

    def iterator_built(self, log: IteratorLog, iterator: Any) -> None: ...

    def begin_span(self, name: str, at: int) -> Any: ...

    def end_span(self, begun: Any, at: int) -> None: ...

    def fail(self, error: Exception) -> None: ...

    def forget(self) -> None: ...


_lock = threading.RLock()
_observers: list[Observer] = []
_here = threading.local()  # .building: what this thread is building, the innermost last
_shadowed: dict[type, tuple[Any, int]] = {}  # class: its own _get_iterator, how many want it

_Iterator: Any = dataloader._BaseDataLoaderIter
_Multi: Any = dataloader._MultiProcessingDataLoaderIter
# Attributes of classes and modules that are used here, in this room and in ``loaders``.
_NEEDED = (
    (DataLoader, "_get_iterator"),
    (_Iterator, "_next_index"),
    (_Iterator, "_next_data"),
    (_Iterator, "_reset"),
    (_Multi, "_try_put_index"),
    (_Multi, "_process_data"),
    (dataloader._DatasetKind, "create_fetcher"),
    (_utils.fetch, "_MapDatasetFetcher"),
    (_utils.fetch, "_IterableDatasetFetcher"),
)
# ... and of objects.
_NEEDED_OF_OBJECTS = (
    (DataLoader, ("_iterator", "_DataLoader__multiprocessing_context")),
    (_Iterator, ("_dataset", "_auto_collation", "_num_workers")),
    (dataloader._SingleProcessDataLoaderIter, ("_dataset_fetcher",)),
    (_Multi, ("_worker_init_fn", "_workers", "_data_queue", "_workers_status")),
    (_Multi, ("_send_idx", "_task_info")),
)


def check_torch() -> None:
    """Raises LoaderVizError where this release of torch has moved a part that is needed here."""
    missing = [f"{owner.__name__}.{name}" for owner, name in _NEEDED if not hasattr(owner, name)]
    for owner, names in _NEEDED_OF_OBJECTS:
        mentioned = _names_in(owner)
        if mentioned is not None:
            missing += [f"{owner.__name__}.{name}" for name in names if name not in mentioned]
    if hasattr(_Multi, "_process_data") and not _is_told_the_worker(_Multi._process_data):
        missing.append("worker among what _MultiProcessingDataLoaderIter._process_data is given")
    if missing:
        import torch

        raise LoaderVizError(
            f"torch {torch.__version__} has no {missing[0]}, which loaderviz needs to record. "
            "Nothing was changed. Use a release of torch that loaderviz supports."
        )


def _is_told_the_worker(process_data: Any) -> bool:
    """Not so in torch 2.6."""
    code = getattr(inspect.unwrap(process_data), "__code__", None)
    return code is None or code.co_argcount >= 3 or bool(code.co_flags & inspect.CO_VARARGS)


def _names_in(owner: type) -> set[str] | None:
    """Attributes that a class declares, or mentions in its methods and properties.

    None: another tool has put a function of its own in the place of one, and nobody can tell.
    """
    names = {*vars(owner).get("__annotations__", ())}
    for found in vars(owner).values():
        function = inspect.unwrap(getattr(found, "fget", None) or found)
        code = getattr(function, "__code__", None)
        if code is not None:
            if code.co_filename != dataloader.__file__:
                return None
            names.update(code.co_names)
    return names


def running() -> list[Observer]:
    """The recordings that are running in this process."""
    return list(_observers)


def attach(observer: Observer, classes: set[type]) -> None:
    """Tell ``observer`` of each iterator that loaders of these classes build from now on.

    Further classes may be added later.
    """
    with _lock:
        for owner in {_owner(cls) for cls in classes}:
            original, users = _shadowed.get(owner, (owner.__dict__["_get_iterator"], 0))
            if users == 0:
                owner._get_iterator = _shadow(original)  # type: ignore[attr-defined]
            _shadowed[owner] = original, users + 1
        if not _observers:
            for name, act in _ACTS.items():
                setattr(_Iterator, name, _OnSet(name, act))
        if observer not in _observers:
            _observers.append(observer)


def detach(observer: Observer, classes: set[type]) -> None:
    with _lock:
        if observer not in _observers:  # never attached, or forgotten in a forked process
            return
        _observers.remove(observer)
        if not _observers:
            _remove_acts()
        for owner in {_owner(cls) for cls in classes}:
            original, users = _shadowed.pop(owner)
            if users == 1:
                owner._get_iterator = original  # type: ignore[attr-defined]
            else:
                _shadowed[owner] = original, users - 1


def every_class() -> set[type]:
    """``DataLoader``, and each subclass so far that builds its iterators without it."""
    found: set[type] = {DataLoader}
    to_see: list[Any] = [DataLoader]
    while to_see:
        for cls in to_see.pop().__subclasses__():
            to_see.append(cls)
            if "_get_iterator" in vars(cls):
                found.add(cls)
    return found


def _owner(cls: type) -> type:
    return next(base for base in cls.__mro__ if "_get_iterator" in base.__dict__)


def _shadow(original: Any) -> Any:
    @functools.wraps(original)
    def _get_iterator(loader: DataLoader[Any]) -> Any:
        stack: list[_Building] = _here.__dict__.setdefault("building", [])
        if any(loader is each.loader for each in stack):  # an override that calls super()
            return original(loader)
        building = _Building(loader)
        if not building.observers:
            return original(loader)
        stack.append(building)
        try:
            iterator = original(loader)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            stack.remove(building)
        building.finish(iterator)
        return iterator

    return _get_iterator


def guarded(observer: Observer, act: Callable[..., Any], *args: Any) -> Any:
    """What ``act`` returns; None where it failed, which ends that recording and nothing else."""
    try:
        return act(*args)
    except Exception as error:
        if not is_ours(error):
            raise
        observer.fail(error)
        return None


class _Building:
    """One iterator that is being built, and the recordings that want to know."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.iterator: Any = None
        self.observers = [each for each in running() if guarded(each, each.wants, loader)]
        self._logs: list[tuple[Observer, IteratorLog]] = []
        self._user_init: list[Any] = []

    def begin(self, iterator: Any, dataset: Any) -> Any:
        if self.iterator is None and dataset is self.loader.dataset:
            self.iterator = iterator
            for observer in self.observers:
                log = guarded(observer, observer.iterator_begun, self.loader, iterator)
                if log is not None:
                    self._logs.append((observer, log))
        return dataset

    def hook_workers(self, iterator: Any, init: Any) -> Any:
        if iterator is not self.iterator or self._user_init:
            return init
        self._user_init.append(init)
        for observer, log in self._logs:
            init = guarded(observer, observer.worker_hook, log, init) or init
        return init

    def time_fetcher(self, iterator: Any, fetcher: Any) -> Any:
        if iterator is self.iterator:
            for observer, log in self._logs:
                guarded(observer, observer.fetcher_made, log, iterator, fetcher)
        return fetcher

    def time_pins(self, iterator: Any, queue: Any) -> Any:
        if iterator is self.iterator:
            for observer, _ in self._logs[:1]:  # once for all
                guarded(observer, time_pins, iterator, queue)
        return queue

    def finish(self, iterator: Any) -> None:
        for observer, log in self._logs:
            guarded(observer, observer.iterator_built, log, iterator)
        if self._user_init:
            iterator.__dict__["_worker_init_fn"] = self._user_init[0]


class _OnSet:
    """Tells when an attribute of an iterator that is being built is set.

    Without a ``__get__`` it is not in the way of reading, which finds the attribute as ever.
    """

    def __init__(self, name: str, act: Callable[[_Building, Any, Any], Any]) -> None:
        self._name = name
        self._act = act

    def __set__(self, iterator: Any, value: Any) -> None:
        stack: list[_Building] = _here.__dict__.get("building", [])
        iterator.__dict__[self._name] = self._act(stack[-1], iterator, value) if stack else value

    def __delete__(self, iterator: Any) -> None:
        if self._name not in iterator.__dict__:
            raise AttributeError(self._name)
        del iterator.__dict__[self._name]


_ACTS: dict[str, Callable[[_Building, Any, Any], Any]] = {
    "_dataset": _Building.begin,  # the first one that torch sets
    "_worker_init_fn": _Building.hook_workers,
    "_dataset_fetcher": _Building.time_fetcher,
    "_data_queue": _Building.time_pins,
}


def _remove_acts() -> None:
    for name in _ACTS:
        if name in vars(_Iterator):
            delattr(_Iterator, name)


def _forget_in_child() -> None:
    """A forked process is not the one that is recorded; its workers' hooks begin anew."""
    global _lock, _here
    _lock = threading.RLock()
    _here = threading.local()
    for observer in _observers:
        observer.forget()
    _observers.clear()
    _remove_acts()
    for owner, (original, _) in _shadowed.items():
        owner._get_iterator = original  # type: ignore[attr-defined]
    _shadowed.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
