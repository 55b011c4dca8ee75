"""How far a recorded loop has come, by what its main process has written until now."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from loaderviz import machine
from loaderviz.clocks.process_clock import now
from loaderviz.errors import LoaderVizError
from loaderviz.record_layout import Batch, Tag
from loaderviz.spool import SpoolFile, Words
from loaderviz.trace.recording.read_recording import more_loaders, read_meta

MAIN_FILE: Final = "main.spool"
_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True)
class BatchNow:
    """A batch under way.

    Attributes:
        loader, epoch, batch: its numbers, as in the columns of a trace.
        iterator, round: what makes it, as in the recording's files.
        worker: which makes it; -1 is the main process.
        nth: the how manieth of this worker's batches in this round it is, from 0.
    """

    loader: int
    epoch: int
    batch: int
    iterator: int
    round: int
    worker: int
    nth: int


@dataclass(frozen=True)
class LoopNow:
    """The loop of one recording at one moment; times in seconds.

    Attributes:
        folder: of the recording.
        rank: of its process.
        pid: of its process; 0 where it is not known.
        host: the name of its machine.
        here: whether it runs on this machine.
        ended: whether the recording has ended.
        n_batches: how many batches the loop has got.
        since_last_batch_s: since it got the last one; NaN before the first.
        pause_s: for how long it has been where it is now.
        longest_pause_s: the longest that it was in one place since the first batch; 0 for none.
        held: the batch that it works on, as far as was written; None where it waits for one, or
            does something else.
        open_batches: those that were asked for and did not come, of the epoch that it waits in,
            the oldest first; of an epoch that is over they never will.
        in_order: whether batches of that loader are handed over in order.
        n_loaders: how many loaders are recorded.
        start_method: how its workers are started.
        workers: number, pid and iterator of each worker that was started and whose end is not
            written down.
        cut_short: why later batches are not recorded; empty where they are.
    """

    folder: Path
    rank: int
    pid: int
    host: str
    here: bool
    ended: bool
    n_batches: int
    since_last_batch_s: float
    pause_s: float
    longest_pause_s: float
    held: BatchNow | None
    open_batches: tuple[BatchNow, ...]
    in_order: bool
    n_loaders: int
    start_method: str | None
    workers: tuple[tuple[int, int, int], ...]
    cut_short: str


def read_loop(folder: Path) -> LoopNow:
    """How the loop stands whose recording is in ``folder``.

    Raises:
        LoaderVizError: where there is none, or it cannot be read.
    """
    try:
        meta = read_meta(folder)
        meta["loaders"] += more_loaders(folder)
        file = SpoolFile(folder / MAIN_FILE)
        return _Reader(folder, meta, file).loop()
    except (OSError, RecursionError, ValueError, TypeError, LookupError, OverflowError) as error:
        raise LoaderVizError(
            f"the recording in {str(folder)!r} cannot be read ({type(error).__name__}: {error})"
        ) from error


def _batches(words: Words, records: dict[int, Words]) -> Words:
    """The records of batches in a file, of shape (n_batches, Batch.N_WORDS_OF_FORMAT_1)."""
    starts = records.get(Tag.BATCH, _NONE)
    n_words = Batch.N_WORDS_OF_FORMAT_1
    starts = starts[words[starts] >= n_words]
    batches: Words = words[starts[:, None] + np.arange(n_words)]
    return batches


class _Reader:
    """The records of a main process."""

    def __init__(self, folder: Path, meta: dict[str, Any], file: SpoolFile) -> None:
        self._folder, self._meta, self._file = folder, meta, file
        self._records = file.records()
        batches = [_batches(file.words, self._records)]
        for path in folder.glob("here-*.spool"):  # of those that the main process makes itself
            with suppress(LoaderVizError):  # it is being made
                here = SpoolFile(path)
                batches.append(_batches(here.words, here.records()))
        all_batches = np.concatenate(batches)
        in_turn = np.argsort(all_batches[:, Batch.DISPATCHED], kind="stable")
        self._batches: Words = all_batches[in_turn]
        self._loader_of = {row[0]: row[1] for row in self._rows(Tag.ITERATOR, 3)}
        self._epochs = {(row[0], row[1]): (row[2], row[3]) for row in self._rows(Tag.EPOCH, 4)}

    def _rows(self, tag: int, n: int) -> list[list[int]]:
        """The first ``n`` fields of each record with this tag."""
        starts = self._records.get(tag, _NONE)
        starts = starts[self._file.words[starts] >= n + 2]
        rows: list[list[int]] = self._file.words[starts[:, None] + np.arange(2, n + 2)].tolist()
        return rows

    def loop(self) -> LoopNow:
        batches = self._batches
        delivered, released = batches[:, Batch.DELIVERED], batches[:, Batch.RELEASED]
        taken = np.flatnonzero(delivered)
        started_ns = int(self._meta["started"][0])
        begun_ns = [begun for _, begun in self._epochs.values()]
        begun_ns += [row[2] for row in self._rows(Tag.ITERATOR, 3)]
        events = np.concatenate([[started_ns], begun_ns, delivered[taken], released[taken]])
        events = np.unique(events[events > 0]).astype(np.int64)
        last_ns = int(events[-1])
        first_ns = (
            int(delivered[taken].min()) if len(taken) else last_ns
        )  # what was before is start
        here = self._meta.get("clock_domain") == machine.clock_domain()
        now_ns = now() if here else last_ns
        works = bool((delivered[taken] == last_ns).any())
        iterator = None if works else self._asked_iterator(last_ns)
        open_batches = self._open_batches(iterator)
        held = taken[released[taken] == 0] if not open_batches else taken[:0]
        loader = self._loader_of.get(iterator[0], 0) if iterator else 0
        description = self._loader(loader)
        return LoopNow(
            folder=self._folder,
            rank=int(self._meta["rank"]),
            pid=int(self._meta.get("pid") or 0),
            host=str(self._meta.get("host", "")),
            here=here,
            ended=Tag.FINISH in self._records,
            n_batches=len(taken),
            since_last_batch_s=(now_ns - int(delivered.max())) / 1e9 if len(taken) else np.nan,
            pause_s=max(now_ns - last_ns, 0) / 1e9,
            longest_pause_s=float(np.diff(events[events >= first_ns]).max(initial=0)) / 1e9,
            held=self._batch_now(int(held[-1])) if len(held) else None,
            open_batches=open_batches,
            in_order=bool(description.get("in_order", True)),
            n_loaders=len(self._meta["loaders"]),
            start_method=description.get("start_method"),
            workers=self._workers(),
            cut_short=self._file.problem,
        )

    def _asked_iterator(self, last_ns: int) -> tuple[int, int] | None:
        """Iterator and round that the loop was last seen to be at: it asked it for a batch then."""
        begun = [key for key, (_, begun_ns) in self._epochs.items() if begun_ns == last_ns]
        if begun:
            return begun[-1]
        at = np.flatnonzero(self._batches[:, Batch.RELEASED] == last_ns)
        if not len(at):
            return None
        iterator, round_ = self._batches[at[-1], [Batch.ITERATOR, Batch.ROUND]].tolist()
        return iterator, round_

    def _open_batches(self, iterator: tuple[int, int] | None) -> tuple[BatchNow, ...]:
        if iterator is None:
            return ()
        batches = self._batches
        is_open = (batches[:, Batch.DELIVERED] == 0) & (batches[:, Batch.RELEASED] == 0)
        is_of = (batches[:, [Batch.ITERATOR, Batch.ROUND]] == iterator).all(axis=1)
        return tuple(self._batch_now(int(at)) for at in np.flatnonzero(is_open & is_of))

    def _batch_now(self, at: int) -> BatchNow:
        iterator, round_, task, worker = self._batches[at, Batch.ITERATOR : Batch.WORKER + 1]
        before = self._batches[:at]
        nth = before[:, Batch.WORKER] == worker
        nth &= (before[:, Batch.ITERATOR] == iterator) & (before[:, Batch.ROUND] == round_)
        return BatchNow(
            loader=self._loader_of.get(int(iterator), 0),
            epoch=self._epochs.get((int(iterator), int(round_)), (0, 0))[0],
            batch=int(task),
            iterator=int(iterator),
            round=int(round_),
            worker=int(worker),
            nth=int(nth.sum()),
        )

    def _loader(self, number: int) -> dict[str, Any]:
        """What the recording says of a loader; {} where it was met later and nothing is needed."""
        loaders = self._meta["loaders"]
        return dict(loaders[number]) if number < len(loaders) else {}

    def _workers(self) -> tuple[tuple[int, int, int], ...]:
        ended = {(iterator, worker) for iterator, worker, _ in self._rows(Tag.EXIT, 3)}
        return tuple(
            (worker, pid, iterator)
            for iterator, worker, pid in self._rows(Tag.WORKER, 3)
            if (iterator, worker) not in ended
        )
