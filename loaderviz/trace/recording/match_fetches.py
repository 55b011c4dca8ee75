"""Which fetch made each dispatched batch: what the main process sent, matched to what was made."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loaderviz.record_layout import Batch, State, Task
from loaderviz.spool import Words
from loaderviz.trace.recording.fetch_columns import Fetches


class AllFetches(NamedTuple):
    """The fetches of all processes, and a blank one at the end, which index -1 finds.

    Columns are those of ``Fetches``, and ``first_row`` says where each fetch's samples begin.
    """

    heads: Words
    streams: Words  # iterator, round and worker of each; the blank one belongs to none
    n_samples: Words
    n_rows: Words
    left_out: Any
    first_row: Words
    position: Words
    start: Words
    end: Words
    key: Any
    shapes: Any

    @classmethod
    def from_processes(cls, by_process: list[tuple[int, Fetches]]) -> AllFetches:
        """Put together the fetches of processes, each given with its worker's number."""

        def chain(*arrays: Any) -> Any:
            filled = [np.asarray(array) for array in arrays if len(array)]
            filled = filled or [np.zeros(0, np.int64)]
            return filled[0] if len(filled) == 1 else np.concatenate(filled)

        parts = [fetches for _, fetches in by_process]
        blank = np.zeros((1, Task.STAMPS), np.int64)
        heads = np.concatenate([*(part.heads for part in parts), blank])
        workers = np.repeat(
            np.array([*(worker for worker, _ in by_process), 0], np.int64), [*map(len, parts), 1]
        )
        streams = np.column_stack([heads[:, Task.ITERATOR], heads[:, Task.ROUND], workers])
        streams[-1] = np.iinfo(np.int64).min
        n_rows = chain(*(part.n_rows for part in parts), [0])
        return cls(
            heads=heads,
            streams=streams,
            n_samples=chain(*(part.n_samples for part in parts), [0]),
            n_rows=n_rows,
            left_out=chain(*(part.left_out for part in parts), [False]).astype(bool),
            first_row=np.cumsum(n_rows) - n_rows,
            position=chain(*(part.position for part in parts)),
            start=chain(*(part.start for part in parts)),
            end=chain(*(part.end for part in parts)),
            key=chain(*(part.key for part in parts)),
            shapes=chain(*(part.shapes for part in parts), np.full(1, None)),
        )


def match_tasks(sent: Words, made: Words) -> Words:
    """For each task that was sent, the index of its fetch, or -1 if it has none.

    The k-th task of a stream became the k-th fetch of that stream. ``sent`` and ``made`` hold the
    stream of each task and of each fetch: iterator, round and worker, int64 of shape (n, 3).
    """
    streams = np.concatenate([made, sent])
    in_turn = np.lexsort(streams.T)  # of each stream all fetches, and then all tasks
    begins = np.ones(len(streams), bool)
    begins[1:] = (np.diff(streams[in_turn], axis=0) != 0).any(axis=1)
    stream, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    is_fetch = in_turn < len(made)
    n_made = np.bincount(stream[is_fetch], minlength=len(first))
    task = np.flatnonzero(~is_fetch)
    nth = task - (first + n_made)[stream[task]]
    found = nth < n_made[stream[task]]
    fetch = np.full(len(sent), -1, np.int64)
    fetch[in_turn[task[found]] - len(made)] = in_turn[(first[stream[task]] + nth)[found]]
    return fetch


def batch_states(sent: Words, fetch: Words, heads: Words, ready: Words) -> Any:
    """What the column ``state`` of ``batches`` says, an array of n texts.

    Args:
        sent: the batches' records, shape (n, Batch.N_WORDS).
        fetch: the index of each one's fetch, -1 for none.
        heads: the fixed words of that fetch, shape (n, Task.STAMPS).
        ready: when the batch was ready, 0 if it was not.
    """
    return np.select(
        [
            sent[:, Batch.DELIVERED] != 0,
            heads[:, Task.STATE] == State.RAISED,
            sent[:, Batch.RELEASED] != 0,
            fetch < 0,
            ready != 0,
        ],
        ["delivered", "failed", "lost", "dispatched", "ready"],
        "started",
    ).astype(object)
