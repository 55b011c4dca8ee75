"""The tables of batches and samples of a recording: what was sent, matched to what was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from loaderviz.record_layout import Batch, State, Task
from loaderviz.spool import Words
from loaderviz.trace.columns_of_rows import Table, where
from loaderviz.trace.recording.fetch_columns import Fetches, ragged_range, sums_before

STREAM = [Batch.ITERATOR, Batch.ROUND, Batch.WORKER]  # of a batch's record


class AllFetches(NamedTuple):
    """The fetches of all processes, and a blank one at the end, which index -1 finds.

    Columns are those of ``Fetches``, and ``first_row`` says where each fetch's samples begin.
    """

    heads: Words
    streams: Words  # iterator, round and worker of each; the blank one belongs to none
    nth: Words  # of its stream
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
            nth=chain(*(part.nth for part in parts), [0]),
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


@dataclass(frozen=True)
class SentBatches:
    """Batches that the loop asked for, in order of loader, epoch and batch.

    Attributes:
        records: of the batches, int64 of shape (n, Batch.N_WORDS).
        fetch: the index of what made each, -1 where nothing did.
        made: all that was made.
        loaders: the number of each one's loader, shape (n,).
        epochs: the number of each one's epoch, shape (n,).
        adopted: whether the work of each one's loader is not seen, shape (n,).
    """

    records: Words
    fetch: Words
    made: AllFetches
    loaders: Words
    epochs: Words
    adopted: Any

    @classmethod
    def of(
        cls,
        records: Words,
        by_process: list[tuple[int, Fetches]],
        loaders: dict[int, int],
        epochs: dict[tuple[int, int], int],
        adopted: set[int],
        lost: dict[tuple[int, ...], int],
    ) -> SentBatches:
        """Those of these records, but the ones that a stream was sent in vain after its end.

        Args:
            records: of all batches, in any order.
            by_process: the fetches of each process, with its worker's number.
            loaders: of each iterator.
            epochs: of each iterator's rounds.
            adopted: iterators whose work is not seen.
            lost: how many records of each iterator, round and worker a ring has written over.
        """
        made = AllFetches.from_processes(by_process)
        # Those of one iterator may be in two files; it sends its tasks in their order.
        sent = records[np.argsort(records[:, Batch.TASK], kind="stable")]
        streams = sent[:, STREAM]
        nth = sums_before(streams, np.ones(len(sent), np.int64), lost)
        sent_as = np.column_stack([streams, nth])
        fetch = _match_tasks(sent_as, np.column_stack([made.streams, made.nth]))
        kept = ~_in_vain(sent, fetch, made)
        sent, fetch = sent[kept], fetch[kept]
        rounds = sent[:, [Batch.ITERATOR, Batch.ROUND]].tolist()
        loader = np.array([loaders.get(iterator, 0) for iterator, _ in rounds], np.int64)
        epoch = np.array([epochs.get(tuple(key), 0) for key in rounds], np.int64)
        order = np.lexsort([sent[:, Batch.TASK], epoch, loader])
        is_adopted = np.isin(sent[:, Batch.ITERATOR], list(adopted))
        return cls(sent[order], fetch[order], made, loader[order], epoch[order], is_adopted[order])

    @property
    def unseen(self) -> Any:
        """Which were delivered and not seen where they were made, though that is seen."""
        return (self.fetch < 0) & (self.records[:, Batch.DELIVERED] != 0) & ~self.adopted

    def only(self, rows: Any) -> SentBatches:
        """The batches that a mask picks."""
        names = ("records", "fetch", "loaders", "epochs", "adopted")
        columns = where({name: getattr(self, name) for name in names}, rows)
        return SentBatches(made=self.made, **columns)

    @property
    def n_samples_left_out(self) -> int:
        """How many samples were read that have no rows, where they should have some."""
        left_out = self.made.left_out[self.fetch] & ~self.adopted
        return int(self.made.n_samples[self.fetch][left_out].sum())

    def tables(self, rank: int, start_ns: int) -> tuple[Table, Table]:
        """The columns of ``batches`` and of ``samples``.

        ``start_ns``: the process clock as the recording began.
        """
        shared = {
            "loader": self.loaders,
            "epoch": self.epochs,
            "batch": self.records[:, Batch.TASK],
            "worker": self.records[:, Batch.WORKER],
        }
        batches = {"rank": rank, **shared, **self._batch_columns(start_ns)}
        made, n_rows = self.made, self.made.n_rows[self.fetch]
        rows: Any = np.repeat(made.first_row[self.fetch], n_rows) + ragged_range(n_rows)
        if len(rows) == len(made.start) and (np.diff(rows, prepend=-1) == 1).all():
            rows = slice(None)  # in their order already: nothing to copy
        samples = {
            "rank": rank,
            **{name: np.repeat(values, n_rows) for name, values in shared.items()},
            "position": made.position[rows],
            "key": made.key[rows],
            "start_s": seconds_since(start_ns, made.start[rows]),
            "end_s": seconds_since(start_ns, made.end[rows]),
        }
        return batches, samples

    def _batch_columns(self, start_ns: int) -> Table:
        """What each batch alone has: when, at which costs, and what became of it."""
        sent, heads = self.records, self.made.heads[self.fetch]
        ready = np.where(heads[:, Task.STATE] == State.DONE, heads[:, Task.READY], 0)
        # The main process draws keys as soon as it is asked for a batch (torch/utils/data/
        # dataloader.py, _SingleProcessDataLoaderIter._next_data).
        in_main = sent[:, Batch.WORKER] < 0
        released = np.where(sent[:, Batch.DELIVERED] != 0, sent[:, Batch.RELEASED], 0)
        times = {
            "drawing_s": np.where(in_main, sent[:, Batch.REQUESTED], sent[:, Batch.DRAWING]),
            "dispatched_s": sent[:, Batch.DISPATCHED],
            "started_s": heads[:, Task.STARTED],
            "collate_s": heads[:, Task.COLLATE],
            "ready_s": ready,
            "pinned_s": sent[:, Batch.PINNED],
            "requested_s": sent[:, Batch.REQUESTED],
            "delivered_s": sent[:, Batch.DELIVERED],
            "released_s": released,
            "device_start_s": sent[:, Batch.DEVICE_START],
            "device_end_s": sent[:, Batch.DEVICE_END],
        }
        return {
            "n_samples": self.made.n_samples[self.fetch],
            **{name: seconds_since(start_ns, values) for name, values in times.items()},
            "cpu_s": np.where(heads[:, Task.READY] != 0, heads[:, Task.CPU] / 1e9, np.nan),
            "process_cpu_s": _counted(heads[:, Task.PROCESS_CPU]) / 1e9,
            "children_cpu_s": _counted(heads[:, Task.CHILDREN_CPU]) / 1e9,
            "queued_s": _counted(heads[:, Task.QUEUED]) / 1e9,
            "throttled_s": _counted(heads[:, Task.THROTTLED]) / 1e9,
            "read_bytes": _counted(heads[:, Task.READ]),
            "disk_bytes": _counted(heads[:, Task.DISK]),
            "rss_bytes": heads[:, Task.RSS],
            "n_bytes": np.where(ready != 0, _counted(heads[:, Task.BYTES]), np.nan),
            "shapes": self.made.shapes[self.fetch],
            "state": _batch_states(sent, self.fetch, heads, ready),
        }


def seconds_since(start_ns: int, times_ns: Any) -> Any:
    """Seconds since the recording began; NaN for 0, which has not happened."""
    times = np.asarray(times_ns, dtype=np.int64)
    return np.where(times == 0, np.nan, (times - start_ns) / 1e9)


def _in_vain(sent: Words, fetch: Words, made: AllFetches) -> Any:
    """Which tasks a stream was sent after its end, until the main process heard of it."""
    exhausted = made.heads[:, Task.STATE] == State.EXHAUSTED
    ended = set(map(tuple, made.streams[exhausted].tolist()))
    of_ended = np.array([tuple(key) in ended for key in sent[:, STREAM].tolist()], dtype=bool)
    empty = (fetch < 0) | (exhausted & (made.n_samples == 0))[fetch]
    return of_ended & empty & (sent[:, Batch.DELIVERED] == 0)


def _counted(words: Words) -> Any:
    """What was counted, of words that are one more; NaN for 0."""
    return np.where(words > 0, words - 1.0, np.nan)


def _match_tasks(sent: Words, made: Words) -> Words:
    """For each task that was sent, the index of its fetch, or -1 if it has none.

    The k-th task of a stream became the k-th fetch of that stream. ``sent`` and ``made`` hold of
    each task and of each fetch: iterator, round, worker and k, int64 of shape (n, 4).
    """
    both = np.concatenate([made, sent])
    in_turn = np.lexsort(both.T)  # stable: a fetch, and then its task
    alike = (np.diff(both[in_turn], axis=0) == 0).all(axis=1)
    first, second = in_turn[:-1][alike], in_turn[1:][alike]
    pairs = (first < len(made)) & (second >= len(made))
    fetch = np.full(len(sent), -1, np.int64)
    fetch[second[pairs] - len(made)] = first[pairs]
    return fetch


def _batch_states(sent: Words, fetch: Words, heads: Words, ready: Words) -> Any:
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
