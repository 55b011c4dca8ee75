"""The fetches that one process wrote down, as columns: thousands of them are read at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.record_layout import KeyKind, State, Tag, Task, decode_keys, unpack_text
from loaderviz.spool import SpoolFile, Words

MOST_BEYOND = 1 << 20  # samples that the fetches of one file may return beyond what they asked for

# What keys can raise that were damaged, or whose process died while it wrote them.
_DAMAGE = (ValueError, TypeError, KeyError, RecursionError)


@dataclass(frozen=True)
class Tasks:
    """Columns of n fetches, in their order, and of the samples that they read, one after another.

    Times are those of ``loaderviz.clocks.process_clock`` in ns, 0 where something has not happened.
    """

    heads: Words  # (n, Task.STAMPS)
    n_samples: Words  # read
    n_rows: Words  # of the samples below: also one that was begun, none of those left out
    left_out: np.ndarray[Any, np.dtype[np.bool_]]  # past the limit on sample rows
    position: Words
    start: Words
    end: Words
    key: Any  # an array of int64, or of objects
    reading: Any  # the key that was being read when the process stopped, None if there is none
    damaged: bool

    def __len__(self) -> int:
        return len(self.heads)


def read_tasks(file: SpoolFile) -> Tasks:
    words, records = file.words, file.records()
    none = np.zeros(0, np.int64)
    places = records.get(Tag.TASK, none)
    latest = records.get(Tag.LATEST, none)[-1:]
    if len(latest) and len(words) > latest[0] + Task.STATE:
        under_way = words[latest[0] + Task.STATE] == State.RUNNING
        places = np.concatenate([places, latest[: int(under_way)]])
    places = places[words[places] >= Task.STAMPS]
    heads = words[places[:, None] + np.arange(Task.STAMPS)]
    room = heads[:, 0] - Task.STAMPS
    sane = _are_sane(heads, room)
    n = len(sane) if sane.all() else int(np.argmin(sane))
    damaged = n < len(sane)
    places, heads = places[:n], heads[:n]

    n_keys, kinds, collate = heads[:, Task.N_KEYS], heads[:, Task.KEY_KIND], heads[:, Task.COLLATE]
    summed_up = kinds == KeyKind.LEFT_OUT
    first_stamp = places + Task.STAMPS
    n_stamps = _count_nonzero(words, first_stamp, np.where(summed_up, 0, n_keys + 1))
    counted = (collate != 0) | summed_up
    told = np.where(counted, heads[:, Task.N_SAMPLES], 0)  # where there is no stamp for each
    n_samples = np.maximum(n_stamps - 1, told)
    # A sample that was begun and never read: its read raised, or its process was killed.
    begun = ~counted & (heads[:, Task.STATE] != State.EXHAUSTED)
    begun &= (n_stamps > 0) & (n_stamps <= n_keys)
    at_once = (collate != 0) & (n_stamps <= n_samples)  # in one call: all took that long
    beyond = np.maximum(n_samples - n_keys, 0)[~summed_up].sum()
    if beyond > MOST_BEYOND:
        n_samples = np.where(summed_up, n_samples, np.minimum(n_samples, n_keys))
        damaged = True
    left_out = summed_up | (heads[:, 1] == Tag.LATEST)
    n_rows = np.where(left_out, 0, n_samples + begun)

    task = np.repeat(np.arange(n), n_rows)
    position = ragged(n_rows)
    stamp = first_stamp[task] + np.where(at_once[task], 0, position)
    start = words[stamp]
    end = np.where(at_once[task], collate[task], words[np.minimum(stamp + 1, len(words) - 1)])
    end[position >= n_samples[task]] = 0
    first_key = first_stamp + n_keys + 1
    counts = _counts_before(heads, n_samples)
    key = _keys(words, kinds, n_keys, first_key, counts, heads[:, 0] + places, task, position)
    reading = None
    if n and begun[-1] and heads[-1, Task.STATE] == State.RUNNING:
        last = np.array([n - 1])
        ends = heads[:, 0] + places
        reading = _keys(words, kinds, n_keys, first_key, counts, ends, last, n_samples[last])
        reading = reading.tolist()[0]
    return Tasks(heads, n_samples, n_rows, left_out, position, start, end, key, reading, damaged)


def ragged(sizes: Words) -> Words:
    """0 to size - 1 for each size, one after another."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)


def _are_sane(heads: Words, room: Words) -> Any:
    n_keys, kinds = heads[:, Task.N_KEYS], heads[:, Task.KEY_KIND]
    left_out = kinds == KeyKind.LEFT_OUT
    fits = (n_keys >= 0) & (n_keys < np.maximum(room, 1))
    n_keys = np.where(fits, n_keys, 0)  # so that sums of them do not overflow
    needed = n_keys + 1 + np.where(kinds == KeyKind.INTEGERS, n_keys, 0)
    n_samples = heads[:, Task.N_SAMPLES]
    plausible = (n_samples >= 0) & (n_samples <= np.maximum(n_keys, MOST_BEYOND))
    return fits & plausible & (left_out | (needed <= room))


def _count_nonzero(words: Words, first: Words, sizes: Words) -> Words:
    """Of each stretch of ``words``."""
    counts = np.zeros(len(first), np.int64)
    some = sizes > 0
    if some.any():
        own = sizes[some]
        set_ = words[np.repeat(first[some], own) + ragged(own)] != 0
        counts[some] = np.add.reduceat(set_, np.cumsum(own) - own, dtype=np.int64)
    return counts


def _counts_before(heads: Words, n_samples: Words) -> Words:
    """How many samples of the same stream came before each fetch."""
    import pandas as pd

    streams = pd.DataFrame(heads[:, [Task.ITERATOR, Task.ROUND]])
    done = pd.Series(n_samples).groupby([streams[0], streams[1]], sort=False).cumsum()
    return np.asarray(done, np.int64) - n_samples


def _keys(
    words: Words,
    kinds: Words,
    n_keys: Words,
    first_key: Words,
    counts: Words,
    ends: Words,
    task: Words,
    position: Words,
) -> Any:
    """The keys of samples, each given by its task and its position in it."""
    asked = position < n_keys[task]
    integers = (kinds[task] == KeyKind.INTEGERS) & asked
    keys = np.where(integers, 0, counts[task] + position)
    keys[integers] = words[first_key[task[integers]] + position[integers]]
    texts = kinds[task] == KeyKind.TEXT
    if asked.all() and not texts.any():
        return keys
    plain: Any = keys.astype(object)
    plain[~asked] = None
    for each in np.unique(task[texts]):
        own = np.arange(*np.searchsorted(task, [each, each + 1]))  # tasks come one after another
        own = own[asked[own]]
        text = unpack_text(words[first_key[each] : ends[each]])
        try:
            decoded = decode_keys(text)
            for row in own:
                plain[row] = decoded[position[row]]
        except (IndexError, *_DAMAGE):
            plain[own] = None
    return plain
