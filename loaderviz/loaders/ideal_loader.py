"""``ideal``: a loader whose batches cost nothing, to see what a loop takes if it never waits."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

from loaderviz.argument_checks import whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.copy_loader import copy_loader, let_go_of_iterator
from loaderviz.loaders.random_state import keep_random_state

_NO_LOADERS = (str, bytes, list, tuple, dict, set, frozenset, range, Dataset, Sampler)


def ideal(loader: Iterable[Any], batches: int = 20, *, length: int | None = None) -> Ideal:
    """A loader that costs nothing: it reads a few batches, and hands them out again and again.

    >>> with loaderviz.record(fast := loaderviz.ideal(loader)) as rec:
    ...     for batch in fast:
    ...         train_step(batch)
    >>> print(rec.trace.summary())

    A loop over it goes as fast as steps allow. Where it is no faster than over the loader itself,
    the data are not what holds it up. In a recording it is called ``Ideal``.

    For measuring alone: contents repeat, so a model learns these few batches by heart, and what
    depends on them (losses, metrics, the shapes of later batches) is none of the loader's. The
    batches stay in memory, pinned where the loader pins, and a loop that changes one in place gets
    it changed the next time. What the loop itself does to get a batch onto a device is not saved.

    The batches are read before this returns, by workers of their own, which have ended by then: the
    loader keeps its workers, settings and attributes, and random generators go on as if nothing had
    been read. A loader that is none of torch's is iterated as it is.

    Args:
        loader: a ``DataLoader``, or another loader that can be iterated again.
        batches: how many to read, 1 or more; fewer where the loader ends before.
        length: how many an epoch is to hand out. None: as many as the loader's ``len()``; where it
            has none, as many as were read.

    Returns:
        An iterable for any number of epochs, each from the first batch on. It has a ``len()`` where
        the loader has one or ``length`` is given, and the loader's public attributes.

    Raises:
        LoaderVizError: for what is no loader, such as an iterator or a dataset, for numbers below
            1, and for a loader that is empty.
    """
    wanted = whole_number("batches", batches, at_least=1)
    if length is not None:
        length = whole_number("length", length, at_least=1)
    is_data = isinstance(loader, _NO_LOADERS) and not isinstance(loader, IterableDataset)
    if not isinstance(loader, Iterable) or isinstance(loader, Iterator) or is_data:
        raise LoaderVizError(
            f"ideal() takes a loader, but got {type(loader).__name__} {loader!r:.60}. "
            "Pass the loader that your loop iterates: ideal(DataLoader(dataset, ...))."
        )
    if length is None:
        length = _length(loader)
    read = _read(loader, wanted)
    if not read:
        raise LoaderVizError(
            f"ideal() has no batch to hand out: {type(loader).__name__} {loader!r:.60} is empty. "
            "Check its dataset, batch_size and drop_last."
        )
    return Ideal(loader, read, length)


class Ideal:
    """What ``ideal`` returns: hands out ``batches`` in turn, as many an epoch as the loader."""

    def __init__(self, loader: Iterable[Any], batches: list[Any], length: int | None) -> None:
        self.batches = batches
        self._loader = loader
        self._length = length

    def __iter__(self) -> Iterator[Any]:
        n = len(self.batches) if self._length is None else self._length
        yield from itertools.islice(itertools.cycle(self.batches), n)

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError(f"{type(self._loader).__name__} has no len(): give ideal() a length")
        return self._length

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while it is copied or unpickled, and has no loader yet
            raise AttributeError(f"Ideal has no attribute {name!r}")
        return getattr(self._loader, name)

    def __repr__(self) -> str:
        return f"<Ideal: {len(self.batches)} batches of {type(self._loader).__name__}, in memory>"


def _length(loader: Any) -> int | None:
    """The loader's ``len()``; None where it has none, as with many a stream."""
    if not hasattr(type(loader), "__len__"):
        return None
    try:
        return len(loader)
    except (TypeError, NotImplementedError):  # as torch's where the dataset has none
        return None


def _read(loader: Any, n: int) -> list[Any]:
    """The first batches; whatever was started for them has ended."""
    if not issubclass(type(loader), DataLoader):
        iterator = iter(loader)
        try:
            return list(itertools.islice(iterator, n))
        finally:
            close = getattr(iterator, "close", None)
            if callable(close):
                close()
    with ExitStack() as kept:
        kept.enter_context(keep_random_state(loader))
        copied = copy_loader(loader)
        kept.callback(let_go_of_iterator, copied)  # with persistent workers, the copy holds it
        iterator = iter(copied)
        try:
            return list(itertools.islice(iterator, n))
        finally:
            del iterator  # ends its workers
