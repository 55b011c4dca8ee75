"""Times one fetch: the torch object that turns an index list into a batch.

The dataset stays untouched. Torch's fetchers read it by going through the index list
(torch/utils/data/_utils/fetch.py, ``fetch``), so the list is handed over as an iterable that looks
at the clock each time the next index is drawn: the moment before a sample is read is also the
moment after the one before. Then they look up their ``collate_fn``, which tells that all are read.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from time import thread_time_ns
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from loaderviz.clocks.process_clock import now
from loaderviz.machine import rss_bytes, rss_peak_bytes
from loaderviz.record_layout import KeyKind, State, Tag, Task, encode_keys
from loaderviz.recorder.batch_bytes import n_bytes_of
from loaderviz.recorder.control_page import FULL, STOPPED, Control
from loaderviz.recorder.stamped_indices import Gathered, Stamped
from loaderviz.recorder.traceback_filter import is_ours, unseen
from loaderviz.spool import RSS_PEAK, NoRoomError, RollingSpool

RSS_EVERY_NS = 50_000_000  # a look at the memory takes longer than a small batch
# To ask for the CPU time is a system call. Right after a fetch it is as good as it was at its end.
SHORT_NS = 20_000
_TIMERS = "_loaderviz_timers"
_PLAIN = (
    list,
    tuple,
    range,
    set,
    frozenset,
    torch.Tensor,
    np.ndarray,
)  # going through them shows in nothing


class FetchTimer:
    """Writes down the fetches of one fetcher, for one recording.

    Whatever fails in here, the batch is made as without it; the spool then says what failed.
    """

    def __init__(
        self,
        fetcher: Any,
        spool: RollingSpool,
        iterator: int,
        round_: int,
        control: Control,
        begun: Callable[[int, int], object] | None = None,
    ) -> None:
        self._spool = spool
        self._iterator, self._round = iterator, round_
        self._page = control.page
        self._begun = begun  # told of each fetch: when, and of how many samples; None: not this one
        self._off = False
        self._auto_collation = fetcher.auto_collation
        self._iterable = isinstance(fetcher, _IterableDatasetFetcher)
        self._per_sample = fetcher.auto_collation and _reads_one_by_one(fetcher)
        self._block: memoryview[int] | None = None
        self._at = 0
        self._gathered: Gathered | None = None
        self._cpu = self._ready = self._rss = self._rss_until = 0
        # Held weakly: a fetcher goes when its iterator goes, and with it the stream that it reads.
        self._fetcher = weakref.ref(fetcher)
        timers = fetcher.__dict__.setdefault(_TIMERS, [])
        if not timers:
            plain: Any = type(fetcher)
            fetcher.__class__ = _timed_class(plain)
        timers.append(self)

    def begin(self, index: Any) -> Any:
        """Reserve the task's record; returns the index list to hand on."""
        if self._off or self._page[STOPPED]:
            return index
        try:
            started = now()
            if started - self._ready > SHORT_NS:
                self._cpu = thread_time_ns()
            keys: Sequence[Any] = ()
            if not self._auto_collation:
                keys = (index,)
            elif type(index) is list:
                keys = index
            elif isinstance(index, Stamped):
                keys = index.keys
            elif isinstance(index, _PLAIN):
                keys = list(index)
                index = keys if self._per_sample else index
            elif self._per_sample:
                self._gathered = Gathered(index)
            if self._begun is not None and self._begun(started, len(keys)) is None:
                self._gathered = None
                return index
            block, at = self._reserve(keys)
            block[at + Task.STARTED] = started
            self._block, self._at = block, at
            if self._gathered is not None:
                return self._gathered
            if self._per_sample:
                return Stamped(index, keys, block, at + Task.STAMPS)
            block[at + Task.STAMPS] = started
        except Exception as error:
            self._fail(error)
        return index

    def _reserve(self, keys: Sequence[Any]) -> tuple[memoryview[int], int]:
        n = len(keys)
        kind, words = (KeyKind.COUNT, None) if self._iterable else encode_keys(keys)
        keys_at = Task.STAMPS + n + 1
        size = keys_at + (len(words) if words else 0)
        if self._page[FULL]:  # no sample rows: this tells no more than what a process died of
            block, at = self._spool.overwrite(size, Tag.LATEST)
        else:
            block, at = self._spool.reserve(size, Tag.TASK)
        if words:
            block[at + keys_at : at + size] = memoryview(words)
        block[at + Task.ITERATOR] = self._iterator
        block[at + Task.ROUND] = self._round
        block[at + Task.N_KEYS] = n
        block[at + Task.KEY_KIND] = kind
        return block, at

    def all_read(self) -> None:
        """The samples are read, and the fetcher's ``fetch`` asks for its ``collate_fn``."""
        block, at = self._block, self._at
        if block is None:
            return
        try:
            block[at + Task.COLLATE] = now()
            if not self._per_sample:
                # A __getitems__ may return the batch ready made: its length can mean anything.
                data = sys._getframe(2).f_locals.get("data") if self._auto_collation else None
                n = list.__len__(data) if isinstance(data, list) else block[at + Task.N_KEYS]
                block[at + Task.N_SAMPLES] = n
        except Exception as error:
            self._fail(error)

    def finish(self, error: BaseException | None, batch: Any = None) -> None:
        block, at = self._block, self._at
        if block is None:
            return
        self._block = None
        if isinstance(error, KeyboardInterrupt):  # Ctrl-C reaches workers too: no batch failed
            self._gathered = None
            return
        try:
            ready = now()
            if ready >= self._rss_until:
                self._rss_until = ready + RSS_EVERY_NS
                self._rss = rss_bytes()
                self._spool.header[RSS_PEAK] = rss_peak_bytes()
            if self._gathered is not None:
                block, at = self._write_gathered(self._gathered, block, at)
                self._gathered = None
            block[at + Task.RSS] = self._rss
            block[at + Task.READY] = ready
            cpu = thread_time_ns()
            took = ready - block[at + Task.STARTED]
            block[at + Task.CPU] = min(max(cpu - self._cpu, 0), took)
            self._cpu, self._ready = cpu, ready
            if error is None:
                n_bytes = n_bytes_of(batch)
                block[at + Task.BYTES] = 0 if n_bytes is None else n_bytes + 1
                block[at + Task.STATE] = State.DONE
            elif self._iterable and isinstance(error, StopIteration):
                block[at + Task.STATE] = State.EXHAUSTED
            else:
                block[at + Task.STATE] = State.RAISED
            if block[at + 1] == Tag.LATEST:
                self._sum_up(block, at)
        except Exception as own:
            self._fail(own)

    def _write_gathered(
        self, gathered: Gathered, block: memoryview[int], at: int
    ) -> tuple[memoryview[int], int]:
        """The record with keys and stamps, in place of the one that was reserved without."""
        head = block[at + 2 : at + Task.N_KEYS].tolist()
        block[at + 1] = 0
        block, at = self._reserve(gathered.keys)
        for i, word in enumerate(head, at + 2):
            block[i] = word
        for i, stamp in enumerate(gathered.stamps, at + Task.STAMPS):
            block[i] = stamp
        return block, at

    def _sum_up(self, block: memoryview[int], at: int) -> None:
        """A record of a task whose samples are left out."""
        head = block[at : at + Task.STAMPS].tolist()
        stamps = block[at + Task.STAMPS : at + Task.STAMPS + head[Task.N_KEYS] + 1]
        head[Task.N_SAMPLES] = max(head[Task.N_SAMPLES], sum(map(bool, stamps)) - 1)
        head[Task.N_KEYS], head[Task.KEY_KIND] = 0, KeyKind.LEFT_OUT
        self._spool.write(Tag.TASK, *head[2:])

    def is_over(self) -> bool:
        return self._fetcher() is None

    def detach(self) -> None:
        """The fetcher as it was, once no recording times it."""
        self._off = True
        fetcher = self._fetcher()
        timers = fetcher.__dict__.get(_TIMERS, []) if fetcher is not None else []
        if self in timers:
            timers.remove(self)
            if not timers:
                fetcher.__class__ = type(fetcher).__bases__[1]  # see _timed_class
                del fetcher.__dict__[_TIMERS]

    def forget(self) -> None:
        """In a forked process: the spool is another's."""
        self._off, self._block = True, None

    def _fail(self, error: Exception) -> None:
        if not is_ours(error):
            raise error
        self._off, self._block, self._gathered = True, None, None
        if not isinstance(error, NoRoomError):
            self._spool.note_problem(f"{type(error).__name__}: {error}")
        elif self._begun is not None:  # who is told counts what is left out, and ends it
            self._off = False


