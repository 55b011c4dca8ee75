"""Times one fetch: a torch object turns an index list into a batch, and a record says when.

The dataset stays untouched. Torch's fetchers go through the index list and read one sample for
each index (torch/utils/data/_utils/fetch.py, ``fetch``). They are given the list as an iterable
that reads the clock each time the next index is drawn: that moment ends one sample and begins the
next. The end of the list shows that all samples are read; where a fetcher may not come to it, as
where a stream ends, it does so when it looks up its ``collate_fn`` (``timed_fetcher.py``).
"""

from __future__ import annotations

import sys
import weakref
from array import array
from collections.abc import Sequence
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data._utils.fetch import _IterableDatasetFetcher

from loaderviz.clocks.process_clock import now
from loaderviz.machine import rss_bytes, rss_peak_bytes
from loaderviz.own_errors import own_errors
from loaderviz.record_layout import KeyKind, Phase, State, Tag, Task, encode_keys, task_layout
from loaderviz.recorder.batch_samples import n_samples_of_item
from loaderviz.recorder.control_page import FULL, STOPPED, Control
from loaderviz.recorder.fetch_spool import FetchSpool
from loaderviz.recorder.kernel_books import LEAST_NS, WorkerAccounts
from loaderviz.recorder.stamped_indices import GatheredIndices, StampedIndices
from loaderviz.recorder.timed_fetcher import add_timer, reads_one_by_one, remove_timer
from loaderviz.recorder.unequal_samples import why_not_collated
from loaderviz.spool import RSS_PEAK, NoIntegersError, NoRoomError

if TYPE_CHECKING:
    from loaderviz.recorder.iterator_log import IteratorLog
    from loaderviz.recorder.line_log import LineLog
    from loaderviz.recorder.recording_files import RecordPlace

RSS_EVERY_NS = 50_000_000  # to read it takes longer than a small batch
# Reading the CPU time is a system call. For so long after one, the thread is taken to compute.
CPU_TIME_FRESH_NS = 50_000
_BUILTIN_INDEX_TYPES = (
    list,
    tuple,
    range,
    set,
    frozenset,
    torch.Tensor,
    np.ndarray,
)  # going through them twice does no harm: no code of the user's runs


class ProcessMemory:
    """The resident memory of this process as last read, and the most that it was; in bytes."""

    def __init__(self) -> None:
        self.rss_bytes = self.rss_peak_bytes = 0
        self.next_read_ns = 0

    def read(self, at_ns: int) -> None:
        """Read it anew."""
        self.next_read_ns = at_ns + RSS_EVERY_NS
        self.rss_bytes, self.rss_peak_bytes = rss_bytes(), rss_peak_bytes()


