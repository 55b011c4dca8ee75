"""Writes a recording that is a ring minute by minute, before its details are written over.

The main process reads on in all files of the recording once a minute, as anybody could who looks at
it while it runs: so nothing is counted while batches come. A window is written when it is over;
what a killed process had not written is in the ring.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.own_errors import own_errors_suppressed
from loaderviz.record_layout import MAIN_PROCESS, Batch, State, Tag, Task
from loaderviz.spool import Words
from loaderviz.trace import MAIN_NAME, WINDOWS_NAME
from loaderviz.trace.columns_of_rows import Table
from loaderviz.trace.recording.fetch_columns import read_fetches
from loaderviz.trace.recording.spool_tail import SpoolTail
from loaderviz.trace.windows import COLUMNS, FILE_ROW, Row, rows_of

MOST_WINDOWS: Final = 4320  # three days of minutes: later ones are twice as long, and so on
MOST_TRIES: Final = 5  # to read a file while a worker writes it
_FILES: Final = ("here-*.spool", "worker-*.spool")
_LOOP: Final = ("iterator", "round", "at", "took", "other")
_READING: Final = (*_LOOP, "worker", "samples", "disk_bytes", "memory_bytes")


class WindowLog:
    """The windows of one recording, as its main process writes them.

    Args:
        folder: of the recording.
        rank: of its process.
        started_ns: when it began.
        window_s: how long the first windows are.
    """

    def __init__(self, folder: Path, rank: int, started_ns: int, window_s: float) -> None:
        self._folder, self._whose = folder, rank
        self._started_ns = self._from_ns = started_ns
        self._window_ns = round(window_s * 1e9)
        self._n_windows = 0
        self.next_ns = started_ns + self._window_ns
        self._main = SpoolTail(folder / MAIN_NAME)
        self._tails: dict[Path, _Reader] = {}
        self._loaders: dict[int, int] = {}  # of each iterator
        self._epochs: dict[tuple[int, int], int] = {}  # of each iterator's rounds
        self._begun: dict[int, int] = {}  # when iter() began to make each iterator
        self._starts = self._loop = np.zeros((0, len(_LOOP)), np.int64)
        self._reading = np.zeros((0, len(_READING)), np.int64)

    @property
    def window_s(self) -> float:
        """How long a window is now."""
        return self._window_ns / 1e9

    def read(self, path: Path) -> None:
        """Read on in one file, which may be moved after that; raises LoaderVizError or OSError."""
        if path not in self._tails:
            self._tails[path] = _Reader(path)
        loop, reading = self._tails[path].read()
        self._loop = np.concatenate([self._loop, loop])
        self._reading = np.concatenate([self._reading, reading])

    def close(self, at_ns: int, *, ended: bool = False) -> list[Row]:
        """Write the windows that are over, ``ended`` also the last one; returns them.

        Raises:
            LoaderVizError, OSError: where a file cannot be read or written.
        """
        n_over = max((at_ns - self._from_ns) // self._window_ns, 0)
        until_ns = at_ns + 1 if ended else self._from_ns + n_over * self._window_ns
        self.next_ns = until_ns + self._window_ns
        self._read_main()
        paths = {path for pattern in _FILES for path in self._folder.glob(pattern)}
        self._tails = {path: tail for path, tail in self._tails.items() if path in paths}
        for path in paths:
            with own_errors_suppressed(LoaderVizError):  # it is being made
                self.read(path)
        rows = rows_of(
            self._taken("_loop", _LOOP, until_ns),
            self._taken("_reading", _READING, until_ns),
            self._taken("_starts", _LOOP, until_ns),
            self._whose,
            (self._from_ns - self._started_ns) / 1e9,
            self._window_ns / 1e9,
        )
        self._from_ns, self._n_windows = until_ns, self._n_windows + n_over
        if self._n_windows >= MOST_WINDOWS:
            self._window_ns, self._n_windows = 2 * self._window_ns, 0
        if rows:
            data = np.array([tuple(row[name] for name in COLUMNS) for row in rows], FILE_ROW)
            with (self._folder / WINDOWS_NAME).open("ab") as file:
                file.write(data.tobytes())
        return rows

    def _read_main(self) -> None:
        words, records = self._main.read()
        for tag, at in records:
            if tag == Tag.ITERATOR:
                iterator, self._loaders[iterator], begun_ns, is_adopted = words[
                    at + 2 : at + 6
                ].tolist()
                if not is_adopted:
                    self._begun[iterator] = begun_ns
            elif tag == Tag.EPOCH:
                iterator, round_, epoch, at_ns = words[at + 2 : at + 6].tolist()
                self._epochs[iterator, round_] = epoch
                begun_ns = self._begun.pop(iterator, at_ns)
                start = [iterator, round_, at_ns, at_ns - begun_ns, 0]
                self._starts = np.concatenate([self._starts, [start]])

    def _taken(self, name: str, columns: tuple[str, ...], until_ns: int) -> Table:
        """What was done before that; it is kept no longer."""
        values: Words = getattr(self, name)
        is_over = values[:, columns.index("at")] < until_ns
        setattr(self, name, values[~is_over])
        table: Table = dict(zip(columns, values[is_over].T, strict=True))
        keys = [*zip(table.pop("iterator").tolist(), table.pop("round").tolist(), strict=True)]
        table["loader"] = np.array([self._loaders.get(it, 0) for it, _ in keys], np.int64)
        table["epoch"] = np.array([self._epochs.get(key, 0) for key in keys], np.int64)
        table["at_s"] = (table.pop("at") - self._started_ns) / 1e9
        for part in ("took", "other"):
            table[f"{part}_s"] = table.pop(part) / 1e9
        return table


class _Reader:
    """Reads on in the file of one process that makes batches."""

    def __init__(self, path: Path) -> None:
        self._tail = SpoolTail(path)
        self._worker = int(self._tail.head.meta.get("worker", MAIN_PROCESS))
        self._open: list[tuple[int, int]] = []  # batches: where they are, and when dispatched

    def read(self) -> tuple[Words, Words]:
        """What the loop is done with since the last time, and what was read: columns as above."""
        before = self._open
        for _ in range(MOST_TRIES):
            loop, reading = self._read()
            if not self._tail.was_overtaken():
                return loop, reading
            self._open = before
        return loop[:0], reading[:0]  # the next time

    def _read(self) -> tuple[Words, Words]:
        words, records = self._tail.read(copied=True)
        new = [(at, int(words[at + Batch.DISPATCHED])) for tag, at in records if tag == Tag.BATCH]
        loop, self._open = _loop_values(self._tail.live, [*self._open, *new])
        starts = np.array([at for tag, at in records if tag == Tag.TASK], np.int64)
        is_last = bool(records) and records[-1][0] == Tag.TASK
        return loop, self._reading(words, starts, is_last=is_last)

    def _reading(self, words: Words, starts: Words, *, is_last: bool) -> Words:
        """What the fetches there took; ``is_last``: one of them is the last record of all."""
        # As much of a spool file as ``read_fetches`` asks for.
        file: Any = SimpleNamespace(words=words, format=self._tail.head.format)
        fetches = read_fetches(file, {Tag.TASK: starts})
        heads = fetches.heads
        if is_last and len(heads) and heads[-1, Task.STATE] == State.RUNNING:
            self._tail.read_last_again(int(heads[-1, 0]))
        ready, began = heads[:, Task.READY], heads[:, Task.STARTED]
        values: Words = np.column_stack([
            *(heads[:, Task.ITERATOR], heads[:, Task.ROUND], ready, ready - began),
            *(heads[:, Task.CPU], np.full(len(heads), self._worker), fetches.n_samples),
            *(np.maximum(heads[:, Task.DISK] - 1, 0), heads[:, Task.RSS]),
        ])  # fmt: skip
        is_done: Words = (heads[:, Task.STATE] == State.DONE) & (ready > 0) & (began > 0)
        made: Words = values[is_done]
        return made


def _loop_values(
    words: Words, places: list[tuple[int, int]]
) -> tuple[Words, list[tuple[int, int]]]:
    """The batches there that the loop is done with, and the places of the others."""
    if not places:
        return np.zeros((0, len(_LOOP)), np.int64), []
    at, dispatched = np.array(places, np.int64).T
    heads = words[at[:, None] + np.arange(Batch.N_WORDS)]
    is_same = (heads[:, 1] == Tag.BATCH) & (heads[:, Batch.DISPATCHED] == dispatched)
    done = is_same & (heads[:, Batch.RELEASED] > 0)
    got = heads[done & (heads[:, Batch.DELIVERED] > 0)]
    delivered = got[:, Batch.DELIVERED]
    values: Words = np.column_stack([
        *(got[:, Batch.ITERATOR], got[:, Batch.ROUND], got[:, Batch.RELEASED]),
        *(np.maximum(delivered - got[:, Batch.REQUESTED], 0), got[:, Batch.RELEASED] - delivered),
    ])  # fmt: skip
    is_open = is_same & ~done
    return values, [place for place, still in zip(places, is_open.tolist(), strict=True) if still]
