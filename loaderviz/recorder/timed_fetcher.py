"""Torch's fetchers, while they are timed: each ``fetch`` is told to timers.

A timed fetcher keeps its identity and its attributes. Only its class becomes a subclass of the one
it had, and the old one comes back with the last timer.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch.utils.data import Subset
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from loaderviz.recorder.line_looks import root
from loaderviz.recorder.user_frames import hide_recorder_frames

if TYPE_CHECKING:
    from loaderviz.recorder.timed_fetch import FetchTimer

_TIMERS = "_loaderviz_timers"


def add_timer(fetcher: Any, timer: FetchTimer, *, to_the_end: bool) -> None:
    """From now on tell ``timer`` of each fetch.

    ``to_the_end``: whether the fetcher goes through each index list to its end.
    """
    timers = fetcher.__dict__.setdefault(_TIMERS, [])
    if not timers:
        original: Any = type(fetcher)
        fetcher.__class__ = _timed_class(_Timed if to_the_end else _TimedWithCollate, original)
    timers.append(timer)


def remove_timer(fetcher: Any, timer: FetchTimer) -> None:
    """Tell ``timer`` nothing more; the fetcher is as it was once it has no timer left."""
    timers = fetcher.__dict__.get(_TIMERS, [])
    if timer in timers:
        timers.remove(timer)
        if not timers:
            fetcher.__class__ = fetcher._loaderviz_original
            del fetcher.__dict__[_TIMERS]


def reads_one_by_one(fetcher: Any) -> bool:
    """Whether torch's ``fetch`` goes through the index list sample by sample.

    A dataset with ``__getitems__`` reads all in one call of its own. ``Subset`` has it too, yet
    goes through the list where its dataset has none (torch/utils/data/dataset.py, ``Subset``).
    """
    if isinstance(fetcher, _Timed):
        timers: list[FetchTimer] = fetcher.__dict__[_TIMERS]
        return timers[0].per_sample
    if type(fetcher) is _IterableDatasetFetcher:
        return True
    if type(fetcher) is not _MapDatasetFetcher:
        return False
    dataset = fetcher.dataset
    if type(dataset) is Subset:
        return not callable(getattr(dataset.dataset, "__getitems__", None))
    return not getattr(dataset, "__getitems__", None)


class _Timed:
    """Mixed into the class of a fetcher: times each ``fetch``."""

    _loaderviz_original: Any  # the class that the fetcher had

    @root
    def fetch(self, index: Any) -> Any:
        timers: list[FetchTimer] = self.__dict__[_TIMERS]
        timed_index = index
        try:
            for timer in timers:
                timed_index = timer.begin(index, timed_index)
            batch = self._loaderviz_original.fetch(
                self, timed_index
            )  # takes less time than super()
            for timer in timers:
                timer.finish(None, batch)
        except BaseException as error:
            for timer in timers:
                timer.finish(error)
            hide_recorder_frames(error)
            raise
        return batch


class _TimedWithCollate(_Timed):
    """Also notes when the fetcher looks up its ``collate_fn``."""

    @property
    def collate_fn(self) -> Any:
        # Not a wrapper of the user's function, which would show in warnings and tracebacks.
        for timer in self.__dict__[_TIMERS]:
            timer.note_all_read()
        return self.__dict__["collate_fn"]

    @collate_fn.setter
    def collate_fn(self, collate_fn: Any) -> None:
        self.__dict__["collate_fn"] = collate_fn


@functools.cache
def _timed_class(mixin: type[_Timed], original: type) -> type:
    names = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "_loaderviz_original": original,
    }
    return type(original.__name__, (mixin, original), names)
