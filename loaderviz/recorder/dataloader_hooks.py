"""Hooks into torch's DataLoader classes, where iterators are made.

Every ``__iter__`` calls ``_get_iterator`` once for each iterator (torch/utils/data/dataloader.py,
``DataLoader.__iter__``). It is replaced on the class that defines it, while a recording runs, so
the user's loader keeps its own attributes and can be pickled or copied meanwhile. How far the new
iterator is built shows in the attributes that torch sets on it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import _C
from torch.utils.data import DataLoader, _utils, dataloader

from loaderviz.clocks.process_clock import now
from loaderviz.errors import LoaderVizError
from loaderviz.recorder.class_hooks import Hook, Place, call_guarded, running, under_way
from loaderviz.recorder.foreign_iterator import ForeignIterator, watched
from loaderviz.recorder.iterator_log import IteratorLog
from loaderviz.recorder.recorded_iterator import time_pins
from loaderviz.recorder.user_frames import hide_recorder_frames
from loaderviz.recorder.worker_start import BeforeDataset

if TYPE_CHECKING:
    from loaderviz.recorder.foreign_log import ForeignLog
    from loaderviz.recorder.iterator_watcher import Watcher

_Iterator: Any = dataloader._BaseDataLoaderIter
_Multi: Any = dataloader._MultiProcessingDataLoaderIter
# Attributes of classes and modules that ``recorder`` and ``loaders`` use ...
_NEEDED_ATTRIBUTES = (
    (DataLoader, "_get_iterator"),
    (_Iterator, "_next_index"),
    (_Iterator, "_next_data"),
    (_Iterator, "_reset"),
    (_Multi, "_try_put_index"),
    (_Multi, "_process_data"),
    (_Multi, "_try_get_data"),
    (dataloader._DatasetKind, "create_fetcher"),
    (_utils.fetch, "_MapDatasetFetcher"),
    (_utils.fetch, "_IterableDatasetFetcher"),
    (_utils.worker, "_worker_info"),
    (_C, "_is_torch_function_mode_enabled"),
)
# ... and attributes of instances.
_NEEDED_OF_INSTANCES = (
    (DataLoader, ("_iterator", "_DataLoader__multiprocessing_context")),
    (_Iterator, ("_dataset", "_dataset_kind", "_auto_collation", "_num_workers")),
    (dataloader._SingleProcessDataLoaderIter, ("_dataset_fetcher",)),
    (_Multi, ("_worker_init_fn", "_workers", "_data_queue", "_workers_status")),
    (_Multi, ("_send_idx", "_rcvd_idx", "_task_info", "_shutdown")),
)


def check_torch() -> None:
    """Raise LoaderVizError where this release of torch lacks a private part that we use."""
    missing = [
        f"{owner.__name__}.{name}" for owner, name in _NEEDED_ATTRIBUTES if not hasattr(owner, name)
    ]
    for owner, names in _NEEDED_OF_INSTANCES:
        mentioned = _attributes_of(owner)
        if mentioned is not None:
            missing += [f"{owner.__name__}.{name}" for name in names if name not in mentioned]
    if hasattr(_Multi, "_process_data") and not _takes_worker(_Multi._process_data):
        missing.append("worker among what _MultiProcessingDataLoaderIter._process_data is given")
    if missing:
        import torch

        raise LoaderVizError(
            f"torch {torch.__version__} has no {missing[0]}, which loaderviz needs to record. "
            "Nothing was changed. Use a release of torch that loaderviz supports."
        )


def _takes_worker(process_data: Any) -> bool:
    """Whether ``_process_data`` is told whose data it gets, as in all releases after torch 2.6."""
    code = getattr(inspect.unwrap(process_data), "__code__", None)
    return code is None or code.co_argcount >= 3 or bool(code.co_flags & inspect.CO_VARARGS)


def _attributes_of(owner: type) -> set[str] | None:
    """The attributes that a class declares, or mentions in its methods and properties.

    None where another tool has replaced one of its functions, so that this cannot be told.
    """
    names = {*vars(owner).get("__annotations__", ())}
    for value in vars(owner).values():
        function = inspect.unwrap(getattr(value, "fget", None) or value)
        code = getattr(function, "__code__", None)
        if code is not None:
            if code.co_filename != dataloader.__file__:
                return None
            names.update(code.co_names)
    return names


def hooks_of(classes: set[type]) -> dict[Place, Hook]:
    """The hooks that tell of each iterator which loaders of these classes build."""
    hooks: dict[Place, Hook] = {
        (_defining_class(cls), "_get_iterator"): _hook_of_get_iterator for cls in classes
    }
    for name, action in _SET_HOOKS.items():
        hooks[_Iterator, name] = functools.partial(_SetHook, name, action)
    return hooks


def every_class(method: str = "_get_iterator") -> set[type]:
    """``DataLoader``, and each subclass so far that has a method of that name of its own."""
    classes: set[type] = {DataLoader}
    to_visit: list[Any] = [DataLoader]
    while to_visit:
        for cls in to_visit.pop().__subclasses__():
            to_visit.append(cls)
            if method in vars(cls):
                classes.add(cls)
    return classes


def _defining_class(cls: type) -> type:
    return next(base for base in cls.__mro__ if "_get_iterator" in base.__dict__)


def _hook_of_get_iterator(cls: Any) -> Any:
    original = vars(cls)["_get_iterator"]

    @functools.wraps(original)
    def _get_iterator(loader: DataLoader[Any]) -> Any:
        stack: list[_Building] = under_way.__dict__.setdefault("building", [])
        if any(loader is building.loader for building in stack):  # an override that calls super()
            return original(loader)
        building = _Building(loader)
        if not building.watchers:
            return original(loader)
        begun_ns = now()
        try:
            stack.append(building)
            iterator = original(loader)
        except BaseException as error:
            hide_recorder_frames(error)
            raise
        finally:
            if building in stack:
                stack.remove(building)
        if building.iterator is None:  # the subclass loads by means of its own
            return watch_foreign(iterator, begin_foreign(loader, begun_ns), loader)
        building.finish()
        return iterator

    return _get_iterator


def is_building() -> bool:
    """Whether this thread is building an iterator that is recorded."""
    return bool(under_way.__dict__.get("building"))


def begin_foreign(loader: Any, at_ns: int) -> list[ForeignLog]:
    """Tell the running recordings of an iterator that may be none of torch's."""
    logs = [call_guarded(watcher, watcher.foreign_begun, loader, at_ns) for watcher in running()]
    return [log for log in logs if log is not None]


