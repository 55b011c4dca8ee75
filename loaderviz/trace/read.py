"""From the spool files of a recording to its tables; at any moment, also after a crash."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from loaderviz.errors import LoaderVizError
from loaderviz.records import State, Tag, Task, unpack_text
from loaderviz.spool import SpoolFile
from loaderviz.trace.fetched import Fetched
from loaderviz.trace.trace import Trace

META_NAME = "meta.json"

# What reading damaged records can raise; see Fetched for what it checks before that.
_DAMAGE = (IndexError, KeyError, TypeError, ValueError, OverflowError)


def load(path: str | Path) -> Trace:
    """Open the folder of a recording that was made with ``record(..., path=folder)``.

    Works while the recording runs and after its process has crashed.

    Raises:
        LoaderVizError: where there is no such folder, or it holds no recording.
    """
    try:
        folder = Path(path)
    except TypeError as error:
        raise LoaderVizError(f"load() takes the path of a folder, not {path!r}") from error
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise LoaderVizError(
            f"{str(path)!r} {what}; load() opens the folder that record(path=...) wrote"
        )
    return read_folder(folder)


def read_folder(folder: Path) -> Trace:
    """The trace of the recording in ``folder``."""
    try:
        meta = json.loads((folder / META_NAME).read_text())
        origin = int(np.int64(meta["started"][0]))
        rank = int(np.int64(meta["rank"]))
        methods = [loader["start_method"] for loader in meta["loaders"]]
    except (OSError, RecursionError, *_DAMAGE) as error:
        raise LoaderVizError(
            f"{folder} holds no recording: its {META_NAME} cannot be read ({error})"
        ) from error
    reader = _Reader(methods)
    reader.read_main(SpoolFile(folder / "main.spool"))
    for path in sorted([*folder.glob("here-*.spool"), *folder.glob("worker-*.spool")]):
        try:
            reader.read_process(SpoolFile(path))
        except (LoaderVizError, *_DAMAGE):  # its process was killed while it made the file, say
            reader.failed = True
    return Trace.from_columns(
        batches=reader.batches(rank, origin),
        samples=reader.samples(rank, origin),
        workers=reader.workers(rank, origin),
        spans=reader.spans(rank, origin),
        meta={**meta, "complete": reader.finished and not reader.failed},
    )


@dataclass
class _Batch:
    """One task as the main process knows it; ``fetched`` is what its worker wrote about it."""

    iterator: int
    round: int
    task: int
    worker: int
    dispatched: int
    requested: int
    delivered: int
    released: int
    fetched: Fetched | None = None


@dataclass
class _Worker:
    iterator: int
    worker: int
    pid: int
    exit_code: int | None = None
    file: SpoolFile | None = None
    last: Fetched | None = None
    begun: int = 0
    first_task: int = 0

    def exit(self) -> str:
        if self.exit_code is not None:
            return "done" if self.exit_code == 0 else "killed" if self.exit_code < 0 else "failed"
        if self.file is not None and self.file.ended_ns:
            return "done"
        return "running" if 0 < self.pid < 2**31 and psutil.pid_exists(self.pid) else "killed"


@dataclass
class _Reader:
    start_methods: list[str | None]  # of each loader
    finished: bool = False
    failed: bool = False
    _loaders: dict[int, int] = field(default_factory=dict)  # of each iterator
    _epochs: dict[tuple[int, int], int] = field(default_factory=dict)
    _batches: dict[tuple[int, int, int], _Batch] = field(default_factory=dict)
    _queues: defaultdict[tuple[int, int, int], list[_Batch]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _workers: dict[tuple[int, int], _Worker] = field(default_factory=dict)
    _spans: list[tuple[int, int, str]] = field(default_factory=list)
    _ended: set[tuple[int, int, int]] = field(default_factory=set)

    def read_main(self, file: SpoolFile) -> None:
        self.failed |= file.failed
        for tag, words in file.records():
            try:
                self._read_event(tag, [int(word) for word in words[2:]])
            except _DAMAGE:
                self.failed = True

    def _read_event(self, tag: int, fields: list[int]) -> None:
        if tag == Tag.ITERATOR:
            iterator, self._loaders[iterator], _begun, _n_workers = fields
        elif tag == Tag.WORKER:
            iterator, worker, pid = fields
            self._workers[iterator, worker] = _Worker(iterator, worker, pid)
        elif tag == Tag.EPOCH:
            iterator, round_, self._epochs[iterator, round_], _begun = fields
        elif tag == Tag.BATCH:
            iterator, round_, task, worker, *times = fields
            dispatched, requested, delivered, released = times
            batch = _Batch(
                iterator, round_, task, worker, dispatched, requested, delivered, released
            )
            self._batches[iterator, round_, task] = batch
            self._queues[iterator, round_, worker].append(batch)
        elif tag == Tag.EXIT:
            iterator, worker, code = fields
            self._workers[iterator, worker].exit_code = code
        elif tag == Tag.FINISH:
            self.finished = True
        elif tag == Tag.SPAN:
            start, end, *name = fields
            self._spans.append((start, end, unpack_text(np.array(name, np.int64))))

    def _read_tasks(self, file: SpoolFile) -> list[Fetched]:
        """The fetches of one process: the k-th of an epoch is the k-th task it was sent."""
        worker = int(file.meta["worker"])
        sent: defaultdict[tuple[int, int], int] = defaultdict(int)
        counts: defaultdict[tuple[int, int], int] = defaultdict(int)
        fetches = []
        for tag, words in file.records():
            if tag != Tag.TASK or len(words) <= Task.STAMPS:
                continue
            epoch = int(words[Task.ITERATOR]), int(words[Task.ROUND])
            fetched = Fetched(words, counts[epoch])
            counts[epoch] += fetched.n_samples
            fetches.append(fetched)
            if fetched.state == State.EXHAUSTED:
                self._ended.add((*epoch, worker))
            queue = self._queues[(*epoch, worker)]
            if sent[epoch] < len(queue):
                queue[sent[epoch]].fetched = fetched
            sent[epoch] += 1
        return fetches

    def read_process(self, file: SpoolFile) -> None:
        """What a worker wrote, or this process about its own fetches."""
        self.failed |= file.failed
        worker = self._workers.get((int(file.meta.get("iterator", -1)), int(file.meta["worker"])))
        fetches = self._read_tasks(file)
        if worker is None:
            return
        worker.file = file
        worker.begun = int(np.int64(file.meta["started_ns"]))
        if fetches:
            worker.first_task, worker.last = fetches[0].started, fetches[-1]

    def _real(self) -> list[tuple[_Batch, int, int]]:
        """Batches with their loader and epoch, without the tasks sent to ended streams in vain."""
        rows = []
        for batch in self._batches.values():
            key = batch.iterator, batch.round, batch.worker
            fetched = batch.fetched
            empty = fetched.state == State.EXHAUSTED and not fetched.n_samples if fetched else True
            if not (empty and key in self._ended and not batch.delivered):
                epoch = self._epochs.get((batch.iterator, batch.round), 0)
                rows.append((batch, self._loaders.get(batch.iterator, 0), epoch))
        return sorted(rows, key=lambda row: (row[1], row[2], row[0].task))

    def batches(self, rank: int, origin: int) -> dict[str, Any]:
        rows = self._real()
        batches = [batch for batch, _, _ in rows]
        fetched = [batch.fetched for batch in batches]

        def seconds(values: list[int]) -> Any:
            return _seconds(values, origin)

        return {
            "rank": np.full(len(rows), rank),
            "loader": [loader for _, loader, _ in rows],
            "epoch": [epoch for _, _, epoch in rows],
            "batch": [batch.task for batch in batches],
            "worker": [batch.worker for batch in batches],
            "n_samples": [each.n_samples if each else 0 for each in fetched],
            "dispatched_s": seconds([batch.dispatched for batch in batches]),
            "started_s": seconds([each.started if each else 0 for each in fetched]),
            "collate_s": seconds([each.collate if each else 0 for each in fetched]),
            "ready_s": seconds([each.ready if each else 0 for each in fetched]),
            "requested_s": seconds([batch.requested for batch in batches]),
            "delivered_s": seconds([batch.delivered for batch in batches]),
            "released_s": seconds([batch.released for batch in batches]),
            "state": [_state(batch) for batch in batches],
            "cpu_s": [each.cpu / 1e9 if each and each.finished else np.nan for each in fetched],
        }

    def samples(self, rank: int, origin: int) -> dict[str, Any]:
        rows = [(row, row[0].fetched) for row in self._real() if row[0].fetched is not None]
        sizes = [len(fetched.starts) for _, fetched in rows if fetched]
        keys = [key for _, fetched in rows if fetched for key in fetched.keys]
        empty = [np.zeros(0, np.int64)]
        return {
            "rank": np.full(len(keys), rank),
            "loader": np.repeat([loader for (_, loader, _), _ in rows], sizes),
            "epoch": np.repeat([epoch for (_, _, epoch), _ in rows], sizes),
            "batch": np.repeat([batch.task for (batch, _, _), _ in rows], sizes),
            "worker": np.repeat([batch.worker for (batch, _, _), _ in rows], sizes),
            "position": np.concatenate([np.arange(size) for size in sizes] or empty),
            "key": keys,
            "start_s": _seconds(np.concatenate([f.starts for _, f in rows if f] or empty), origin),
            "end_s": _seconds(np.concatenate([f.ends for _, f in rows if f] or empty), origin),
        }

    def spans(self, rank: int, origin: int) -> dict[str, Any]:
        spans = sorted(self._spans)
        return {
            "rank": np.full(len(spans), rank),
            "name": [name for _, _, name in spans],
            "start_s": _seconds([start for start, _, _ in spans], origin),
            "end_s": _seconds([end for _, end, _ in spans], origin),
        }

    def workers(self, rank: int, origin: int) -> dict[str, Any]:
        workers = sorted(self._workers.values(), key=lambda each: (each.iterator, each.worker))
        loaders = [self._loaders.get(each.iterator, 0) for each in workers]
        methods = dict(enumerate(self.start_methods))
        files = [each.file for each in workers]
        return {
            "rank": np.full(len(workers), rank),
            "loader": loaders,
            "worker": [each.worker for each in workers],
            "pid": [each.pid for each in workers],
            "start_method": [methods.get(loader) for loader in loaders],
            "started_s": _seconds([each.begun for each in workers], origin),
            "first_task_s": _seconds([each.first_task for each in workers], origin),
            "ended_s": _seconds([file.ended_ns if file else 0 for file in files], origin),
            "exit": [each.exit() for each in workers],
            "last_key": [_last_key(each) for each in workers],
            "rss_peak_bytes": [file.rss_peak_bytes if file else 0 for file in files],
        }


def _state(batch: _Batch) -> str:
    fetched = batch.fetched
    if batch.delivered:
        return "delivered"
    if fetched is None:
        return "dispatched"
    if fetched.state == State.RAISED:
        return "failed"
    return "ready" if fetched.ready else "started"


def _last_key(worker: _Worker) -> Any:
    last = worker.last
    if last is None or last.reading is None or last.state != State.RUNNING:
        return None
    return last.keys[last.reading] if worker.exit() in ("killed", "failed") else None


def _seconds(times_ns: Any, origin: int) -> Any:
    times = np.asarray(times_ns, dtype=np.int64)
    return np.where(times == 0, np.nan, (times - origin) / 1e9)
