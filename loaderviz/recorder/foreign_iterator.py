"""Stands before an iterator that is none of torch's, and times what is taken from it."""

from __future__ import annotations

import functools
from collections.abc import Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from loaderviz.recorder.user_frames import hide_recorder_frames

if TYPE_CHECKING:
    from loaderviz.recorder.foreign_log import ForeignLog

_OWN = ("_loaderviz_iterator", "_loaderviz_log", "_loaderviz_loader")


def watched(iterator: Any, log: ForeignLog, loader: Any) -> Any:
    """What the loop gets in place of the iterator; before a generator that is a generator, too."""
    if type(iterator) is not GeneratorType:
        return ForeignIterator(iterator, log, loader)
    generator: Any = _watched_generator(iterator, log, loader)
    generator.__name__, generator.__qualname__ = iterator.__name__, iterator.__qualname__
    return generator


def _watched_generator(generator: Any, log: ForeignLog, loader: Any) -> Generator[Any, Any, Any]:
    """Yields what the generator yields, and passes on what it is sent; the loader lives as long."""
    take = generator.__next__
    try:
        while True:
            batch = log.take(take)
            try:
                sent = yield batch
            except GeneratorExit:
                raise
            except BaseException as error:
                take = functools.partial(generator.throw, error)
            else:
                take = (
                    generator.__next__ if sent is None else functools.partial(generator.send, sent)
                )
    except StopIteration as end:
        return end.value
    except BaseException as error:
        hide_recorder_frames(error)
        raise
    finally:
        generator.close()
        log.leave()


class ForeignIterator:
    """Answers as the iterator itself in all but ``next``, which it also writes to a log.

    Another class in place of the iterator's own, as ``recorded_iterator.py`` gives to torch's,
    would count what the iterator takes from itself.
    """

    def __init__(self, iterator: Any, log: ForeignLog, loader: Any) -> None:
        for name, value in zip(_OWN, (iterator, log, loader), strict=True):
            object.__setattr__(self, name, value)  # the loader, so that it lives as long
        log.watch_end_of(self)

    def __next__(self) -> Any:
        try:
            return self._loaderviz_log.take(self._loaderviz_iterator.__next__)
        except BaseException as error:
            hide_recorder_frames(error)
            raise

    def __iter__(self) -> Any:
        iterator = iter(self._loaderviz_iterator)
        return self if iterator is self._loaderviz_iterator else iterator

    def __len__(self) -> int:
        return len(self._loaderviz_iterator)

    def __length_hint__(self) -> Any:
        hint = getattr(self._loaderviz_iterator, "__length_hint__", None)
        return NotImplemented if hint is None else hint()

    def __bool__(self) -> bool:
        return bool(self._loaderviz_iterator)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self._loaderviz_iterator.__class__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaderviz_iterator, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._loaderviz_iterator, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._loaderviz_iterator, name)

    def __repr__(self) -> str:
        return repr(self._loaderviz_iterator)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._loaderviz_iterator.__reduce_ex__(protocol)
