"""A spool that keeps only its latest records: which of its blocks it writes over, and what goes.

What a stream has lost is told in each new block, as ``Tag.LOST``: the k-th fetch of a stream is
that of its k-th task, so that a reader has to know how many there were before.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from loaderviz.clocks.process_clock import now
from loaderviz.record_layout import Batch, KeyKind, Tag, Task

BLOCK_HEAD = 3  # words: see spool.py

# The tag of its records, iterator, round, and the worker that a batch was sent to; 0 for a fetch.
_Stream = tuple[int, int, int, int]


class _Full(NamedTuple):
    offset: int
    n_bytes: int
    since_ns: int
    user: Callable[[], object]  # returns None once nobody fills in anything there
    streams: frozenset[_Stream]


class Ring:
    """The full blocks of one spool.

    Args:
        kept_ns: tells for how long a block stays once it is full.
        n_reads: tells how often all has been read on so far, for the windows.
        ask: is called where that should be done again, before what is new is written over.
        on_lost: told of each block that is written over how many batches were in it.
    """

    def __init__(
        self,
        kept_ns: Callable[[], int],
        n_reads: Callable[[], int],
        ask: Callable[[], None],
        on_lost: Callable[[int], None] | None = None,
    ) -> None:
        self._kept_ns = kept_ns
        self._n_reads, self._ask = n_reads, ask
        self._unread_since, self._n_unread = 0, 0  # full blocks
        self._on_lost = on_lost
        self._full: list[_Full] = []  # the oldest first
        self._lost: dict[_Stream, list[int]] = {}  # records, and samples of fetches
        self._cpus: tuple[int, ...] = ()  # the last record of that tag

    def note_full(self, offset: int, block: memoryview[int], *, is_mapped: bool) -> None:
        """A block of the file is full; it is in use for as long as something refers to it."""
        user = weakref.ref(block) if is_mapped else _nobody
        streams = frozenset(_counted(block)[0])
        self._full.append(_Full(offset, len(block) * 8, now(), user, streams))
        n_reads = self._n_reads()
        if n_reads != self._unread_since:
            self._unread_since, self._n_unread = n_reads, 0
        self._n_unread += 1
        if 2 * self._n_unread >= len(self._full):
            self._ask()

    def take(self, n_bytes: int, *, however_old: bool = False) -> int:
        """Where a block is that may be written over, and has ``n_bytes``; -1 where none is."""
        until_ns = now() - self._kept_ns()
        for i, full in enumerate(self._full):
            if full.since_ns > until_ns and not however_old:
                break
            if full.n_bytes == n_bytes and full.user() is None:
                del self._full[i]
                return full.offset
        return -1

    def lose(self, block: memoryview[int]) -> None:
        """Count what is in a block that is about to be written over."""
        counts, cpus = _counted(block)
        self._cpus = cpus or self._cpus
        for stream, (n, n_samples) in counts.items():
            lost = self._lost.setdefault(stream, [0, 0])
            lost[0] += n
            lost[1] += n_samples
        if self._on_lost is not None:
            self._on_lost(sum(n for stream, (n, _) in counts.items() if stream[0] == Tag.BATCH))

    def told(self) -> Iterator[tuple[int, ...]]:
        """The records, each with its tag, that tell of the losses; the last block was noted."""
        living = {stream for full in self._full for stream in full.streams}
        self._lost = {stream: lost for stream, lost in self._lost.items() if stream in living}
        for stream, lost in self._lost.items():
            yield (Tag.LOST, *stream, *lost)
        if self._cpus:
            yield (Tag.CPUS, *self._cpus)


def _nobody() -> None:
    return None


def _counted(block: memoryview[int]) -> tuple[dict[_Stream, tuple[int, int]], tuple[int, ...]]:
    """How many records and samples of each stream a block has, and what it says last of CPUs."""
    records: Counter[_Stream] = Counter()
    samples: Counter[_Stream] = Counter()
    cpus: tuple[int, ...] = ()
    words = block[: block[1]].tolist()  # a list is quicker to go through
    at, end = BLOCK_HEAD, len(words)
    while at + 2 <= end and 2 <= words[at] <= end - at:
        tag = words[at + 1]
        if tag == Tag.BATCH:
            records[tag, words[at + 2], words[at + 3], words[at + Batch.WORKER]] += 1
        elif tag == Tag.TASK:
            stream = tag, words[at + 2], words[at + 3], 0
            records[stream] += 1
            if words[at + Task.KEY_KIND] == KeyKind.COUNT:
                samples[stream] += _n_samples(words, at)
        elif tag == Tag.CPUS:
            cpus = tuple(words[at + 2 : at + words[at]])
        at += words[at]
    return {stream: (n, samples[stream]) for stream, n in records.items()}, cpus


def _n_samples(block: list[int], at: int) -> int:
    """How many samples a fetch read, whose keys are their numbers in the stream."""
    first = at + Task.STAMPS
    stamps = block[first : first + block[at + Task.N_KEYS] + 1]
    told = block[at + Task.N_SAMPLES] if block[at + Task.COLLATE] else 0
    return max(sum(map(bool, stamps)) - 1, told, 0)
