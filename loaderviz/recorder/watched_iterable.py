"""``watch``: records a loop over what is no DataLoader, such as a generator.

The recorder sees loaders through their classes, and those of generators and lists cannot be
changed. So a recording stands in for what it watches: a loop takes its batches from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from torch.utils.data import DataLoader

from loaderviz import machine
from loaderviz.errors import LoaderVizError
from loaderviz.recorder.session import Recording


def watch(
    iterable: Iterable[Any], *, path: str | Path | None = None, label: str | None = None
) -> Watched:
    """Record a loop over any iterable: a generator, a list of batches, a loader of your own.

    >>> with watch(my_batches()) as batches:
    ...     for batch in batches:
    ...         train_step(batch)
    >>> print(batches.trace.summary())

    What the block gets is a ``Recording`` that behaves as the iterable: the same objects, in one
    pass or several, the same errors and the same end; ``len()``, ``next()``, ``close()`` and its
    other attributes are the iterable's own. After the block it goes on unrecorded.

    Recorded is what the loop sees: each wait and each step, and the samples of a batch where its
    form tells; an error, and which batch it took the place of. What ``send()`` returns is not. Why
    the loop waits is ``unknown``, as the work behind an iterable is not seen. Where it takes its
    batches from a DataLoader, that one is recorded as by ``record``, with every other in the block.

    Args:
        iterable: whatever a ``for`` loop takes.
        path: a folder to keep the recording in, as ``record`` has it.
        label: a name for the recording, shown where several are compared.

    Raises:
        LoaderVizError: for what no loop can take, and, at the block's begin, as ``record`` does.
    """
    kind = type(iterable)
    if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        raise LoaderVizError(
            f"watch() takes what a for loop takes, but got {kind.__name__} {iterable!r:.60}. "
            "Call the function that makes the batches: watch(my_batches())."
        )
    watched = WatchedIterator if hasattr(kind, "__next__") else Watched
    return watched(iterable, path, label)


class Watched(Recording):
    """A recording of what is no DataLoader, which is iterated in its place."""

    def __init__(self, iterable: Any, path: str | Path | None, label: str | None) -> None:
        own = [iterable] if issubclass(type(iterable), DataLoader) else []
        shared = path is not None and machine.world_size() > 1
        super().__init__(own, every_loader=True, path=path, path_is_shared=shared, label=label)
        self.stands_for = iterable

    def __enter__(self) -> Self:
        self._foreign = [self]  # not earlier: it would keep itself alive
        try:
            return super().__enter__()
        finally:
            self._foreign = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.stands_for)

    def __len__(self) -> int:
        return len(self.stands_for)

    def __length_hint__(self) -> Any:
        hint = getattr(self.stands_for, "__length_hint__", None)
        return NotImplemented if hint is None else hint()

    def __bool__(self) -> bool:
        return bool(self.stands_for)

    def __getattr__(self, name: str) -> Any:
        if name == "stands_for":  # while it is made
            raise AttributeError(name)
        return getattr(self.stands_for, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "stands_for" in self.__dict__ and name not in self.__dict__:
            setattr(self.stands_for, name, value)
        else:
            super().__setattr__(name, value)


class WatchedIterator(Watched):
    """One that is its own iterator, as a generator is: a second loop goes on where it stands."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.stands_for)
