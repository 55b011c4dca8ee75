"""Times one fetch: the torch object that turns an index list into a batch.

The dataset stays untouched. Torch's fetchers read it by going through the index list
(torch/utils/data/_utils/fetch.py, ``fetch``), so the list is handed over as an iterable that looks
at the clock each time the next index is drawn: the moment before a sample is read is also the
moment after the one before.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torch.utils.data import Subset
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from loaderviz.clock import now
from loaderviz.machine import rss_peak_bytes
from loaderviz.records import KeyKind, State, Tag, Task, encode_keys
from loaderviz.spool import FAILED, RSS_PEAK, Spool


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

    Whatever fails in here, the batch is made as without it; the spool is then marked as failed.
    """

    def __init__(
        self,
        fetcher: Any,
        spool: Spool,
        iterator: int,
        round_: int,
        stopped: Callable[[], bool],
    ) -> None:
        # Held weakly: a fetcher goes when its iterator goes, and with it the stream that it reads.
        self._fetcher = weakref.ref(fetcher)
        self._inner = fetcher.__dict__.get("fetch")  # another recording's
        self._collate = fetcher.collate_fn
        self._spool = spool
        self._iterator, self._round = iterator, round_
        self._stopped = stopped
        self._auto_collation = fetcher.auto_collation
        self._iterable = isinstance(fetcher, _IterableDatasetFetcher)
        self._per_sample = fetcher.auto_collation and _reads_one_by_one(fetcher)
        self._block: memoryview[int] | None = None
        self._at = 0
        fetcher.fetch = self.fetch
        fetcher.collate_fn = self.collate

    def fetch(self, index: Any) -> Any:
        if self._stopped():
            return self._fetch(index)
        try:
            cpu_ns = time.thread_time_ns()
            handed_on = self._begin(index)
        except Exception:
            self._fail()
            return self._fetch(index)
        try:
            batch = self._fetch(handed_on)
        except StopIteration:
            self._finish(State.EXHAUSTED if self._iterable else State.RAISED, cpu_ns)
            raise
        except BaseException:
            self._finish(State.RAISED, cpu_ns)
            raise
        self._finish(State.DONE, cpu_ns)
        return batch

    def collate(self, data: Any) -> Any:
        if self._block is not None:
            self._block[self._at + Task.COLLATE] = now()
            # A __getitems__ may return the batch ready made, whose length can mean anything.
            is_list = self._auto_collation and isinstance(data, list)
            n_samples = len(data) if is_list else self._block[self._at + Task.N_KEYS]
            self._block[self._at + Task.N_SAMPLES] = n_samples
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
            keys = index = index if isinstance(index, Sequence) else list(index)
        else:
            keys = list(index) if isinstance(index, Iterable) and hasattr(index, "__len__") else ()
        n = len(keys)
        words: Sequence[int] = ()
        kind = KeyKind.COUNT
        if not self._iterable:
            kind, words = encode_keys(keys)
        block, at = self._spool.reserve(Task.STAMPS + n + 1 + len(words), Tag.TASK)
        keys_at = at + Task.STAMPS + n + 1
        if words:
            block[keys_at : keys_at + len(words)] = memoryview(words)  # type: ignore[arg-type]
        block[at + Task.ITERATOR] = self._iterator
        block[at + Task.ROUND] = self._round
        block[at + Task.N_KEYS] = n
        block[at + Task.KEY_KIND] = kind
        block[at + Task.STARTED] = started
        self._block, self._at = block, at
        if self._per_sample:
            return _Stamped(index, keys, block, at + Task.STAMPS)
        block[at + Task.STAMPS] = started
        return index

    def _finish(self, state: State, cpu_ns: int) -> None:
        block, at = self._block, self._at
        self._block = None
        if block is None:
            return
        block[at + Task.READY] = now()
        block[at + Task.CPU] = time.thread_time_ns() - cpu_ns
        block[at + Task.STATE] = state
        self._spool.header[RSS_PEAK] = rss_peak_bytes()

    def detach(self) -> None:
        """The fetcher as it was; where another recording came later, it still goes through here."""
        fetcher = self._fetcher()
        if fetcher is None or fetcher.__dict__.get("fetch") != self.fetch:
            return
        fetcher.collate_fn = self._collate
        if self._inner is None:
            del fetcher.fetch
        else:
            fetcher.fetch = self._inner

    def _fetch(self, index: Any) -> Any:
        if self._inner is not None:
            return self._inner(index)
        fetcher: Any = self._fetcher()  # alive, since it is being called
        return type(fetcher).fetch(fetcher, index)

    def _fail(self) -> None:
        self._block = None
        self._spool.header[FAILED] = 1
        self._stopped = lambda: True


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
