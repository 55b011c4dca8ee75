"""From the spool files of a recording to its tables; at any moment, also after a crash."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.record_layout import Batch, Span, State, Tag, Task, unpack_text
from loaderviz.spool import SpoolFile, Words
from loaderviz.text import worker_name
from loaderviz.trace.recording.fetch_columns import Tasks, ragged, read_tasks
from loaderviz.trace.recording.match_fetches import Made, match, states
from loaderviz.trace.recording.worker_endings import worker_ending
from loaderviz.trace.trace import Trace

META_NAME = "meta.json"

_STREAM = [Batch.ITERATOR, Batch.ROUND, Batch.WORKER]

# What reading damaged records can raise; see fetch_columns.py for what it checks before that.
_DAMAGE = (IndexError, KeyError, TypeError, ValueError, OverflowError)


def read_folder(folder: Path) -> Trace:
    """The trace of the recording in ``folder``."""
    if not (folder / META_NAME).exists():
        raise LoaderVizError(
            f"{str(folder)!r} holds no recording: nothing was recorded into it, or it is not the "
            "folder that record(..., path=folder) or loaderviz run wrote"
        )
    try:
        meta = json.loads((folder / META_NAME).read_text())
        origin, wall_ns = (int(np.int64(each)) for each in meta["started"])
        rank = int(np.int64(meta["rank"]))
        methods = [loader["start_method"] for loader in meta["loaders"]]
    except (OSError, RecursionError, *_DAMAGE) as error:
        raise LoaderVizError(
            f"{folder} holds no recording: its {META_NAME} cannot be read ({error})"
        ) from error
    reader = _Reader(rank, origin, wall_ns, methods)
    reader.read_main(SpoolFile(folder / "main.spool"))
    for path in sorted([*folder.glob("here-*.spool"), *folder.glob("worker-*.spool")]):
        try:
            reader.read_process(SpoolFile(path))
        except (LoaderVizError, *_DAMAGE) as error:  # its process was killed while it made the file
            reader.problems.append(f"{path.name}: {error}")
    return reader.trace(meta)


@dataclass
class _Worker:
    iterator: int
    worker: int
    pid: int
    exit_code: int | None = None
    file: SpoolFile | None = None
    begun: int = 0
    first_task: int = 0
    reading: Any = None


class _Reader:
    """Puts together what the processes of a recording wrote, each into its own file."""

    def __init__(
        self, rank: int, origin: int, wall_ns: int, start_methods: list[str | None]
    ) -> None:
        self.problems: list[str] = []
        self._rank, self._origin, self._wall_ns = rank, origin, wall_ns
        self._start_methods = start_methods
        self._loaders: dict[int, int] = {}  # of each iterator
        self._adopted: set[int] = set()  # iterators whose workers are not seen
        self._epochs: dict[tuple[int, int], int] = {}  # of each iterator's rounds
        self._workers: dict[tuple[int, int], _Worker] = {}
        self._batches = np.zeros((0, Batch.N_WORDS), np.int64)
        self._tasks: list[tuple[int, Tasks]] = []  # with the worker
        self._spans: list[tuple[int, ...]] = []
        self._names: list[str] = []
        self._left_out = self._left_out_batches = 0

    def read_main(self, file: SpoolFile) -> None:
        words, records = file.words, file.records()
        finished = Tag.FINISH in records
        if file.problem:
            self.problems.append(file.problem)
        elif not finished:
            self.problems.append("the recording has not ended: it runs still, or was killed")
        places = records.pop(Tag.BATCH, np.zeros(0, np.int64))
        places = places[words[places] >= Batch.N_WORDS]
        self._batches = words[places[:, None] + np.arange(Batch.N_WORDS)]
        # An interrupt in the middle of a delivery: the loop did not get it.
        lost = self._batches[:, Batch.DELIVERED] == 0
        self._batches[np.ix_(lost, [Batch.REQUESTED, Batch.RELEASED])] = 0
        for tag, places in records.items():
            for place in places.tolist():
                try:
                    self._read_event(tag, words[place + 2 : place + words[place]])
                except _DAMAGE as error:
                    self.problems.append(f"a record of the main process is damaged: {error}")

    def _read_event(self, tag: int, words: Words) -> None:
        fields = words.tolist()
        if tag == Tag.ITERATOR:
            iterator, self._loaders[iterator], _begun, adopted = fields
            if adopted:
                self._adopted.add(iterator)
        elif tag == Tag.WORKER:
            iterator, worker, pid = fields
            self._workers[iterator, worker] = _Worker(iterator, worker, pid)
        elif tag == Tag.EPOCH:
            iterator, round_, self._epochs[iterator, round_], _begun = fields
        elif tag == Tag.EXIT:
            iterator, worker, code = fields
            self._workers[iterator, worker].exit_code = code
        elif tag == Tag.SPAN:
            at = Span.NAME - 2
            start, end, device_start, device_end = fields[:at]
            self._spans.append((start, end, device_start, device_end))
            self._names.append(unpack_text(words[at:]))
        elif tag == Tag.LEFT_OUT:
            self._left_out += max(fields[0], 0)
            self._left_out_batches += max(sum(fields[1:]), 0)

    def read_process(self, file: SpoolFile) -> None:
        """What a worker wrote, or this process about its own fetches."""
        number = int(np.int64(file.meta["worker"]))
        worker = self._workers.get((int(file.meta.get("iterator", -1)), number))
        who = worker_name(number)
        if file.problem:
            self.problems.append(f"{who}: {file.problem}")
        tasks = read_tasks(file)
        if tasks.damaged:
            self.problems.append(f"{who}: what it wrote is damaged")
        self._tasks.append((number, tasks))
        if worker is None:
            return
        worker.file = file
        worker.begun = int(np.int64(file.meta["started_ns"]))
        if len(tasks):
            worker.first_task = int(tasks.heads[0, Task.STARTED])
            worker.reading = tasks.reading

    def trace(self, meta: dict[str, Any]) -> Trace:
        batches, samples = self._batches_and_samples()
        return Trace.from_columns(
            batches=batches,
            samples=samples,
            workers=self._worker_rows(),
            spans=self._span_rows(),
            meta={
                **meta,
                "complete": not self.problems,
                "problems": self.problems,
                "left_out": self._left_out,
                "left_out_batches": self._left_out_batches,
            },
        )

    def _batches_and_samples(self) -> tuple[dict[str, Any], dict[str, Any]]:
        made = Made.of(self._tasks)
        sent = self._batches
        task = match(sent[:, _STREAM], made.streams)
        # A stream that has ended is sent tasks in vain until the main process hears of it.
        exhausted = made.heads[:, Task.STATE] == State.EXHAUSTED
        ended = set(map(tuple, made.streams[exhausted].tolist()))
        of_ended = np.array([tuple(key) in ended for key in sent[:, _STREAM].tolist()], dtype=bool)
        empty = (task < 0) | (exhausted & (made.n_samples == 0))[task]
        real = ~(of_ended & empty & (sent[:, Batch.DELIVERED] == 0))
        sent, task = sent[real], task[real]
        unseen = (task < 0) & (sent[:, Batch.DELIVERED] != 0)
        unseen &= ~np.isin(sent[:, Batch.ITERATOR], list(self._adopted))
        if unseen.any() and self._left_out_batches:  # there was no more room for what they held
            self._left_out_batches += int(unseen.sum())
            sent, task = sent[~unseen], task[~unseen]
        elif unseen.any():
            self.problems.append(f"{int(unseen.sum())} batches were not seen where they were made")
        rounds = sent[:, [Batch.ITERATOR, Batch.ROUND]].tolist()
        loaders = np.array([self._loaders.get(each, 0) for each, _ in rounds], np.int64)
        epochs = np.array([self._epochs.get((each, n), 0) for each, n in rounds], np.int64)
        order = np.lexsort([sent[:, Batch.TASK], epochs, loaders])
        sent, task, loaders, epochs = sent[order], task[order], loaders[order], epochs[order]
        self._left_out += int(made.n_samples[task][made.left_out[task]].sum())
        fetched = made.heads[task]
        ready = np.where(fetched[:, Task.STATE] == State.DONE, fetched[:, Task.READY], 0)
        n_bytes = fetched[:, Task.BYTES]
        cpu_s = np.where(fetched[:, Task.READY] != 0, fetched[:, Task.CPU] / 1e9, np.nan)
        shared = {
            "rank": self._rank,
            "loader": loaders,
            "epoch": epochs,
            "batch": sent[:, Batch.TASK],
            "worker": sent[:, Batch.WORKER],
        }
        batches = {
            **shared,
            "n_samples": made.n_samples[task],
            "dispatched_s": self._seconds(sent[:, Batch.DISPATCHED]),
            "started_s": self._seconds(fetched[:, Task.STARTED]),
            "collate_s": self._seconds(fetched[:, Task.COLLATE]),
            "ready_s": self._seconds(ready),
            "pinned_s": self._seconds(sent[:, Batch.PINNED]),
            "requested_s": self._seconds(sent[:, Batch.REQUESTED]),
            "delivered_s": self._seconds(sent[:, Batch.DELIVERED]),
            "released_s": self._seconds(sent[:, Batch.RELEASED]),
            "cpu_s": cpu_s,
            "rss_bytes": fetched[:, Task.RSS],
            "n_bytes": np.where((ready != 0) & (n_bytes > 0), n_bytes - 1.0, np.nan),
            "device_start_s": self._seconds(sent[:, Batch.DEVICE_START]),
            "device_end_s": self._seconds(sent[:, Batch.DEVICE_END]),
            "state": states(sent, task, fetched, ready),
        }
        n_rows = made.n_rows[task]
        rows: Any = np.repeat(made.first_row[task], n_rows) + ragged(n_rows)
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

    def _span_rows(self) -> dict[str, Any]:
        order = sorted(range(len(self._spans)), key=lambda i: (self._spans[i], self._names[i]))
        spans = np.array([self._spans[i] for i in order], np.int64).reshape(-1, 4)
        start, end, device_start, device_end = spans.T
        known = (device_start != 0) & (device_end != 0)
        return {
            "rank": self._rank,
            "name": [self._names[i] for i in order],
            "start_s": self._seconds(start),
            "end_s": self._seconds(end),
            "device_s": np.where(known, (device_end - device_start) / 1e9, np.nan),
        }

    def _worker_rows(self) -> dict[str, Any]:
        workers = sorted(self._workers.values(), key=lambda each: (each.iterator, each.worker))
        loaders = [self._loaders.get(each.iterator, 0) for each in workers]
        methods = dict(enumerate(self._start_methods))
        files = [each.file for each in workers]
        exits = [
            worker_ending(
                each.pid,
                self._since_1970(each.begun),
                each.exit_code,
                has_ended=each.file is not None and bool(each.file.ended_ns),
            )
            for each in workers
        ]
        return {
            "rank": self._rank,
            "loader": loaders,
            "worker": [each.worker for each in workers],
            "pid": [each.pid for each in workers],
            "start_method": [methods.get(loader) for loader in loaders],
            "started_s": self._seconds([each.begun for each in workers]),
            "first_task_s": self._seconds([each.first_task for each in workers]),
            "ended_s": self._seconds([file.ended_ns if file else 0 for file in files]),
            "exit": exits,
            "last_key": [
                each.reading if exit_ in ("killed", "failed") else None
                for each, exit_ in zip(workers, exits, strict=True)
            ],
            "rss_peak_bytes": [file.rss_peak_bytes if file else 0 for file in files],
        }

    def _since_1970(self, time_ns: int) -> float:
        return (self._wall_ns + time_ns - self._origin) / 1e9 if time_ns and self._wall_ns else 0.0

    def _seconds(self, times_ns: Any) -> Any:
        times = np.asarray(times_ns, dtype=np.int64)
        return np.where(times == 0, np.nan, (times - self._origin) / 1e9)
