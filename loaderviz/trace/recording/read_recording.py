"""Reads a trace from the spool files of a recording: at any moment, also after a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from loaderviz import spool_archive
from loaderviz.errors import LoaderVizError
from loaderviz.own_errors import own_errors
from loaderviz.record_layout import Batch, Span, Tag, unpack_text
from loaderviz.regular_file import read_text
from loaderviz.spool import SpoolFile, Words
from loaderviz.text import worker_name
from loaderviz.trace.check_trace import LEFT_OUT, MOST_EPOCHS, InvalidTraceError, check_meta
from loaderviz.trace.columns_of_rows import Table, where
from loaderviz.trace.described_loaders import ASKED_BY, HANDED_OVER_BY, HANDS_OVER
from loaderviz.trace.lines_of_code import packed
from loaderviz.trace.recording.batches_table import SentBatches, seconds_since
from loaderviz.trace.recording.fetch_columns import Fetches, lost_of, read_fetches
from loaderviz.trace.recording.lines_table import LinesRead
from loaderviz.trace.recording.workers_table import START_COLUMNS, Worker, worker_columns
from loaderviz.trace.trace import Trace
from loaderviz.trace.windows import packed as packed_windows
from loaderviz.trace.windows import rows_of, values_of, window_s_of, written

META_NAME = "meta.json"
MAIN_NAME = "main.spool"
INCIDENTS_NAME = "incidents"  # a folder of recordings, and a file with a line for each
WINDOWS_NAME = "windows"  # rows of trace/windows.py, where the recording is a ring
MORE_LOADERS_NAME = "loaders.jsonl"  # a line for each that was met when it was first iterated
ENDED_WORKERS_NAME = "ended-workers.spool"  # see spool_archive.py

# What reading damaged records can raise; fetch_columns.py checks its own before it reads them.
_DAMAGE = (IndexError, KeyError, TypeError, ValueError, OverflowError)


def read_folder(folder: Path) -> Trace:
    """The trace of the recording in ``folder``.

    Files that cannot be read, or are damaged, are named in ``meta["problems"]``.

    Raises:
        LoaderVizError: where the folder holds no recording, or its main file cannot be read.
    """
    if not (folder / META_NAME).exists():
        raise LoaderVizError(
            f"{str(folder)!r} holds no recording: nothing was recorded into it, or it is not the "
            "folder that record(..., path=folder) or loaderviz run wrote"
        )
    try:
        meta = read_meta(folder)
        meta["loaders"] += more_loaders(folder)
        start_methods = [loader["start_method"] for loader in meta["loaders"]]
        start_ns, wall_ns = meta["started"]
        reader = _Reader(meta["rank"], start_ns, wall_ns, start_methods)
    except own_errors(OSError, RecursionError, *_DAMAGE) as error:
        raise LoaderVizError(
            f"{str(folder)!r} holds no recording: its {META_NAME} cannot be read ({error})"
        ) from error
    reader.read_main(SpoolFile(folder / MAIN_NAME), ends=meta.get("incident") is None)
    for path in sorted([*folder.glob("here-*.spool"), *folder.glob("worker-*.spool")]):
        with reader.noting_damage(path):
            reader.read_process(SpoolFile(path))
    # After the others: a file may be moved there while a running recording is read.
    path = folder / ENDED_WORKERS_NAME
    if path.exists():
        with reader.noting_damage(path):
            archive = SpoolFile(path)
            for record in spool_archive.records(archive):
                with reader.noting_damage(path):
                    reader.read_process(spool_archive.ArchivedSpool(archive.format, record))
    try:
        return reader.trace(meta, folder)
    except InvalidTraceError as error:
        raise LoaderVizError(
            f"the recording in {str(folder)!r} is damaged ({error}); copy it again, or record anew"
        ) from error


def read_meta(folder: Path) -> dict[str, Any]:
    """What the recording in ``folder`` says of itself.

    Raises ValueError, TypeError, RecursionError or OSError where it does not, LoaderVizError where
    its file is none to be read.
    """
    meta: dict[str, Any] = dict(json.loads(read_text(folder / META_NAME)))
    check_meta(meta)
    for name in ("rank", "started", "loaders"):
        if meta.get(name) is None:
            raise ValueError(f"it does not say {name!r}")
    return meta


def more_loaders(folder: Path) -> list[Any]:
    """Loaders that the recording met on its way; a line that is being written is left out."""
    try:
        lines = read_text(folder / MORE_LOADERS_NAME).split("\n")
    except own_errors(FileNotFoundError):
        return []
    return [json.loads(line) for line in lines[:-1]]


class _Reader:
    """Puts together what the processes of a recording wrote, each into its own file.

    ``start_ns`` and ``wall_ns`` are the process clock and the wall clock as the recording began.
    """

    def __init__(
        self, rank: int, start_ns: int, wall_ns: int, start_methods: list[str | None]
    ) -> None:
        self.problems: list[str] = []
        self._rank, self._start_ns, self._wall_ns = rank, start_ns, wall_ns
        self._start_methods = start_methods
        self._loaders: dict[int, int] = {}  # of each iterator
        self._adopted: set[int] = set()  # iterators whose work is not seen: see Tag.ITERATOR
        self._cycled: set[int] = set()  # iterators that itertools.cycle holds
        self._epochs: dict[tuple[int, int], int] = {}  # of each iterator's rounds
        self._workers: dict[tuple[int, int], Worker] = {}
        self._begun: dict[int, int] = {}  # when iter() began to make each iterator
        self._built: dict[int, int] = {}  # when it was done with that
        self._workers_gone: dict[int, tuple[int, int]] = {}  # of iterators: see Tag.WORKERS_GONE
        self._read_ahead: dict[int, int] = {}  # of iterators: see Tag.READ_AHEAD
        self._batches = np.zeros((0, Batch.N_WORDS), np.int64)
        self._fetches: list[tuple[int, Fetches]] = []  # of each process, with its worker's number
        self._lost: dict[tuple[int, ...], int] = {}  # batches of a stream: see Tag.LOST
        self._spans: list[tuple[int, ...]] = []
        self._span_names: list[str] = []
        self._spans_from_ns = 0
        self._lines = LinesRead()
        self._left_out = self._left_out_batches = 0
        self._ended_ns = 0
        self._seen: set[tuple[Any, ...]] = set()  # workers whose files were read

    def read_main(self, file: SpoolFile, *, ends: bool = True) -> None:
        """What the main process wrote about its loaders, workers, batches and spans.

        Most batches that it makes itself are in the file of its fetches. ``ends``: whether it
        should say that it has ended, and is no copy of one that goes on.
        """
        words, records = file.words, file.records()
        finished = Tag.FINISH in records
        if file.problem:
            self.problems.append(file.problem)
        elif ends and not finished:
            self.problems.append("the recording has not ended: it is running, or was killed")
        self._add_batches(file, records.pop(Tag.BATCH, np.zeros(0, np.int64)))
        for tag, starts in records.items():
            for start in starts.tolist():
                try:
                    self._read_event(tag, words[start + 2 : start + words[start]])
                except own_errors(*_DAMAGE) as error:
                    self.problems.append(f"a record of the main process is damaged: {error}")

    def _add_batches(self, file: SpoolFile, starts: Words) -> None:
        """The batches whose records begin there in ``file``."""
        words = file.words
        n_words = Batch.N_WORDS_OF_FORMAT_1 if file.format == 1 else Batch.N_WORDS
        starts = starts[words[starts] >= n_words]
        batches = np.zeros((len(starts), Batch.N_WORDS), np.int64)
        batches[:, :n_words] = words[starts[:, None] + np.arange(n_words)]
        # After an interrupt in the middle of a delivery, the loop did not get the batch.
        batches[batches[:, Batch.DELIVERED] == 0, Batch.REQUESTED] = 0
        self._batches = np.concatenate([self._batches, batches])

    def _read_event(self, tag: int, words: Words) -> None:
        fields = words.tolist()
        if tag == Tag.ITERATOR:
            iterator, self._loaders[iterator], begun, adopted = fields
            if adopted:
                self._adopted.add(iterator)
            else:
                self._begun[iterator] = begun
        elif tag == Tag.WORKER:
            iterator, worker, pid = fields
            self._workers[iterator, worker] = Worker(iterator, worker, pid)
        elif tag == Tag.EPOCH:
            iterator, round_, self._epochs[iterator, round_], begun = fields
            if round_ == 0:
                self._built[iterator] = begun
        elif tag == Tag.EXIT:
            iterator, worker, code = fields
            self._workers[iterator, worker].exit_code = code
        elif tag == Tag.WORKERS_GONE:
            iterator, since, until = fields
            self._workers_gone[iterator] = since, max(since, until)
        elif tag == Tag.READ_AHEAD:
            iterator, self._read_ahead[iterator] = fields
        elif tag == Tag.CYCLED:
            self._cycled.add(fields[0])
        elif tag == Tag.SPAN:
            name_at = Span.NAME - 2
            start, end, device_start, device_end = fields[:name_at]
            self._spans.append((start, end, device_start, device_end))
            self._span_names.append(unpack_text(words[name_at:]))
        elif tag == Tag.FINISH:
            (self._ended_ns,) = fields
        elif tag == Tag.NO_LOOKS:
            self._lines.not_seen.append(f"main process: {unpack_text(words)}")
        elif tag == Tag.LEFT_OUT:
            self._left_out += max(fields[0], 0)
            self._left_out_batches += max(sum(fields[1:]), 0)

    @contextmanager
    def noting_damage(self, path: Path) -> Iterator[None]:
        """Note a file that cannot be read among the problems, and go on."""
        try:
            yield
        except own_errors(LoaderVizError, RecursionError, *_DAMAGE) as error:
            # Its process was killed, say, while it made the file.
            if path.exists():  # else it was moved to the archive meanwhile
                self.problems.append(f"{path.name}: {error}")

    def read_process(self, file: SpoolFile) -> None:
        """What a worker wrote, or the main process about its own fetches."""
        number = int(np.int64(file.meta["worker"]))
        if number >= 0:
            process = file.meta.get("iterator"), number, file.meta.get("pid")
            if process in self._seen:  # in the archive too: killed while the file was moved
                return
            self._seen.add(process)
        worker = self._workers.get((int(file.meta.get("iterator", -1)), number))
        name = worker_name(number)
        if file.problem:
            self.problems.append(f"{name}: {file.problem}")
        records = file.records()
        if number < 0:
            self._add_batches(file, records.get(Tag.BATCH, np.zeros(0, np.int64)))
            for start in records.get(Tag.SPAN, ()):
                self._read_event(Tag.SPAN, file.words[start + 2 : start + file.words[start]])
            lost = lost_of(file.words, records, Tag.BATCH)
            self._lost.update({stream: n for stream, (n, _) in lost.items()})
        self._lines.read(number, name, file, records)
        fetches = read_fetches(file, records)
        if fetches.damaged:
            self.problems.append(f"{name}: what it wrote is damaged")
        self._fetches.append((number, fetches))
        if worker is not None:
            worker.read(file, records, fetches)

    def trace(self, meta: dict[str, Any], folder: Path) -> Trace:
        """The trace of all that was read; ``meta`` is that of the recording in ``folder``."""
        is_ring = bool(meta.pop("keeps_latest", False))
        sent = self._sent(is_ring=is_ring)
        sent = self._latest(sent, meta["last_s"]) if meta.get("last_s") else sent
        if is_ring and self._left_out_batches:
            meta = self._begin_later(sent, meta)
        batches, samples = sent.tables(self._rank, self._start_ns)
        if is_ring:
            meta["windows"] = self._windows(batches, meta, folder / WINDOWS_NAME)
            meta["incidents"] = incidents_in(folder, self._rank)
        if meta.pop("lines_asked", False):
            meta["lines"] = packed([], self._lines.not_seen)
            try:
                seen = self._lines.seen(self._rank, self._start_ns, self._loaders, batches)
                meta["lines"] = packed(seen, self._lines.not_seen)
            except own_errors(*_DAMAGE) as error:
                self.problems.append(f"what was seen of lines of code is damaged: {error}")
        left_out = _leave_out_empty_epochs(batches, samples)
        cycled = {self._loaders.get(iterator) for iterator in self._cycled}
        loaders = [
            {**about, "cycled": True} if number in cycled else about
            for number, about in enumerate(meta["loaders"])
        ]
        return Trace.from_columns(
            batches=batches,
            samples=samples,
            workers=self._worker_rows(),
            spans=self._span_rows(),
            meta={
                **meta,
                "loaders": self._who_asks(loaders),
                "complete": not self.problems,
                "problems": [*(meta.get("problems") or ()), *self.problems, *left_out],
                "left_out": self._left_out,
                "left_out_batches": self._left_out_batches,
                "ended_s": (self._ended_ns - self._start_ns) / 1e9 if self._ended_ns else None,
            },
        )

    def _windows(self, batches: dict[str, Any], meta: dict[str, Any], path: Path) -> Any:
        """Those that were written, and those after them, from what the ring has kept."""
        rows = written(path)
        begins_s, window_s = meta.get("begins_s", 0.0), window_s_of(meta.get("last_s"))
        until_s = max((row["start_s"] + window_s for row in rows), default=0.0)
        parts = *values_of(batches, begins_s), self._starts(begins_s)
        later = [where(part, part["at_s"] >= until_s) for part in parts]
        loop, reading, starts = later
        rows += rows_of(loop, reading, starts, self._rank, until_s, window_s)
        return packed_windows(rows)

    def _starts(self, begins_s: float) -> Table:
        """When each iterator was made, and what that took."""
        made = [each for each in self._begun if each in self._built]
        at_ns, begun_ns = (
            np.array([moments[each] for each in made], np.int64)
            for moments in (self._built, self._begun)
        )
        return {
            "loader": np.array([self._loaders[each] for each in made], np.int64),
            "epoch": np.array([self._epochs[each, 0] for each in made], np.int64),
            "at_s": (at_ns - self._start_ns) / 1e9 + begins_s,
            "took_s": (at_ns - begun_ns) / 1e9,
        }

    def _begin_later(self, sent: SentBatches, meta: dict[str, Any]) -> dict[str, Any]:
        """Let the trace begin with what a ring has kept; returns the ``meta`` that says so."""
        moments = sent.records[:, Batch.DISPATCHED]
        known = moments[moments > 0]
        from_ns = int(known.min()) if len(known) else max(self._ended_ns, self._start_ns)
        later_ns = from_ns - self._start_ns
        self._start_ns, self._wall_ns = from_ns, self._wall_ns + later_ns
        iterators = {*sent.records[:, Batch.ITERATOR].tolist()}
        self._workers = {
            key: worker
            for key, worker in self._workers.items()
            if worker.iterator in iterators or worker.started_ns >= from_ns
        }
        started = [self._start_ns, self._wall_ns]
        return {**meta, "started": started, "begins_s": later_ns / 1e9}

    def _who_asks(self, loaders: list[Any]) -> list[Any]:
        """The descriptions of the loaders, with who asks those that the loop does not ask."""
        told = [dict(about) for about in loaders]
        about = dict(enumerate(told))
        for iterator, hands_over in self._read_ahead.items():
            read = about.get(self._loaders.get(iterator, -1), {})
            read[ASKED_BY] = "thread"
            if hands_over in self._loaders:
                asked = about.get(self._loaders[hands_over], {})
                asked[HANDS_OVER] = True
                read[HANDED_OVER_BY] = asked.get("class") or "another loader"
        return told

    def _sent(self, *, is_ring: bool) -> SentBatches:
        """The batches of the trace; what is not shown of them is counted, or a problem."""
        sent = SentBatches.of(
            self._batches,
            self._fetches,
            self._loaders,
            self._epochs,
            self._adopted,
            self._lost,
        )
        n_unseen = int(sent.unseen.sum())
        if n_unseen and (is_ring or self._left_out_batches):  # there is no room for their records
            self._left_out_batches += n_unseen
            sent = sent.only(~sent.unseen)
        elif n_unseen:
            self.problems.append(f"{n_unseen} batches were not seen where they were made")
        self._left_out += sent.n_samples_left_out
        return sent

    def _latest(self, sent: SentBatches, last_s: float) -> SentBatches:
        """Those of the last seconds: a ring holds more of what comes seldom."""
        done_ns = sent.records[:, Batch.DISPATCHED : Batch.RELEASED + 1].max(axis=1, initial=0)
        from_ns = max(self._ended_ns, int(done_ns.max(initial=0))) - round(last_s * 1e9)
        kept = done_ns >= from_ns
        self._left_out_batches += int((~kept).sum())
        self._spans_from_ns = from_ns
        return sent.only(kept)

    def _span_rows(self) -> dict[str, Any]:
        names = self._span_names
        kept = [i for i, span in enumerate(self._spans) if max(span[:2]) >= self._spans_from_ns]
        order = sorted(kept, key=lambda i: (self._spans[i], names[i]))
        spans = np.array([self._spans[i] for i in order], np.int64).reshape(-1, 4)
        start, end, device_start, device_end = spans.T
        has_device = (device_start != 0) & (device_end != 0)
        return {
            "rank": self._rank,
            "name": [names[i] for i in order],
            "start_s": seconds_since(self._start_ns, start),
            "end_s": seconds_since(self._start_ns, end),
            "device_s": np.where(has_device, (device_end - device_start) / 1e9, np.nan),
        }

    def _worker_rows(self) -> dict[str, Any]:
        workers = sorted(self._workers.values(), key=lambda row: (row.iterator, row.worker))
        columns = worker_columns(
            workers,
            loaders=[self._loaders.get(worker.iterator, 0) for worker in workers],
            start_methods=self._start_methods,
            begun=self._begun,
            gone=self._workers_gone,
            clocks=(self._start_ns, self._wall_ns),
        )
        before = columns["started_s"] < 0  # of what the ring has kept
        for name in ("asked_s", "started_s", "first_task_s", *START_COLUMNS):
            columns[name] = np.where(before, np.nan, columns[name])
        return {"rank": self._rank, **columns}


def incidents_in(folder: Path, rank: int) -> list[dict[str, Any]]:
    """The incidents of a recording, whose file has a line more where one has ended."""
    try:
        lines = read_text(folder / f"{INCIDENTS_NAME}.jsonl").split("\n")[:-1]
    except own_errors(FileNotFoundError):
        return []
    rows = {about["incident"]: {"rank": rank, **about} for about in map(json.loads, lines)}
    saved_in = folder / INCIDENTS_NAME, folder.parent / INCIDENTS_NAME / folder.name  # of a rank
    for number, about in rows.items():
        paths = [path / str(number) for path in saved_in if (path / str(number)).is_dir()]
        about["path"] = str(paths[0]) if paths else None
    return [rows[number] for number in sorted(rows)]


def _leave_out_empty_epochs(batches: dict[str, Any], samples: dict[str, Any]) -> list[str]:
    """Number the epochs anew where too many had no batch, and say so; else change nothing."""
    epoch = batches["epoch"]
    if not len(epoch) or epoch.max() <= len(epoch) + MOST_EPOCHS:
        return []
    kept = np.unique(epoch)
    for table in (batches, samples):
        table["epoch"] = np.searchsorted(kept, table["epoch"])
    n_empty = int(kept[-1]) + 1 - len(kept)
    return [f"{LEFT_OUT}{n_empty:,} epochs without a batch: the others are numbered without them"]
