"""What a process that makes batches does now, by its file: the last batch that it began.

Only the end of the file is read, however long it is; ``read_batch`` reads all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from loaderviz.record_layout import KeyKind, State, Tag, Task, decode_keys, unpack_text
from loaderviz.spool import HEADER_BYTES, SpoolFile, SpoolHead, Words, blocks
from loaderviz.spool_ring import BLOCK_HEAD
from loaderviz.trace.recording.fetch_columns import read_fetches

_MOST_KEYS: Final = 8  # of a batch, that are named where the sample is not known


@dataclass(frozen=True)
class TaskNow:
    """A batch that a process makes, or has made last.

    Attributes:
        iterator, round: for what it makes it.
        state: see ``record_layout.State``.
        started_ns: when it began the batch.
        sample_ns: when it began what it does now: a sample, or to collate; 0 where not known.
        position: of the sample that it reads, in the batch; -1 where that is not known.
        n_keys: how many samples the batch was asked for with.
        keys: the key of that sample alone, or else those of the batch; empty where not known.
        collates: whether all samples are read.
    """

    iterator: int
    round: int
    state: int
    started_ns: int
    sample_ns: int
    position: int
    n_keys: int
    keys: tuple[Any, ...]
    collates: bool

    def sample(self, counted: Any = None) -> Any:
        """The key of the sample that it reads; ``counted`` is that of a stream.

        None where it reads none, or more than one at once, or the key is not known.
        """
        if self.position < 0:
            return None
        return self.keys[0] if self.keys else counted


def read_task(path: Path) -> TaskNow | None:
    """The last batch that the process of this file began; None where it began none.

    Raises LoaderVizError for a file that is none of a process.
    """
    SpoolHead(path)
    try:
        words: Words = np.memmap(path, np.int64, "r", HEADER_BYTES)
    except (OSError, ValueError):  # it has no block yet
        return None
    for _, start, end in reversed(blocks(words.data)):
        last = _last_task(words, start + BLOCK_HEAD, end)
        if last is not None:
            return _task(np.array(words[last : last + int(words[last])]))
    return None


@dataclass(frozen=True)
class MadeNow:
    """How one batch stands in the process that makes it.

    Attributes:
        state: see ``record_layout.State``; None where the batch was not begun.
        key: of the sample that is being read; None where there is none or it is not known.
        n_bytes: how large the batch is, as far as it is made; 0 where that is not known.
    """

    state: int | None = None
    key: Any = None
    n_bytes: int = 0


def read_batch(path: Path, iterator: int, round_: int, nth: int) -> MadeNow:
    """How the ``nth`` batch of a round stands, by the file of its process."""
    file = SpoolFile(path)
    fetches = read_fetches(file, file.records())
    heads = fetches.heads
    at = np.flatnonzero((heads[:, Task.ITERATOR] == iterator) & (heads[:, Task.ROUND] == round_))
    if nth >= len(at):
        return MadeNow()
    is_last = at[nth] == len(heads) - 1
    return MadeNow(
        state=int(heads[at[nth], Task.STATE]),
        key=fetches.reading if is_last else None,
        n_bytes=max(int(heads[at[nth], Task.BYTES]) - 1, 0),
    )


def _last_task(words: Words, at: int, end: int) -> int | None:
    """Where the last batch's record is in a block; None where there is none."""
    last = None
    while at + 2 <= end and 2 <= words[at] <= end - at:
        tag, n_words = int(words[at + 1]), int(words[at])
        is_running = tag == Tag.LATEST and words[at + Task.STATE] == State.RUNNING
        if n_words >= Task.STAMPS and (tag == Tag.TASK or is_running):
            last = at
            if is_running:  # it is overwritten by each batch: what comes after it is older
                break
        at += n_words
    return last


def _task(record: Words) -> TaskNow:
    head = record[: Task.STAMPS].tolist()
    n_keys = min(max(head[Task.N_KEYS], 0), max(len(record) - Task.STAMPS - 1, 0))
    stamps = record[Task.STAMPS : Task.STAMPS + n_keys + 1]
    n_stamps = int(np.count_nonzero(stamps))
    collates = head[Task.COLLATE] != 0
    # Else the first sample is drawn after the batch is begun: see ``FetchTimer.begin``.
    in_one_call = n_keys > 1 and not collates and stamps[0] == head[Task.STARTED]
    keys = _keys(head, record[Task.STAMPS + n_keys + 1 :])
    reads_one = not collates and not in_one_call and 0 < n_stamps <= n_keys
    position = n_stamps - 1 if reads_one else -1
    if reads_one:
        keys = keys[position : position + 1]
    return TaskNow(
        iterator=head[Task.ITERATOR],
        round=head[Task.ROUND],
        state=head[Task.STATE],
        started_ns=head[Task.STARTED],
        sample_ns=head[Task.COLLATE] if collates else int(stamps.max(initial=0)),
        position=position,
        n_keys=n_keys,
        keys=keys if len(keys) <= _MOST_KEYS else keys[:_MOST_KEYS],
        collates=collates,
    )


def _keys(head: list[int], words: Words) -> tuple[Any, ...]:
    """The keys of a batch; empty for those of a stream, which are counts, and where left out."""
    if head[Task.KEY_KIND] == KeyKind.INTEGERS:
        return tuple(words[: head[Task.N_KEYS]].tolist())
    if head[Task.KEY_KIND] == KeyKind.TEXT:
        try:
            return tuple(decode_keys(unpack_text(words)))
        except (ValueError, TypeError, KeyError, RecursionError):
            return ()
    return ()
