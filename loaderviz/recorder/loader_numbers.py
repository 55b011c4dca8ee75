"""Which number each loader of a recording has, without keeping any of them alive."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch.utils.data import DataLoader


class _Known(NamedTuple):
    reference: weakref.ref[DataLoader[Any]]
    number: int
    epochs: Iterator[int]


class LoaderNumbers:
    """Numbers loaders from 0, and lets them go: a loader ends when its user is done with it.

    By identity, as a loader may define what equals it.
    """

    def __init__(self, loaders: list[DataLoader[Any]]) -> None:
        self._by_id: dict[int, _Known] = {}
        self._n_met = 0
        for loader in loaders:
            self.add(loader)

    def add(self, loader: DataLoader[Any]) -> int:
        """Give the loader the next number."""
        key, number = id(loader), self._n_met
        # Without a line of Python: see IteratorLog.note_end.
        forget: Any = functools.partial(self._by_id.pop, key)
        self._by_id[key] = _Known(weakref.ref(loader, forget), number, itertools.count())
        self._n_met += 1
        return number

    def number_of(self, loader: DataLoader[Any]) -> int | None:
        """The loader's number; None for one that has none."""
        known = self._by_id.get(id(loader))
        return known.number if known is not None and known.reference() is loader else None

    def epochs_of(self, loader: DataLoader[Any]) -> Iterator[int]:
        """The numbers of its epochs, as they begin; for a loader that has a number."""
        return self._by_id[id(loader)].epochs

    def living(self) -> list[DataLoader[Any]]:
        """The loaders that have not ended, by number."""
        loaders = [known.reference() for known in list(self._by_id.values())]
        return [loader for loader in loaders if loader is not None]
