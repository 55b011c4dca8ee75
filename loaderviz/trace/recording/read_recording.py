"""Reads a trace from the spool files of a recording: at any moment, also after a crash."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from loaderviz import spool_archive
from loaderviz.errors import LoaderVizError
from loaderviz.own_errors import own_errors
from loaderviz.record_layout import Batch, Span, State, Tag, Task, unpack_text
from loaderviz.regular_file import read_text
from loaderviz.spool import SpoolFile, Words
from loaderviz.text import worker_name
from loaderviz.trace.check_trace import (
    MOST_CHARACTERS,
    MOST_COUNT,
    InvalidTraceError,
    check_meta,
)
from loaderviz.trace.read_ahead import ASKED_BY, HANDED_OVER_BY, HANDS_OVER
from loaderviz.trace.recording.fetch_columns import Fetches, ragged_range, read_fetches
from loaderviz.trace.recording.match_fetches import AllFetches, batch_states, match_tasks
from loaderviz.trace.recording.worker_endings import worker_ending
from loaderviz.trace.trace import Trace

META_NAME = "meta.json"
MORE_LOADERS_NAME = "loaders.jsonl"  # a line for each that was met when it was first iterated
ENDED_WORKERS_NAME = "ended-workers.spool"  # see spool_archive.py

# What the file of a worker says of its start, where it is known.
START_PARTS = ("pickle_ns", "pickle_bytes", "boot_ns", "unpickle_ns", "init_ns")
_STREAM = [Batch.ITERATOR, Batch.ROUND, Batch.WORKER]

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
    reader.read_main(SpoolFile(folder / "main.spool"))
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
        return reader.trace(meta)
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


@dataclass
class _Worker:
    iterator: int
    worker: int
    pid: int
    exit_code: int | None = None
    file: SpoolFile | None = None
    started_ns: int = 0
    parts: dict[str, int] = field(default_factory=dict)  # of its start
    first_task_ns: int = 0
    reading: Any = None  # the key that it was reading when it stopped
    cpus_allowed: str | None = None
    threads: float = math.nan


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
        self._workers: dict[tuple[int, int], _Worker] = {}
        self._begun: dict[int, int] = {}  # when iter() began to make each iterator
        self._workers_gone: dict[int, tuple[int, int]] = {}  # of iterators: see Tag.WORKERS_GONE
        self._read_ahead: dict[int, int] = {}  # of iterators: see Tag.READ_AHEAD
        self._batches = np.zeros((0, Batch.N_WORDS), np.int64)
        self._fetches: list[tuple[int, Fetches]] = []  # of each process, with its worker's number
        self._spans: list[tuple[int, ...]] = []
        self._span_names: list[str] = []
        self._left_out = self._left_out_batches = 0
        self._ended_ns = 0
        self._seen: set[tuple[Any, ...]] = set()  # workers whose files were read

    def read_main(self, file: SpoolFile) -> None:
        """What the main process wrote about its loaders, workers, batches and spans.

        Most batches that it makes itself are in the file of its fetches.
        """
        words, records = file.words, file.records()
        finished = Tag.FINISH in records
        if file.problem:
            self.problems.append(file.problem)
        elif not finished:
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
            self._workers[iterator, worker] = _Worker(iterator, worker, pid)
        elif tag == Tag.EPOCH:
            iterator, round_, self._epochs[iterator, round_], _begun = fields
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
        fetches = read_fetches(file, records)
        if fetches.damaged:
            self.problems.append(f"{name}: what it wrote is damaged")
        self._fetches.append((number, fetches))
        if worker is None:
            return
        worker.file = file
        worker.started_ns = int(np.int64(file.meta["started_ns"]))
        worker.parts = {
            part: int(np.int64(file.meta[part]))
            for part in START_PARTS
            if file.meta.get(part) is not None
        }
        if len(fetches):
            worker.first_task_ns = int(fetches.heads[0, Task.STARTED])
            if fetches.n_rows[0] and fetches.end[0]:
                worker.parts["first_read_ns"] = int(fetches.end[0] - fetches.start[0])
            worker.reading = fetches.reading
        for start in records.get(Tag.CPUS, ())[-1:]:
            fields = file.words[start + 2 : start + file.words[start]]
            worker.threads = min(max(int(fields[0]), 0), MOST_COUNT)
            worker.cpus_allowed = unpack_text(fields[1:])[:MOST_CHARACTERS] or None

    def trace(self, meta: dict[str, Any]) -> Trace:
        """The trace of all that was read; ``meta`` is that of the recording."""
        batches, samples = self._batches_and_samples()
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
                "problems": [*(meta.get("problems") or ()), *self.problems],
                "left_out": self._left_out,
                "left_out_batches": self._left_out_batches,
                "ended_s": (self._ended_ns - self._start_ns) / 1e9 if self._ended_ns else None,
            },
        )

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

    def _batches_and_samples(self) -> tuple[dict[str, Any], dict[str, Any]]:
        made = AllFetches.from_processes(self._fetches)
        # Those of one iterator may be in two files; it sends its tasks in their order.
        sent = self._batches[np.argsort(self._batches[:, Batch.TASK], kind="stable")]
        fetch = match_tasks(sent[:, _STREAM], made.streams)
        # A stream that has ended is sent tasks in vain until the main process hears of it.
        exhausted = made.heads[:, Task.STATE] == State.EXHAUSTED
        ended = set(map(tuple, made.streams[exhausted].tolist()))
        of_ended = np.array([tuple(key) in ended for key in sent[:, _STREAM].tolist()], dtype=bool)
        empty = (fetch < 0) | (exhausted & (made.n_samples == 0))[fetch]
        in_vain = of_ended & empty & (sent[:, Batch.DELIVERED] == 0)
        sent, fetch = sent[~in_vain], fetch[~in_vain]
        unseen = (fetch < 0) & (sent[:, Batch.DELIVERED] != 0)
        unseen &= ~self._is_adopted(sent)
        if unseen.any() and self._left_out_batches:  # there was no more room for their records
            self._left_out_batches += int(unseen.sum())
            sent, fetch = sent[~unseen], fetch[~unseen]
        elif unseen.any():
            self.problems.append(f"{int(unseen.sum())} batches were not seen where they were made")
        rounds = sent[:, [Batch.ITERATOR, Batch.ROUND]].tolist()
        loaders = np.array([self._loaders.get(iterator, 0) for iterator, _ in rounds], np.int64)
        epochs = np.array([self._epochs.get(tuple(key), 0) for key in rounds], np.int64)
        order = np.lexsort([sent[:, Batch.TASK], epochs, loaders])
        sent, fetch, loaders, epochs = sent[order], fetch[order], loaders[order], epochs[order]
        left_out = made.left_out[fetch] & ~self._is_adopted(sent)  # which have no samples to show
        self._left_out += int(made.n_samples[fetch][left_out].sum())
        heads = made.heads[fetch]
        ready = np.where(heads[:, Task.STATE] == State.DONE, heads[:, Task.READY], 0)
        cpu_s = np.where(heads[:, Task.READY] != 0, heads[:, Task.CPU] / 1e9, np.nan)
        # The main process draws keys as soon as it is asked for a batch (torch/utils/data/
        # dataloader.py, _SingleProcessDataLoaderIter._next_data).
        in_main = sent[:, Batch.WORKER] < 0
        drawing = np.where(in_main, sent[:, Batch.REQUESTED], sent[:, Batch.DRAWING])
        shared = {
            "rank": self._rank,
            "loader": loaders,
            "epoch": epochs,
            "batch": sent[:, Batch.TASK],
            "worker": sent[:, Batch.WORKER],
        }
        batches = {
            **shared,
            "n_samples": made.n_samples[fetch],
            "drawing_s": self._seconds(drawing),
            "dispatched_s": self._seconds(sent[:, Batch.DISPATCHED]),
            "started_s": self._seconds(heads[:, Task.STARTED]),
            "collate_s": self._seconds(heads[:, Task.COLLATE]),
            "ready_s": self._seconds(ready),
            "pinned_s": self._seconds(sent[:, Batch.PINNED]),
            "requested_s": self._seconds(sent[:, Batch.REQUESTED]),
            "delivered_s": self._seconds(sent[:, Batch.DELIVERED]),
            "released_s": self._seconds(
                np.where(sent[:, Batch.DELIVERED] != 0, sent[:, Batch.RELEASED], 0)
            ),
            "cpu_s": cpu_s,
            "process_cpu_s": _counted(heads[:, Task.PROCESS_CPU]) / 1e9,
            "children_cpu_s": _counted(heads[:, Task.CHILDREN_CPU]) / 1e9,
            "queued_s": _counted(heads[:, Task.QUEUED]) / 1e9,
            "throttled_s": _counted(heads[:, Task.THROTTLED]) / 1e9,
            "read_bytes": _counted(heads[:, Task.READ]),
            "disk_bytes": _counted(heads[:, Task.DISK]),
            "rss_bytes": heads[:, Task.RSS],
            "n_bytes": np.where(ready != 0, _counted(heads[:, Task.BYTES]), np.nan),
            "shapes": made.shapes[fetch],
            "device_start_s": self._seconds(sent[:, Batch.DEVICE_START]),
            "device_end_s": self._seconds(sent[:, Batch.DEVICE_END]),
            "state": batch_states(sent, fetch, heads, ready),
        }
        n_rows = made.n_rows[fetch]
        rows: Any = np.repeat(made.first_row[fetch], n_rows) + ragged_range(n_rows)
        if len(rows) == len(made.start) and (np.diff(rows, prepend=-1) == 1).all():
            rows = slice(None)  # in their order already: nothing to copy
        samples = {
            "rank": self._rank,
            **{
                name: np.repeat(values, n_rows) for name, values in shared.items() if name != "rank"
            },
            "position": made.position[rows],
            "key": made.key[rows],
            "start_s": self._seconds(made.start[rows]),
            "end_s": self._seconds(made.end[rows]),
        }
        return batches, samples

    def _is_adopted(self, sent: Words) -> Any:
        """Of which batches, given by their records, the workers are not seen."""
        return np.isin(sent[:, Batch.ITERATOR], list(self._adopted))

    def _span_rows(self) -> dict[str, Any]:
        names = self._span_names
        order = sorted(range(len(names)), key=lambda i: (self._spans[i], names[i]))
        spans = np.array([self._spans[i] for i in order], np.int64).reshape(-1, 4)
        start, end, device_start, device_end = spans.T
        has_device = (device_start != 0) & (device_end != 0)
        return {
            "rank": self._rank,
            "name": [names[i] for i in order],
            "start_s": self._seconds(start),
            "end_s": self._seconds(end),
            "device_s": np.where(has_device, (device_end - device_start) / 1e9, np.nan),
        }

    def _worker_rows(self) -> dict[str, Any]:
        workers = sorted(self._workers.values(), key=lambda row: (row.iterator, row.worker))
        loaders = [self._loaders.get(worker.iterator, 0) for worker in workers]
        start_methods = dict(enumerate(self._start_methods))
        files = [worker.file for worker in workers]
        exits = [
            worker_ending(
                worker.pid,
                self._since_1970_s(worker.started_ns),
                worker.exit_code,
                has_ended=worker.file is not None and bool(worker.file.ended_ns),
            )
            for worker in workers
        ]
        ends = [self._workers_gone.get(worker.iterator, (0, 0)) for worker in workers]
        return {
            "rank": self._rank,
            "loader": loaders,
            "worker": [worker.worker for worker in workers],
            "pid": [worker.pid for worker in workers],
            "start_method": [start_methods.get(loader) for loader in loaders],
            "asked_s": self._seconds([self._begun.get(worker.iterator, 0) for worker in workers]),
            "started_s": self._seconds([worker.started_ns for worker in workers]),
            **{
                name.replace("_ns", "_s"): np.array(
                    [worker.parts.get(name, np.nan) for worker in workers], np.float64
                )
                / (1e9 if name.endswith("_ns") else 1)
                for name in (*START_PARTS, "first_read_ns")
            },
            "first_task_s": self._seconds([worker.first_task_ns for worker in workers]),
            "ended_s": self._seconds([file.ended_ns if file else 0 for file in files]),
            "dismissed_s": self._seconds([since for since, _ in ends]),
            "gone_s": self._seconds([until for _, until in ends]),
            "exit": exits,
            "last_key": [
                worker.reading if exit_ in ("killed", "failed") else None
                for worker, exit_ in zip(workers, exits, strict=True)
            ],
            "rss_peak_bytes": [file.rss_peak_bytes if file else 0 for file in files],
            "cpus_allowed": [worker.cpus_allowed for worker in workers],
            "threads": np.array([worker.threads for worker in workers], np.float64),
        }

    def _since_1970_s(self, time_ns: int) -> float:
        is_known = time_ns and self._wall_ns
        return (self._wall_ns + time_ns - self._start_ns) / 1e9 if is_known else 0.0

    def _seconds(self, times_ns: Any) -> Any:
        """Seconds since the recording began; NaN for 0, which has not happened."""
        times = np.asarray(times_ns, dtype=np.int64)
        return np.where(times == 0, np.nan, (times - self._start_ns) / 1e9)


def _counted(words: Words) -> Any:
    """What was counted, of words that are one more; NaN for 0."""
    return np.where(words > 0, words - 1.0, np.nan)