def watch_foreign(iterator: Any, logs: list[ForeignLog], loader: Any) -> Any:
    """The iterator that the loop is to get, once the loader has made this one."""
    if issubclass(type(iterator), _Iterator | ForeignIterator):
        return iterator
    for log in logs:
        log.note_made()
        if not log.muted and iterator is not loader:
            iterator = watched(iterator, log, loader)
    return iterator


class _Building:
    """One iterator that is being built, and the recordings that record it.

    A method that is called for an attribute of the iterator returns the value to set.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.iterator: Any = None
        self.watchers = [
            watcher for watcher in running() if call_guarded(watcher, watcher.wants, loader)
        ]
        self._logs: list[tuple[Watcher, IteratorLog]] = []
        self._user_init: list[Any] = []

    def begin(self, iterator: Any, dataset: Any) -> Any:
        if self.iterator is None and dataset is self.loader.dataset:
            self.iterator = iterator
            for watcher in self.watchers:
                log = call_guarded(watcher, watcher.iterator_begun, self.loader, iterator)
                if log is not None:
                    self._logs.append((watcher, log))
        return dataset

    def time_pickling(self, iterator: Any, kind: Any) -> Any:
        is_ours = iterator is self.iterator and self._logs and type(kind) is int
        return BeforeDataset(kind) if is_ours else kind

    def hook_workers(self, iterator: Any, init_fn: Any) -> Any:
        if iterator is not self.iterator or self._user_init:
            return init_fn
        self._user_init.append(init_fn)
        for watcher, log in self._logs:
            init_fn = call_guarded(watcher, watcher.make_worker_hook, log, init_fn) or init_fn
        return init_fn

    def time_fetcher(self, iterator: Any, fetcher: Any) -> Any:
        if iterator is self.iterator:
            for watcher, log in self._logs:
                call_guarded(watcher, watcher.fetcher_made, log, iterator, fetcher)
        return fetcher

    def time_pins(self, iterator: Any, queue: Any) -> Any:
        if iterator is self.iterator:
            for watcher, _ in self._logs[:1]:  # once for all of them
                call_guarded(watcher, time_pins, iterator, queue)
        return queue

    def finish(self) -> None:
        iterator = self.iterator  # which a subclass may hand out in a wrapper of its own
        for watcher, log in self._logs:
            call_guarded(watcher, watcher.iterator_built, log, iterator)
        if self._user_init:
            iterator.__dict__["_worker_init_fn"] = self._user_init[0]
        if isinstance(iterator.__dict__.get("_dataset_kind"), BeforeDataset):
            iterator.__dict__["_dataset_kind"] = int(iterator._dataset_kind)


class _SetHook:
    """Calls ``action`` when an attribute of an iterator that is being built is set.

    Reading the attribute is as fast as ever, since the hook has no ``__get__``.
    """

    def __init__(self, name: str, action: Callable[[_Building, Any, Any], Any], cls: type) -> None:
        self._name = name
        self._action = action

    def __set__(self, iterator: Any, value: Any) -> None:
        stack: list[_Building] = under_way.__dict__.get("building", [])
        iterator.__dict__[self._name] = self._action(stack[-1], iterator, value) if stack else value

    def __delete__(self, iterator: Any) -> None:
        if self._name not in iterator.__dict__:
            raise AttributeError(self._name)
        del iterator.__dict__[self._name]


_SET_HOOKS: dict[str, Callable[[_Building, Any, Any], Any]] = {
    "_dataset": _Building.begin,  # the first attribute that torch sets
    "_dataset_kind": _Building.time_pickling,
    "_worker_init_fn": _Building.hook_workers,
    "_dataset_fetcher": _Building.time_fetcher,
    "_data_queue": _Building.time_pins,
}
