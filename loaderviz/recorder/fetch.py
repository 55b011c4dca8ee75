"""Times one fetch: the torch object that turns an index list into a batch.

The dataset stays untouched. Torch's fetchers read it by going through the index list
(torch/utils/data/_utils/fetch.py, ``fetch``), so the list is handed over as an iterable that looks
at the clock each time the next index is drawn: the moment before a sample is read is also the
moment after the one before.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import thread_time_ns
from typing import Any

from torch.utils.data import Subset
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from loaderviz.clock import now
from loaderviz.machine import rss_bytes, rss_peak_bytes
from loaderviz.recorder.control import FULL, STOPPED, Control
from loaderviz.recorder.unseen import is_ours, unseen
from loaderviz.records import KeyKind, State, Tag, Task, encode_keys
from loaderviz.spool import RSS_PEAK, RollingSpool

RSS_EVERY_NS = 50_000_000  # a look at the memory takes longer than a small batch


class _Stamped:
    """An index list that writes down when each of its indices is drawn.

    ``index`` is the list, or what another recording made of it; ``keys`` is the list itself.
    """

    def __init__(
        self, index: Iterable[Any], keys: Sequence[Any], block: memoryview[int], at: int
    ) -> None:
        self.keys = keys
        self._index = index
        self._block = block
        self._at = at

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        block, at = self._block, self._at
        for key in self._index:
            block[at] = now()
            at += 1
            yield key
        block[at] = now()


class TimedFetch:
    """Stands in for ``fetcher.fetch`` and ``fetcher.collate_fn`` of one fetcher.

    Whatever fails in here, the batch is made as without it; the spool then says what failed.
    """

    def __init__(
        self,
        fetcher: Any,
        spool: RollingSpool,
        iterator: int,
        round_: int,
        control: Control,
        begun: Callable[[int, int], None] | None = None,
    ) -> None:
        # Held weakly: a fetcher goes when its iterator goes, and with it the stream that it reads.
        self._fetcher = weakref.ref(fetcher)
        self._inner = fetcher.__dict__.get("fetch")  # another recording's
        self._plain = type(fetcher).fetch
        self._collate = fetcher.collate_fn
        self._spool = spool
        self._iterator, self._round = iterator, round_
        self._page = control.page
        self._begun = begun  # told of each fetch: when, and of how many samples
        self._off = False
        self._auto_collation = fetcher.auto_collation
        self._iterable = isinstance(fetcher, _IterableDatasetFetcher)
        self._per_sample = fetcher.auto_collation and _reads_one_by_one(fetcher)
        self._block: memoryview[int] | None = None
        self._at = 0
        self._rss = self._rss_until = 0
        fetcher.fetch = self.fetch
        fetcher.collate_fn = self.collate

    def fetch(self, index: Any) -> Any:
        if self._off or self._page[STOPPED]:
            return self._fetch(index)
        try:
            cpu_ns = thread_time_ns()
            handed_on = self._begin(index)
        except Exception as error:
            self._fail(error)
            return self._fetch(index)
        try:
            batch = self._fetch(handed_on)
        except BaseException as error:
            ended = self._iterable and isinstance(error, StopIteration)
            self._finish(State.EXHAUSTED if ended else State.RAISED, cpu_ns)
            unseen(error)
            raise
        self._finish(State.DONE, cpu_ns)
        return batch

    def collate(self, data: Any) -> Any:
        block = self._block
        if block is not None:
            at = self._at
            block[at + Task.COLLATE] = now()
            # A __getitems__ may return the batch ready made, whose length can mean anything.
            is_list = self._auto_collation and isinstance(data, list)
            block[at + Task.N_SAMPLES] = len(data) if is_list else block[at + Task.N_KEYS]
        return self._collate(data)

    def _begin(self, index: Any) -> Any:
        """Reserve the task's record; returns the index list to hand to torch."""
        started = now()
        keys: Sequence[Any]
        if not self._auto_collation:
            keys = (index,)
        elif isinstance(index, _Stamped):
            keys = index.keys
        elif self._per_sample:
            keys = index = index if type(index) is list else list(index)
        else:
            keys = list(index) if isinstance(index, Iterable) and hasattr(index, "__len__") else ()
        n = len(keys)
        words: Sequence[int] = ()
        kind = KeyKind.COUNT
        if not self._iterable:
            kind, words = encode_keys(keys)
        keys_at = Task.STAMPS + n + 1
        # Past the limit on sample rows this tells no more than what a process died of.
        room = self._spool.overwrite if self._page[FULL] else self._spool.reserve
        tag = Tag.LATEST if self._page[FULL] else Tag.TASK
        block, at = room(keys_at + len(words), tag)
        if words:
            keys_at += at
            block[keys_at : keys_at + len(words)] = memoryview(words)  # type: ignore[arg-type]
        block[at + Task.ITERATOR] = self._iterator
        block[at + Task.ROUND] = self._round
        block[at + Task.N_KEYS] = n
        block[at + Task.KEY_KIND] = kind
        block[at + Task.STARTED] = started
        if self._begun is not None:
            self._begun(started, n)
        self._block, self._at = block, at
        if self._per_sample:
            return _Stamped(index, keys, block, at + Task.STAMPS)
        block[at + Task.STAMPS] = started
        return index

    def _finish(self, state: int, cpu_ns: int) -> None:
        block, at = self._block, self._at
        self._block = None
        if block is None:
            return
        ready = now()
        try:
            if ready >= self._rss_until:
                self._rss_until = ready + RSS_EVERY_NS
                self._rss = rss_bytes()
                self._spool.header[RSS_PEAK] = rss_peak_bytes()
            block[at + Task.RSS] = self._rss
            block[at + Task.READY] = ready
            block[at + Task.CPU] = thread_time_ns() - cpu_ns
            block[at + Task.STATE] = state
            if block[at + 1] == Tag.LATEST:
                self._sum_up(block, at)
        except Exception as error:
            self._fail(error)

    def _sum_up(self, block: memoryview[int], at: int) -> None:
        """A record of a task whose samples are left out."""
        head = block[at : at + Task.STAMPS].tolist()
        if not head[Task.COLLATE]:
            stamps = block[at + Task.STAMPS : at + Task.STAMPS + head[Task.N_KEYS] + 1]
            head[Task.N_SAMPLES] = max(sum(map(bool, stamps)) - 1, 0)
        head[Task.N_KEYS], head[Task.KEY_KIND] = 0, KeyKind.LEFT_OUT
        self._spool.write(Tag.TASK, *head[2:])

    def detach(self) -> None:
        """The fetcher as it was; where another recording came later, it still goes through here."""
        self._off = True
        fetcher = self._fetcher()
        if fetcher is None or fetcher.__dict__.get("fetch") != self.fetch:
            return
        fetcher.collate_fn = self._collate
        if self._inner is None:
            del fetcher.fetch
        else:
            fetcher.fetch = self._inner

    def forget(self) -> None:
        """In a forked process: the spool is another's."""
        self._off, self._block = True, None

    def _fetch(self, index: Any) -> Any:
        if self._inner is not None:
            return self._inner(index)
        return self._plain(self._fetcher(), index)  # alive, since it is being called

    def _fail(self, error: Exception) -> None:
        if not is_ours(error):
            raise error
        self._off, self._block = True, None
        self._spool.note_problem(f"{type(error).__name__}: {error}")


def _reads_one_by_one(fetcher: Any) -> bool:
    """Whether torch's ``fetch`` goes through the index list sample by sample.

    A dataset with ``__getitems__`` reads all in one call of its own. A ``Subset`` of a dataset
    without one has it too, but goes through the list (torch/utils/data/dataset.py, ``Subset``).
    """
    if type(fetcher) is _IterableDatasetFetcher:
        return True
    if type(fetcher) is not _MapDatasetFetcher:
        return False
    dataset = fetcher.dataset
    if type(dataset) is Subset:
        return not callable(getattr(dataset.dataset, "__getitems__", None))
    return not getattr(dataset, "__getitems__", None)
