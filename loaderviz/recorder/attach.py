"""Where iterators come from: the one place that changes torch's DataLoader, while it records.

``_get_iterator`` is called below every ``__iter__``, once for each iterator (torch/utils/data/
dataloader.py, ``DataLoader.__iter__``). It is shadowed on the class that defines it, so that the
user's loader keeps its attributes and can be pickled or copied meanwhile.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch.utils.data import DataLoader, _utils, dataloader

from loaderviz.errors import LoaderVizError
from loaderviz.recorder.iterators import StampedSampler
from loaderviz.recorder.unseen import unseen


class Observer(Protocol):
    """A running recording, as seen from here."""

    def wants(self, loader: DataLoader[Any]) -> bool: ...

    def worker_hook(self, user_init: Any) -> Any: ...

    def iterator_built(
        self, loader: DataLoader[Any], iterator: Any, hook: Any, drawn: list[tuple[int, int]]
    ) -> None: ...

    def begin_span(self, name: str, at: int) -> Any: ...

    def end_span(self, begun: Any, at: int) -> None: ...

    def fail(self, error: Exception) -> None: ...

    def forget(self) -> None: ...


_lock = threading.RLock()
_observers: list[Observer] = []
_turns: dict[int, tuple[threading.RLock, int]] = {}  # by the loader's id: its lock, its users
_here = threading.local()  # .building: the loaders that this thread is building from
_shadowed: dict[type, tuple[Any, int]] = {}  # class: its own _get_iterator, how many want it

_NEEDED = (
    (DataLoader, "_get_iterator"),
    (dataloader._BaseDataLoaderIter, "_next_index"),
    (dataloader._BaseDataLoaderIter, "_next_data"),
    (dataloader._BaseDataLoaderIter, "_reset"),
    (dataloader._MultiProcessingDataLoaderIter, "_try_put_index"),
    (dataloader._MultiProcessingDataLoaderIter, "_process_data"),
    (dataloader._DatasetKind, "create_fetcher"),
    (_utils.fetch, "_MapDatasetFetcher"),
    (_utils.fetch, "_IterableDatasetFetcher"),
)


def check_torch() -> None:
    """Raises LoaderVizError where this release of torch has moved a part that is needed here."""
    for owner, name in _NEEDED:
        if not hasattr(owner, name):
            import torch

            raise LoaderVizError(
                f"torch {torch.__version__} has no {owner.__name__}.{name}, which loaderviz needs "
                "to record. Nothing was changed. Use a release of torch that loaderviz supports."
            )


def running() -> list[Observer]:
    """The recordings that are running in this process."""
    return list(_observers)


def attach(observer: Observer, classes: set[type]) -> None:
    """Tell ``observer`` of each iterator that loaders of these classes build from now on."""
    with _lock:
        for owner in {_owner(cls) for cls in classes}:
            original, users = _shadowed.get(owner, (owner.__dict__["_get_iterator"], 0))
            if users == 0:
                owner._get_iterator = _shadow(original)  # type: ignore[attr-defined]
            _shadowed[owner] = original, users + 1
        _observers.append(observer)


def detach(observer: Observer, classes: set[type]) -> None:
    with _lock:
        if observer not in _observers:  # never attached, or forgotten in a forked process
            return
        _observers.remove(observer)
        for owner in {_owner(cls) for cls in classes}:
            original, users = _shadowed.pop(owner)
            if users == 1:
                owner._get_iterator = original  # type: ignore[attr-defined]
            else:
                _shadowed[owner] = original, users - 1


def _owner(cls: type) -> type:
    return next(base for base in cls.__mro__ if "_get_iterator" in base.__dict__)


def _shadow(original: Any) -> Any:
    @functools.wraps(original)
    def _get_iterator(loader: DataLoader[Any]) -> Any:
        building: list[int] = _here.__dict__.setdefault("building", [])
        observers = [each for each in list(_observers) if each.wants(loader)]
        if not observers or id(loader) in building:  # the latter: an override that calls super()
            return original(loader)
        with _turn(loader):
            building.append(id(loader))
            try:
                return _build(loader, original, observers)
            except BaseException as error:
                unseen(error)
                raise
            finally:
                building.remove(id(loader))

    return _get_iterator


@contextmanager
def _turn(loader: DataLoader[Any]) -> Iterator[None]:
    """One thread at a time builds from a loader.

    Not one in all: building runs the user's code, which may wait for another loader's.
    """
    with _lock:
        turn, users = _turns.get(id(loader), (threading.RLock(), 0))
        _turns[id(loader)] = turn, users + 1
    try:
        with turn:
            yield
    finally:
        with _lock:
            turn, users = _turns.pop(id(loader))
            if users > 1:
                _turns[id(loader)] = turn, users - 1


def _build(loader: DataLoader[Any], original: Any, observers: list[Observer]) -> Any:
    """Build the iterator, with the observers' hooks in place for just as long."""
    swaps: dict[str, Any] = {}
    sampler = None
    hooks: list[Any] = [None] * len(observers)
    if loader.num_workers > 0:
        init = loader.worker_init_fn
        for i, observer in enumerate(observers):
            init = hooks[i] = observer.worker_hook(init)
        swaps["worker_init_fn"] = init
        if _owner(type(loader)) is DataLoader:  # others may look into their sampler while building
            name = "batch_sampler" if loader._auto_collation else "sampler"
            swaps[name] = sampler = StampedSampler(getattr(loader, name), loader._auto_collation)
    with _swapped(loader, swaps):
        iterator = original(loader)
    if sampler is not None and iterator._index_sampler is sampler:
        iterator._index_sampler = sampler.sampler
        iterator._sampler_iter = sampler.plain
    drawn = [] if sampler is None else sampler.drawn
    for observer, hook in zip(observers, hooks, strict=True):
        try:
            observer.iterator_built(loader, iterator, hook, drawn)
        except Exception as error:
            observer.fail(error)
    return iterator


@contextmanager
def _swapped(loader: DataLoader[Any], values: dict[str, Any]) -> Iterator[None]:
    """These attributes of the loader, for the time of the block.

    Past ``DataLoader.__setattr__``, which refuses to change a loader.
    """
    before = {name: loader.__dict__[name] for name in values if name in loader.__dict__}
    loader.__dict__.update({name: values[name] for name in before})
    try:
        yield
    finally:
        loader.__dict__.update(before)


def _forget_in_child() -> None:
    """A forked process is not the one that is recorded; its workers' hooks begin anew."""
    global _lock, _here
    _lock = threading.RLock()
    _here = threading.local()
    _turns.clear()
    for observer in _observers:
        observer.forget()
    _observers.clear()
    for owner, (original, _) in _shadowed.items():
        owner._get_iterator = original  # type: ignore[attr-defined]
    _shadowed.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
