"""Hand-built traces, so that figures and summaries are tested without running a loader."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from loaderviz import Trace
from loaderviz.trace.lines_of_code import Frame, Looked, packed


def made(
    *, workers: int = 2, batches: int = 4, batch_size: int = 2, loader: int = 0, rank: int = 0
) -> Trace:
    """Batch k of worker k % workers takes 1 s to make, one after another, and 0.5 s to use."""
    rows: dict[str, list] = {name: [] for name in ("batch", "worker", "dispatched_s")}
    rows |= {name: [] for name in ("started_s", "collate_s", "ready_s", "requested_s")}
    rows |= {name: [] for name in ("delivered_s", "released_s")}
    samples: dict[str, list] = {
        name: [] for name in ("batch", "worker", "position", "key", "start_s", "end_s")
    }
    free = [0.25] * max(workers, 1)
    now = 0.2
    for batch in range(batches):
        worker = batch % workers if workers else -1
        started = free[worker] if workers else now
        ready = free[worker] = started + 1.0
        delivered = max(now, ready)
        read_s = 0.9 / batch_size
        for position in range(batch_size):
            at = started + position * read_s
            row = (batch, worker, position, batch * batch_size + position, at, at + read_s)
            for column, value in zip(samples, row, strict=True):
                samples[column].append(value)
        row = (batch, worker, 0.2, started, started + 0.9, ready, now, delivered, delivered + 0.5)
        for column, value in zip(rows, row, strict=True):
            rows[column].append(value)
        now = delivered + 0.5
    same = {"rank": rank, "loader": loader}
    processes = {
        "worker": list(range(workers)),
        "pid": [100 + worker for worker in range(workers)],
        "start_method": ["fork"] * workers,
        "started_s": [0.0] * workers,
        "first_task_s": [0.25] * workers,
        "exit": ["done"] * workers,
    }
    return Trace.from_columns(
        batches={**same, **rows, "n_samples": [batch_size] * batches},
        samples={**same, **samples},
        workers={**same, **processes} if workers else None,
    )


def together(*traces: Trace, **meta: Any) -> Trace:
    """One trace with the rows of all."""
    names = ("batches", "samples", "workers", "spans")
    parts = ([getattr(trace, name) for trace in traces] for name in names)
    return Trace(*(pd.concat(part, ignore_index=True) for part in parts), meta=meta)


def behind_a_lock(n: int = 120, *, workers: int = 4, hold_s: float = 0.01) -> Trace:
    """One worker reads at a time: each takes the lock twice, then lets the next one have it."""
    worker = np.arange(n) // 2 % workers
    end = np.arange(1, n + 1) * hold_s + 0.1
    start = np.full(n, 0.1)
    for number in range(workers):
        start[worker == number] = np.append(0.1, end[worker == number][:-1])
    rows = {"batch": np.arange(n), "worker": worker}
    asked = {"requested_s": end - hold_s, "delivered_s": end, "released_s": end}
    made = {"dispatched_s": 0.0, "started_s": start, "collate_s": end, "ready_s": end}
    return Trace.from_columns(
        batches={**rows, **asked, **made, "n_samples": 1},
        samples={**rows, "key": np.arange(n), "start_s": start, "end_s": end},
    )


def recorded(n: int, *, mean_ns: float = 1e6, spread: float = 0.1, workers: int = 4) -> Trace:
    """What a recording of ``n`` shuffled samples in batches of 64 holds, times in whole ns."""
    random = np.random.default_rng(0)
    batch, position = np.divmod(np.arange(n), 64)
    worker = batch % workers
    took = np.rint(random.normal(mean_ns, spread * mean_ns, n)).clip(1).astype(np.int64)
    between = np.where(position == 0, random.integers(20_000, 60_000, n), 0)
    end = np.empty(n, np.int64)
    for each in range(workers):
        end[worker == each] = np.cumsum((took + between)[worker == each])
    end += 10_000_000
    start = end - took
    begins = np.flatnonzero(position == 0)
    first, last = start[begins], np.maximum.reduceat(end, begins)
    ready = last + random.integers(30_000, 90_000, len(last))
    delivered = np.maximum.accumulate(ready + random.integers(50_000, 200_000, len(last)))
    return Trace.from_columns(
        batches={
            "batch": batch[begins],
            "worker": worker[begins],
            "n_samples": np.bincount(batch),
            "dispatched_s": (first - 9_000_000) / 1e9,
            "started_s": (first - 5_000) / 1e9,
            "collate_s": last / 1e9,
            "ready_s": ready / 1e9,
            "requested_s": (delivered - 40_000) / 1e9,
            "delivered_s": delivered / 1e9,
            "released_s": (delivered + random.integers(0, 10_000, len(last))) / 1e9,
            "cpu_s": (last - first) / 1e9,
            "state": "delivered",
        },
        samples={
            "batch": batch,
            "worker": worker,
            "position": position,
            "key": random.permutation(n),
            "start_s": start / 1e9,
            "end_s": end / 1e9,
        },
        workers={"worker": range(workers), "exit": "done"},
    )


USERS = Frame("dataset.py", 41, "Rows.__getitem__", "", "row = self.table.iloc[i]")
HELPER = Frame("dataset.py", 60, "augment", "", "time.sleep(0.1)")
CALLER = Frame("dataset.py", 42, "Rows.__getitem__", "", "return augment(row)")
PANDAS = Frame("pandas/core/indexing.py", 1191, "_LocIndexer.__getitem__", "pandas", "return self")
FETCHER = Frame("torch/utils/data/_utils/fetch.py", 54, "fetch", "torch", "data = [...]")
LINES = (
    Looked(0, 0, 0, 0, (FETCHER, USERS, PANDAS, PANDAS), 60, 3.0, 2.9, 1.5, (500_000, 900_000)),
    Looked(0, 0, 1, 0, (FETCHER, CALLER, HELPER), 19, 0.9, 0.1, 0.0, (700_000,)),
    Looked(0, 0, 1, 1, (FETCHER,), 2, 0.1, 0.1, 0.0, ()),
)


def with_lines(trace: Trace, *seen: Looked, not_seen: tuple[str, ...] = ()) -> Trace:
    """The trace with what looks have seen: by default three stacks, the first of pandas."""
    return replace(trace, meta={**trace.meta, "lines": packed(seen or LINES, not_seen)})
