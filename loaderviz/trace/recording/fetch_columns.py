"""The fetches that one process wrote down, as columns: thousands of them are read at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.own_errors import own_errors
from loaderviz.record_layout import KeyKind, State, Tag, Task, decode_keys, unpack_text
from loaderviz.spool import SpoolFile, Words
from loaderviz.trace.check_trace import MOST_CHARACTERS, MOST_SAMPLES

# Samples that the fetches of one file may return beyond those asked for: as many as its words, or
# this. They take memory, and a file could claim any number.
MOST_UNASKED = 1 << 16

MOST_TEXTS = 1 << 16  # that are looked up in one file
_LOST_WORDS = 8  # of a LOST record
_TEXT_AT = 3  # in a TEXT record, after its number

# What reading keys can raise if they are damaged or their process died while it wrote them.
_DAMAGE = (ValueError, TypeError, KeyError, RecursionError)


@dataclass(frozen=True)
class Fetches:
    """Columns of n fetches, in their order, and of the samples that they read, one after another.

    Times are those of ``loaderviz.clocks.process_clock`` in ns, 0 where something has not happened.

    Attributes:
        heads: the fixed words of each TASK record, of shape (n, Task.STAMPS).
        nth: of its stream, each fetch: those that a ring has written over count, too.
        n_samples: how many samples each fetch read.
        n_rows: how many rows of samples each fetch has here: a sample that was begun counts too,
            one that was left out does not.
        left_out: whether each fetch was past the limit on sample rows.
        position: of each sample in its batch.
        start: when the read of each sample began.
        end: when it ended.
        key: of each sample; an array of int64, or of objects.
        shapes: the text of each fetch's ``Task.SHAPES``, None where there is none.
        reading: the key that was being read when the process stopped, None if there is none.
        damaged: whether some of the file could not be read.
    """

    heads: Words
    nth: Words
    n_samples: Words
    n_rows: Words
    left_out: np.ndarray[Any, np.dtype[np.bool_]]
    position: Words
    start: Words
    end: Words
    key: Any
    shapes: Any
    reading: Any
    damaged: bool

    def __len__(self) -> int:
        return len(self.heads)


def read_fetches(file: SpoolFile, records: dict[int, Words]) -> Fetches:
    """The fetches that a process wrote into its spool file, up to the first that is damaged.

    ``records`` are those of the file.
    """
    words = file.words
    n_head = Task.STAMPS_OF_FORMAT[file.format]
    starts = _record_starts(words, records, n_head)
    heads = np.zeros((len(starts), Task.STAMPS), np.int64)
    heads[:, :n_head] = words[starts[:, None] + np.arange(n_head)]
    is_sane = _are_sane(heads, heads[:, 0] - n_head)
    n = len(is_sane) if is_sane.all() else int(np.argmin(is_sane))
    damaged = n < len(is_sane)
    starts, heads = starts[:n], heads[:n]

    n_keys, kinds, collate = heads[:, Task.N_KEYS], heads[:, Task.KEY_KIND], heads[:, Task.COLLATE]
    keys_left_out = kinds == KeyKind.LEFT_OUT
    first_stamp = starts + n_head
    n_stamps = _count_nonzero(words, first_stamp, np.where(keys_left_out, 0, n_keys + 1))
    has_count = (collate != 0) | keys_left_out
    written_count = np.where(has_count, heads[:, Task.N_SAMPLES], 0)  # there may be fewer stamps
    n_samples = np.maximum(n_stamps - 1, written_count)
    # A sample that was begun and never read: its read raised, or its process was killed.
    begun = ~has_count & (heads[:, Task.STATE] != State.EXHAUSTED)
    begun &= (n_stamps > 0) & (n_stamps <= n_keys)
    # Where one call reads them all, it began with the batch: which sample it is at is not known.
    first_start = words[np.minimum(first_stamp, max(len(words) - 1, 0))]
    begun &= (n_keys == 1) | (first_start != heads[:, Task.STARTED])
    in_one_call = (collate != 0) & (n_stamps <= n_samples)  # each sample has the whole call's time
    n_unasked = np.maximum(n_samples - n_keys, 0)[~keys_left_out].sum()
    if n_unasked > max(MOST_UNASKED, len(words)):
        n_samples = np.where(keys_left_out, n_samples, np.minimum(n_samples, n_keys))
        damaged = True
    left_out = keys_left_out | (heads[:, 1] == Tag.LATEST)
    n_rows = np.where(left_out, 0, n_samples + begun)

    fetch = np.repeat(np.arange(n), n_rows)
    position = ragged_range(n_rows)
    stamp = first_stamp[fetch] + np.where(in_one_call[fetch], 0, position)
    start = words[stamp]
    next_stamp = words[np.minimum(stamp + 1, len(words) - 1)]
    end = np.where(in_one_call[fetch], collate[fetch], next_stamp)
    end[position >= n_samples[fetch]] = 0
    lost = lost_of(words, records, Tag.TASK)
    streams = heads[:, [Task.ITERATOR, Task.ROUND]]
    before = {stream[:2]: n for stream, n in lost.items()}
    nth = sums_before(streams, np.ones(n, np.int64), {key: n for key, (n, _) in before.items()})
    counts = sums_before(streams, n_samples, {key: n for key, (_, n) in before.items()})
    key = _keys(words, starts, n_head, heads, counts, fetch, position)
    reading = None
    if n and begun[-1] and heads[-1, Task.STATE] == State.RUNNING:
        last = np.array([n - 1])
        reading = _keys(words, starts, n_head, heads, counts, last, n_samples[last]).tolist()[0]
    shapes = _texts(words, records.get(Tag.TEXT, starts[:0]), heads[:, Task.SHAPES])
    return Fetches(
        heads, nth, n_samples, n_rows, left_out, position, start, end, key, shapes, reading, damaged
    )


def ragged_range(sizes: Words) -> Words:
    """0 to size - 1 for each size, one after another: an int64 array as long as their sum."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)