class FetchTimer:
    """Writes down the fetches of one fetcher, for one recording.

    A failure in here never reaches the batch; the spool then says what failed.
    """

    def __init__(
        self,
        fetcher: Any,
        spool: FetchSpool,
        iterator: int,
        round_: int,
        control: Control,
        memory: ProcessMemory,
        log: IteratorLog | None = None,
        accounts: WorkerAccounts | None = None,
        lines: LineLog | None = None,
    ) -> None:
        self.spool = spool
        self._lines = lines
        if lines is not None:
            lines.expect(fetcher.dataset)
        self._memory = memory
        self._accounts = accounts
        self._iterator, self._round = iterator, round_
        self._page = control.page
        self._log = log  # of the iterator, where it loads in this process
        self._disabled = False
        self._auto_collation = fetcher.auto_collation
        self._iterable = isinstance(fetcher, _IterableDatasetFetcher)
        self.per_sample = fetcher.auto_collation and reads_one_by_one(fetcher)
        self._block: memoryview[int] | None = None
        self._start = 0
        self._stamped = StampedIndices()
        self._gathered: GatheredIndices | None = None
        self._int_keys = not self._iterable  # until there is another
        self._cpu_ns = self._cpu_at_ns = 0
        self._took_ns = LEAST_NS  # the last fetch
        # Weakly, so that a fetcher and the stream that it reads go when their iterator goes.
        self._fetcher = weakref.ref(fetcher)
        add_timer(fetcher, self, to_the_end=self.per_sample and not self._iterable)

    def begin(self, index: Any, timed_index: Any) -> Any:
        """Reserve the record of a task, to fetch ``index``; returns the index list to pass on.

        ``timed_index`` is that list, or what the timer of another recording has made of it.
        """
        if self._disabled or self._page[STOPPED]:
            return timed_index
        try:
            if self._accounts is not None and self._took_ns >= LEAST_NS:  # as this one may
                self._accounts.begin()
            started_ns = now()
            if started_ns - self._cpu_at_ns > CPU_TIME_FRESH_NS:
                self._cpu_ns, self._cpu_at_ns = thread_time_ns(), started_ns
            # Without auto-collation a list of keys asks a dataset for a ready-made batch.
            keys = index if type(index) is list else self._keys_of(index, timed_index)
            place, log = None, self._log
            if log is not None:
                if self._int_keys:
                    place = log.begin_with_fetch(self.spool, started_ns, keys)
                if place is None and log.begin_here(started_ns, len(keys)) is None:
                    self._gathered = None
                    return timed_index
            if place is None:
                place = self._reserve(keys, started_ns)
            block, start = place
            self._block, self._start = block, start
            if self._lines is not None and not self._page[FULL]:
                self._lines.resume()
            if self._gathered is not None:
                return self._gathered
            if self.per_sample:
                stamped = self._stamped
                stamped.keys, stamped.index = keys, timed_index
                stamped.block, stamped.start = block, start
                return stamped
            block[start + Task.STAMPS] = started_ns
        except own_errors(Exception) as error:
            self._fail(error)
        except BaseException:  # from outside: what was noted of the fetches may lack this one
            self._disabled = True
            raise
        return timed_index

    def _keys_of(self, index: Any, timed_index: Any) -> Sequence[Any]:
        """The keys of what is no list; none where they will be known as they are drawn."""
        if not self._auto_collation:
            return (index,)
        if isinstance(index, _BUILTIN_INDEX_TYPES):
            return list(index)
        if self.per_sample:
            self._gathered = GatheredIndices(timed_index)
        return ()

    def _reserve(self, keys: Sequence[Any], started_ns: int) -> RecordPlace:
        n = len(keys)
        is_full = self._page[FULL]
        if self._int_keys and not is_full:
            try:
                iterator, integers = self._iterator, KeyKind.INTEGERS
                n_words = Task.STAMPS + n + 1 + n
                head = n_words, Tag.TASK, iterator, self._round, started_ns, n, integers
                return self.spool.pack(task_layout(n), (*head, *keys))
            except NoIntegersError:
                self._int_keys = False
        kind, words = (KeyKind.COUNT, None) if self._iterable else encode_keys(keys)
        keys_start = Task.STAMPS + n + 1
        size = keys_start + (len(words) if words else 0)
        if is_full:  # samples are left out: this only shows what a process died of
            block, start = self.spool.overwrite(size, Tag.LATEST)
        else:
            block, start = self.spool.reserve(size, Tag.TASK)
        if words:
            block[start + keys_start : start + size] = memoryview(words)
        block[start + Task.ITERATOR] = self._iterator
        block[start + Task.ROUND] = self._round
        block[start + Task.STARTED] = started_ns
        block[start + Task.N_KEYS] = n
        block[start + Task.KEY_KIND] = kind
        return block, start

    def note_all_read(self) -> None:
        """The samples are read: the fetcher's ``fetch`` has asked for its ``collate_fn``."""
        block, start = self._block, self._start
        if block is None:
            return
        try:
            block[start + Task.COLLATE] = now()
            if not self.per_sample:
                # A __getitems__ may return the batch ready made: its length can mean anything.
                data = sys._getframe(2).f_locals.get("data") if self._auto_collation else None
                n = list.__len__(data) if isinstance(data, list) else block[start + Task.N_KEYS]
                block[start + Task.N_SAMPLES] = n
        except own_errors(Exception) as error:
            self._fail(error)

    def finish(self, error: BaseException | None, batch: Any = None) -> None:
        """Fill in the task's record, after ``fetch`` has returned ``batch`` or raised ``error``."""
        block, start = self._block, self._start
        if block is None:
            return
        self._block = None
        looks = [] if self._lines is None else self._lines.pause()
        if error is not None and isinstance(
            error, KeyboardInterrupt
        ):  # Ctrl-C reaches workers too: no batch failed
            self._gathered = None
            return
        try:
            ready_ns = now()
            started_ns = block[start + Task.STARTED]
            took_ns = cpu_ns = self._took_ns = ready_ns - started_ns
            booked: tuple[int, ...] | None = None
            cpus: tuple[int, ...] | None = None
            if self._accounts is not None and took_ns >= LEAST_NS:
                booked = self._accounts.since_last(took_ns)
            memory = self._memory
            if ready_ns >= memory.next_read_ns:
                memory.read(ready_ns)
                self.spool.header[RSS_PEAK] = memory.rss_peak_bytes
                cpus = self._accounts.new_cpus() if self._accounts is not None else None
            collate_ns = block[start + Task.COLLATE]
            if self._gathered is not None:
                block, start = self._write_gathered(self._gathered, block, start)
                self._gathered = None
            elif self._iterable and not self._auto_collation and error is None:
                block, start = self._note_ready_made(n_samples_of_item(batch), block, start)
            block[start + Task.RSS] = memory.rss_bytes
            block[start + Task.READY] = ready_ns
            if ready_ns - self._cpu_at_ns > CPU_TIME_FRESH_NS:
                before_ns = self._cpu_ns + started_ns - self._cpu_at_ns
                self._cpu_ns, self._cpu_at_ns = thread_time_ns(), ready_ns
                cpu_ns = min(max(self._cpu_ns - before_ns, 0), took_ns)
            block[start + Task.CPU] = cpu_ns
            if booked is not None:
                block[start + Task.PROCESS_CPU : start + Task.STAMPS] = array("q", booked)
            number, text = 0, ""
            if error is None:
                n_bytes, number, text = self.spool.measure(batch)
                block[start + Task.BYTES] = 0 if n_bytes is None else n_bytes + 1
                block[start + Task.SHAPES] = number
                block[start + Task.STATE] = State.DONE
            else:
                number, text = self._note_error(error, block, start)
            if block[start + 1] == Tag.LATEST:
                self._write_without_samples(block, start)
            if text:
                self.spool.write_text(number, text)
            if cpus is not None:  # after the record of the fetch: the next may begin a new block
                self.spool.write(Tag.CPUS, *cpus)
            if looks and self._lines is not None:
                self._lines.write(looks, self._iterator, Phase.READ, collate_ns)
        except own_errors(Exception) as failure:
            self._fail(failure)

    def _note_error(
        self, error: BaseException, block: memoryview[int], start: int
    ) -> tuple[int, str]:
        """Fill in that no batch was made; returns why, if that is known, with its number."""
        if self._iterable and isinstance(error, StopIteration):
            block[start + Task.STATE] = State.EXHAUSTED
            return 0, ""
        why = why_not_collated(error) if block[start + Task.COLLATE] else ""
        number = self.spool.next_number() if why else 0
        block[start + Task.SHAPES] = number
        block[start + Task.STATE] = State.RAISED
        return number, why

    def _write_gathered(
        self, gathered: GatheredIndices, block: memoryview[int], start: int
    ) -> RecordPlace:
        """Write the record with keys and stamps, in place of the one reserved without them."""
        head = block[start + 2 : start + Task.N_KEYS].tolist()
        if len(gathered.stamps) > len(gathered.keys):  # it has come to its end
            head[Task.COLLATE - 2] = gathered.stamps[-1]
        block[start + 1] = 0
        block, start = self._reserve(gathered.keys, head[Task.STARTED - 2])
        for i, word in enumerate(head, start + 2):
            block[i] = word
        for i, stamp in enumerate(gathered.stamps, start + Task.STAMPS):
            block[i] = stamp
        return block, start

    def _note_ready_made(self, n: int, block: memoryview[int], start: int) -> RecordPlace:
        """Write down that the stream's next item was a whole batch: ``n`` samples, read in one."""
        if n == 1 or block[start + Task.COLLATE] == 0:
            return block, start
        if block[start + 1] == Tag.TASK:
            items = GatheredIndices(())
            items.keys, items.stamps = [None] * n, [block[start + Task.STAMPS]]
            block, start = self._write_gathered(items, block, start)
        block[start + Task.N_SAMPLES] = n
        return block, start

    def _write_without_samples(self, block: memoryview[int], start: int) -> None:
        """Write the record of a task whose samples are left out."""
        head = block[start : start + Task.STAMPS].tolist()
        stamps = block[start + Task.STAMPS : start + Task.STAMPS + head[Task.N_KEYS] + 1]
        head[Task.N_SAMPLES] = max(head[Task.N_SAMPLES], sum(map(bool, stamps)) - 1)
        head[Task.N_KEYS], head[Task.KEY_KIND] = 0, KeyKind.LEFT_OUT
        self.spool.write(Tag.TASK, *head[2:])

    def fetcher_is_gone(self) -> bool:
        """Whether there will be no more fetches to write down."""
        return self._fetcher() is None

    def detach(self) -> None:
        """Time no more; the fetcher is as it was once no recording times it."""
        self._disabled = True
        fetcher = self._fetcher()
        if fetcher is not None:
            remove_timer(fetcher, self)

    def forget(self) -> None:
        """Write nothing more: in a forked process the spool is the parent's."""
        self._disabled, self._block = True, None

    def _fail(self, error: Exception) -> None:
        self._disabled, self._block, self._gathered = True, None, None
        if not isinstance(error, NoRoomError):
            self.spool.note_problem(f"{type(error).__name__}: {error}")
        elif self._log is not None:  # go on calling it: it counts what is left out
            self._disabled = False