class _Timed:
    """Mixed into the class of a fetcher."""

    def fetch(self, index: Any) -> Any:
        timers: list[FetchTimer] = self.__dict__[_TIMERS]
        handed_on = index
        for timer in timers:
            handed_on = timer.begin(handed_on)
        try:
            batch = super().fetch(handed_on)  # type: ignore[misc]
        except BaseException as error:
            for timer in timers:
                timer.finish(error)
            unseen(error)
            raise
        for timer in timers:
            timer.finish(None, batch)
        return batch

    @property
    def collate_fn(self) -> Any:
        # Not a function around the user's, which would be in the way of warnings and tracebacks.
        for timer in self.__dict__[_TIMERS]:
            timer.all_read()
        return self.__dict__["collate_fn"]

    @collate_fn.setter
    def collate_fn(self, collate_fn: Any) -> None:
        self.__dict__["collate_fn"] = collate_fn


@functools.cache
def _timed_class(plain: type) -> type:
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__}
    return type(plain.__name__, (_Timed, plain), names)


def _reads_one_by_one(fetcher: Any) -> bool:
    """Whether torch's ``fetch`` goes through the index list sample by sample.

    A dataset with ``__getitems__`` reads all in one call of its own. A ``Subset`` of a dataset
    without one has it too, but goes through the list (torch/utils/data/dataset.py, ``Subset``).
    """
    if isinstance(fetcher, _Timed):
        timers: list[FetchTimer] = fetcher.__dict__[_TIMERS]
        return timers[0]._per_sample
    if type(fetcher) is _IterableDatasetFetcher:
        return True
    if type(fetcher) is not _MapDatasetFetcher:
        return False
    dataset = fetcher.dataset
    if type(dataset) is Subset:
        return not callable(getattr(dataset.dataset, "__getitems__", None))
    return not getattr(dataset, "__getitems__", None)
