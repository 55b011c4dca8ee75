"""Which fetch each batch became that was dispatched: what was sent, beside what was made of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loaderviz.record_layout import Batch, State, Task
from loaderviz.spool import Words
from loaderviz.trace.recording.fetch_columns import Tasks


class Made(NamedTuple):
    """The fetches of all processes, and a blank one at the end: what index -1 finds."""

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

    @classmethod
    def of(cls, tasks: list[tuple[int, Tasks]]) -> Made:
        def chain(*arrays: Any) -> Any:
            some = [np.asarray(each) for each in arrays if len(each)] or [np.zeros(0, np.int64)]
            return some[0] if len(some) == 1 else np.concatenate(some)

        all_ = [each for _, each in tasks]
        blank = np.zeros((1, Task.STAMPS), np.int64)
        heads = np.concatenate([*(each.heads for each in all_), blank])
        workers = np.repeat(
            np.array([*(worker for worker, _ in tasks), 0], np.int64), [*map(len, all_), 1]
        )
        streams = np.column_stack([heads[:, Task.ITERATOR], heads[:, Task.ROUND], workers])
        streams[-1] = np.iinfo(np.int64).min
        n_rows = chain(*(each.n_rows for each in all_), [0])
        return cls(
            heads=heads,
            streams=streams,
            n_samples=chain(*(each.n_samples for each in all_), [0]),
            n_rows=n_rows,
            left_out=chain(*(each.left_out for each in all_), [False]).astype(bool),
            first_row=np.cumsum(n_rows) - n_rows,
            position=chain(*(each.position for each in all_)),
            start=chain(*(each.start for each in all_)),
            end=chain(*(each.end for each in all_)),
            key=chain(*(each.key for each in all_)),
        )


def match(sent: Words, made: Words) -> Words:
    """For each task sent, which fetch it became: the k-th of a stream is its k-th; -1 for none."""
    import pandas as pd

    stream = ["iterator", "round", "worker"]
    sent_rows, made_rows = (pd.DataFrame(each, columns=stream) for each in (sent, made))
    for rows in (sent_rows, made_rows):
        rows["nth"] = rows.groupby(stream, sort=False).cumcount()
    made_rows["fetch"] = np.arange(len(made_rows))
    found = sent_rows.merge(made_rows, how="left", on=[*stream, "nth"])["fetch"]
    return np.asarray(found.fillna(-1), np.int64)


def states(sent: Words, task: Words, fetched: Words, ready: Words) -> Any:
    return np.select(
        [
            sent[:, Batch.DELIVERED] != 0,
            task < 0,
            fetched[:, Task.STATE] == State.RAISED,
            ready != 0,
        ],
        ["delivered", "dispatched", "failed", "ready"],
        "started",
    ).astype(object)