def _texts(words: Words, records: Words, numbers: Words) -> Any:
    """The texts of these numbers, None for one that was not written; equal ones are one object."""
    asked = np.unique(numbers[numbers > 0])[:MOST_TEXTS]
    texts = np.full(len(asked) + 1, None, object)
    for start in records[words[records] > _TEXT_AT].tolist():
        number = int(words[start + _TEXT_AT - 1])
        at = int(np.searchsorted(asked, number))
        if at < len(asked) and asked[at] == number:
            text = unpack_text(words[start + _TEXT_AT : start + words[start]])
            texts[at] = text[:MOST_CHARACTERS] or None
    at_each = np.searchsorted(asked, numbers)
    is_known = np.isin(numbers, asked)
    return texts[np.where(is_known, at_each, len(asked))]


def _record_starts(words: Words, records: dict[int, Words], n_head: int) -> Words:
    """Where in ``words`` the record of each fetch begins, the one under way included."""
    no_records = np.zeros(0, np.int64)
    starts = records.get(Tag.TASK, no_records)
    latest = records.get(Tag.LATEST, no_records)[-1:]
    if len(latest) and len(words) > latest[0] + Task.STATE:
        under_way = words[latest[0] + Task.STATE] == State.RUNNING
        starts = np.concatenate([starts, latest[: int(under_way)]])
    return starts[words[starts] >= n_head]


def _are_sane(heads: Words, room: Words) -> Any:
    """Whether each fetch claims no more stamps and keys than fit into its ``room`` (in words)."""
    n_keys, kinds = heads[:, Task.N_KEYS], heads[:, Task.KEY_KIND]
    left_out = kinds == KeyKind.LEFT_OUT
    fits = (n_keys >= 0) & (n_keys < np.maximum(room, 1))
    n_keys = np.where(fits, n_keys, 0)  # so that sums of them do not overflow
    needed = n_keys + 1 + np.where(kinds == KeyKind.INTEGERS, n_keys, 0)
    n_samples = heads[:, Task.N_SAMPLES]
    plausible = (n_samples >= 0) & (n_samples <= np.maximum(n_keys, MOST_SAMPLES))
    return fits & plausible & (left_out | (needed <= room))


