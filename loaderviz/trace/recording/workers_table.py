"""The table of workers of a recording: their starts and ends, and how each ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil

from loaderviz.own_errors import own_errors
from loaderviz.record_layout import Tag, Task, unpack_text
from loaderviz.spool import SpoolFile, Words
from loaderviz.trace.check_trace import MOST_CHARACTERS, MOST_COUNT
from loaderviz.trace.columns_of_rows import Table
from loaderviz.trace.recording.batches_table import seconds_since
from loaderviz.trace.recording.fetch_columns import Fetches

# What the file of a worker says of its start, where it is known.
START_PARTS = ("pickle_ns", "pickle_bytes", "boot_ns", "unpickle_ns", "init_ns")
START_COLUMNS = [part.replace("_ns", "_s") for part in (*START_PARTS, "first_read_ns")]

SAME_PROCESS_S = 10.0  # the most that the recorded and the system's time of a start may differ


@dataclass
class Worker:
    """One worker process, as far as its recording tells; times are in ns, 0 where not known.

    Attributes:
        parts: of its start, by the name in its file.
        exit_code: as the main process saw it, negative for a signal; None where it saw none.
        reading: the key that it was reading when it stopped.
    """

    iterator: int
    worker: int
    pid: int
    exit_code: int | None = None
    started_ns: int = 0
    first_task_ns: int = 0
    ended_ns: int = 0
    rss_peak_bytes: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    reading: Any = None
    cpus_allowed: str | None = None
    threads: float = math.nan

    def read(self, file: SpoolFile, records: dict[int, Words], fetches: Fetches) -> None:
        """Take over what the worker's file says of it."""
        self.started_ns = int(np.int64(file.meta["started_ns"]))
        self.ended_ns, self.rss_peak_bytes = file.ended_ns, file.rss_peak_bytes
        self.parts = {
            part: int(np.int64(file.meta[part]))
            for part in START_PARTS
            if file.meta.get(part) is not None
        }
        if len(fetches):
            self.first_task_ns = int(fetches.heads[0, Task.STARTED])
            if fetches.n_rows[0] and fetches.end[0]:
                self.parts["first_read_ns"] = int(fetches.end[0] - fetches.start[0])
            self.reading = fetches.reading
        for start in records.get(Tag.CPUS, ())[-1:]:
            fields = file.words[start + 2 : start + file.words[start]]
            self.threads = min(max(int(fields[0]), 0), MOST_COUNT)
            self.cpus_allowed = unpack_text(fields[1:])[:MOST_CHARACTERS] or None

    def ending(self, start_ns: int, wall_ns: int) -> str:
        """What the column ``exit`` says: "done", "failed", "killed" or "running".

        ``start_ns`` and ``wall_ns``: the process clock and the wall clock as the recording began; 0
        where they are not known.
        """
        if self.exit_code is not None:
            code = self.exit_code
            return "done" if code == 0 else "killed" if code < 0 else "failed"
        if self.ended_ns:
            return "done"
        is_known = self.started_ns and wall_ns
        since_1970_s = (wall_ns + self.started_ns - start_ns) / 1e9 if is_known else 0.0
        return "running" if _is_running(self.pid, since_1970_s) else "killed"


def worker_columns(
    workers: Sequence[Worker],
    *,
    loaders: Sequence[int],
    start_methods: Sequence[str | None],
    begun: dict[int, int],
    gone: dict[int, tuple[int, int]],
    clocks: tuple[int, int],
) -> Table:
    """The columns of ``workers`` but ``rank``.

    Args:
        workers: in the order of their rows.
        loaders: the number of each one's loader.
        start_methods: of each loader.
        begun: by iterator, when ``iter()`` began to make it.
        gone: by iterator, from when to when the loop waited for its workers to end.
        clocks: the process clock and the wall clock as the recording began.
    """
    start_ns, _ = clocks
    exits = [worker.ending(*clocks) for worker in workers]
    ends = [gone.get(worker.iterator, (0, 0)) for worker in workers]
    methods = dict(enumerate(start_methods))

    def seconds(times_ns: list[int]) -> Any:
        return seconds_since(start_ns, times_ns)

    parts = {
        name: np.array([worker.parts.get(name, np.nan) for worker in workers], np.float64)
        for name in (*START_PARTS, "first_read_ns")
    }
    return {
        "loader": loaders,
        "worker": [worker.worker for worker in workers],
        "pid": [worker.pid for worker in workers],
        "start_method": [methods.get(loader) for loader in loaders],
        "asked_s": seconds([begun.get(worker.iterator, 0) for worker in workers]),
        "started_s": seconds([worker.started_ns for worker in workers]),
        **{
            name.replace("_ns", "_s"): values / (1e9 if name.endswith("_ns") else 1)
            for name, values in parts.items()
        },
        "first_task_s": seconds([worker.first_task_ns for worker in workers]),
        "ended_s": seconds([worker.ended_ns for worker in workers]),
        "dismissed_s": seconds([since for since, _ in ends]),
        "gone_s": seconds([until for _, until in ends]),
        "exit": exits,
        "last_key": [
            worker.reading if exit_ in ("killed", "failed") else None
            for worker, exit_ in zip(workers, exits, strict=True)
        ],
        "rss_peak_bytes": [worker.rss_peak_bytes for worker in workers],
        "cpus_allowed": [worker.cpus_allowed for worker in workers],
        "threads": np.array([worker.threads for worker in workers], np.float64),
    }


def _is_running(pid: int, started_at: float) -> bool:
    """Whether this process runs; a later one that has its number does not count."""
    try:
        process = psutil.Process(pid)
        is_same = not started_at or abs(process.create_time() - started_at) < SAME_PROCESS_S
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except own_errors(psutil.Error, ValueError, OverflowError):
        return False
