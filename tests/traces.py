"""Hand-built traces, so that figures and summaries are tested without running a loader."""

from loaderviz import Trace


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