def _count_nonzero(words: Words, first: Words, sizes: Words) -> Words:
    """How many words are not 0 in each stretch, given by its first word and its size."""
    counts = np.zeros(len(first), np.int64)
    filled = sizes > 0
    if filled.any():
        filled_sizes = sizes[filled]
        at = np.repeat(first[filled], filled_sizes) + ragged_range(filled_sizes)
        stretch_starts = np.cumsum(filled_sizes) - filled_sizes
        counts[filled] = np.add.reduceat(words[at] != 0, stretch_starts, dtype=np.int64)
    return counts


def lost_of(words: Words, records: dict[int, Words], tag: int) -> dict[tuple[int, ...], list[int]]:
    """Of each stream how many records with this tag, and samples, a ring has written over.

    A stream is an iterator, a round and the worker that a batch was sent to, or 0 of fetches.
    """
    lost = {}
    for start in records.get(Tag.LOST, np.zeros(0, np.int64)).tolist():
        of, *stream, n, n_samples = words[start + 2 : start + _LOST_WORDS].tolist()
        if of == tag:
            lost[tuple(stream)] = [n, n_samples]
    return lost


def sums_before(streams: Words, values: Words, lost: dict[tuple[int, ...], int]) -> Words:
    """The sum of the values of the same stream that came before each; ``lost`` is before all.

    ``streams``: that of each value, of shape (n, m).
    """
    in_turn = np.lexsort(streams.T)
    begins = np.ones(len(streams), bool)
    begins[1:] = (np.diff(streams[in_turn], axis=0) != 0).any(axis=1)
    so_far = np.cumsum(values[in_turn]) - values[in_turn]
    first = np.flatnonzero(begins)
    base = so_far[first]
    if lost:
        of_streams = map(tuple, streams[in_turn[first]].tolist())
        base = base - np.array([lost.get(stream, 0) for stream in of_streams], np.int64)
    before = np.empty(len(streams), np.int64)
    before[in_turn] = so_far - base[np.cumsum(begins) - 1]
    return before


def _keys(
    words: Words,
    starts: Words,
    n_head: int,
    heads: Words,
    counts: Words,
    fetch: Words,
    position: Words,
) -> Any:
    """The keys of samples, each given by its fetch and its position in it.

    A fetch is the index of its record in ``starts`` and ``heads``, and of its first sample's number
    in ``counts``. A record has ``n_head`` fixed words.
    """
    n_keys, kinds = heads[:, Task.N_KEYS], heads[:, Task.KEY_KIND]
    first_key = starts + n_head + n_keys + 1
    ends = heads[:, 0] + starts
    was_asked_for = position < n_keys[fetch]
    is_integer = (kinds[fetch] == KeyKind.INTEGERS) & was_asked_for
    keys = np.where(is_integer, 0, counts[fetch] + position)
    keys[is_integer] = words[first_key[fetch[is_integer]] + position[is_integer]]
    is_text = kinds[fetch] == KeyKind.TEXT
    if was_asked_for.all() and not is_text.any():
        return keys
    objects: Any = keys.astype(object)
    objects[~was_asked_for] = None
    for i in np.unique(fetch[is_text]):
        rows = np.arange(*np.searchsorted(fetch, [i, i + 1]))  # fetches come one after another
        rows = rows[was_asked_for[rows]]
        text = unpack_text(words[first_key[i] : ends[i]])
        try:
            decoded = decode_keys(text)
            for row in rows:
                objects[row] = decoded[position[row]]
        except own_errors(IndexError, *_DAMAGE):
            objects[rows] = None
    return objects
