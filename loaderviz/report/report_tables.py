"""The report's tables: a row for each worker, each rank and each loader, and the waits."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.trace import Trace
from loaderviz.trace.columns_of_rows import Table, arrays, codes, where
from loaderviz.trace.described_loaders import unseen
from loaderviz.trace.steps import waits_by_step
from loaderviz.why.rank_summary import by_rank

WORKER_COLUMNS = ("rank", "loader", "worker")
LIMITS_S = (0.001, 0.01, 0.1, 1.0, 10.0)
N_WORST = 10
_EXITS = ("killed", "failed", "running", "done")  # the gravest first
_NOT_SEEN = dict.fromkeys(("wait_s", "startup_s", "step_s"), np.nan)  # where a thread reads ahead


@dataclass(frozen=True)
class Waits:
    """How long the consumer waited, step by step; times are in seconds.

    Attributes:
        n: how many steps there were.
        total_s: all waits together.
        median_s: of one step.
        first_s: the part of ``total_s`` that went into the first batches of epochs.
        longer: a row for each limit that some step exceeded: ``limit_s, steps, share_of_steps,
            share_of_waiting``.
        worst: a row for each of the ten longest waits, the longest first: ``rank, loader, step,
            epoch, batch, worker, at_s, wait_s, why``.
    """

    n: int
    total_s: float
    median_s: float
    first_s: float
    longer: tuple[dict[str, Any], ...]
    worst: tuple[dict[str, Any], ...]


def waits_of(trace: Trace) -> Waits:
    """How long the consumer of a trace waited, all ranks and loaders together."""
    steps = waits_by_step(trace)
    wait_s = steps["wait_s"]
    total_s = float(wait_s.sum())
    longer = []
    for limit_s in LIMITS_S:
        exceeds = wait_s > limit_s
        if exceeds.any():
            longer.append({
                "limit_s": limit_s,
                "steps": int(exceeds.sum()),
                "share_of_steps": float(exceeds.mean()),
                "share_of_waiting": float(wait_s[exceeds].sum()) / total_s,
            })  # fmt: skip
    worst = np.argsort(-wait_s, kind="stable")[:N_WORST]
    return Waits(
        n=len(wait_s),
        total_s=total_s,
        median_s=float(np.median(wait_s)) if len(wait_s) else 0.0,
        first_s=float(wait_s[steps["first"]].sum()),
        longer=tuple(longer),
        worst=tuple(_wait_row(steps, int(i)) for i in worst if wait_s[i] > 0),
    )


def _wait_row(steps: Table, i: int) -> dict[str, Any]:
    names = ("rank", "loader", "step", "epoch", "batch", "worker")
    row: dict[str, Any] = {name: int(steps[name][i]) for name in names}
    row |= {"at_s": float(steps["requested_s"][i]), "wait_s": float(steps["wait_s"][i])}
    return {**row, "why": _why_it_waited(steps, i)}


def _why_it_waited(steps: Table, i: int) -> str:
    if steps["first"][i]:
        return "first batch of its epoch"
    ready_s, requested_s = steps["ready_s"][i], steps["requested_s"][i]
    if np.isnan(ready_s):
        return "the time it was made is unknown"
    if steps["worker"][i] < 0:
        return "made while the loop waited"
    if ready_s <= requested_s:
        return "was ready, but handed over late"
    same_loader = (steps["rank"] == steps["rank"][i]) & (steps["loader"] == steps["loader"][i])
    overtaken = same_loader & (steps["step"] > steps["step"][i]) & (steps["ready_s"] < ready_s)
    return "later batches were ready before it" if overtaken.any() else "no batch was ready"


def workers_of(trace: Trace) -> list[dict[str, Any]]:
    """A row for each worker; a worker that was started again is one row, all processes together.

    ``busy_share`` is the share of the time from the first dispatch to the last finished batch that
    it spent on batches, ``cpu_share`` the share of that work on a CPU. ``read_s`` and ``collate_s``
    are the medians of a batch, in seconds; ``exit`` is the gravest of its processes' ends.
    """
    batches, processes = arrays(trace.batches), arrays(trace.workers)
    batch_workers, process_workers = codes(WORKER_COLUMNS, batches, processes)
    batch_rows, process_rows = _rows_by_code(batch_workers), _rows_by_code(process_workers)
    return [
        _worker_row(
            where(batches, batch_rows.get(code, slice(0))),
            where(processes, process_rows.get(code, slice(0))),
        )
        for code in sorted({*batch_rows, *process_rows})
    ]


def _rows_by_code(row_codes: Any) -> dict[int, Any]:
    """For each code that occurs, the rows that have it."""
    order = np.argsort(row_codes, kind="stable")
    distinct, first = np.unique(row_codes[order], return_index=True)
    parts = np.split(order, first[1:])
    return dict(zip(distinct.tolist(), parts, strict=False))


def _worker_row(batches: Table, processes: Table) -> dict[str, Any]:
    """The row of one worker, from its batches and its processes; either may be empty."""
    identified = batches if len(batches["rank"]) else processes
    made_in_s = batches["ready_s"] - batches["started_s"]
    made = np.flatnonzero(~np.isnan(made_in_s))
    slowest = made[np.argmax(made_in_s[made])] if len(made) else None
    begun_s = np.nanmin(batches["dispatched_s"], initial=np.inf) if len(made) else np.nan
    span_s = float(np.nanmax(batches["ready_s"]) - begun_s) if len(made) else np.nan
    ends = set(processes["exit"].tolist())
    exits = [name for name in _EXITS if name in ends]
    keys = [key for key in processes["last_key"].tolist() if key is not None]
    busy_s = float(made_in_s[made].sum())
    cpu_s = float(np.nansum(batches["cpu_s"][made]))
    peaks = (processes["rss_peak_bytes"].max(initial=0), batches["rss_bytes"].max(initial=0))
    return {
        **{name: int(identified[name][0]) for name in WORKER_COLUMNS},
        "batches": len(made),
        "samples": int(batches["n_samples"][made].sum()),
        "busy_share": min(busy_s / span_s, 1.0) if span_s > 0 else np.nan,
        "cpu_share": cpu_s / busy_s if busy_s > 0 else np.nan,
        "read_s": _median_of_known(batches["collate_s"] - batches["started_s"]),
        "collate_s": _median_of_known(batches["ready_s"] - batches["collate_s"]),
        "slowest_s": float(made_in_s[slowest]) if slowest is not None else np.nan,
        "slowest_batch": int(batches["batch"][slowest]) if slowest is not None else None,
        "processes": len(processes["rank"]),
        "exit": exits[0] if exits else None,
        "last_key": keys[0] if keys else None,
        "rss_peak_bytes": int(max(peaks)),
    }


def _median_of_known(values: Any) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan


def ranks_of(trace: Trace) -> list[dict[str, Any]]:
    """A row for each rank: batches, samples and workers, waits and steps in seconds, samples/s."""
    table = by_rank(trace)
    rows: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items()} for row in table.to_dict("records")
    ]
    not_seen = _NOT_SEEN if unseen(trace) else {}
    return [_with_shares(row | not_seen) for row in rows]


def loaders_of(trace: Trace) -> list[dict[str, Any]]:
    """A row for each loader, all ranks together; otherwise as in ``ranks_of``."""
    no_samples = Trace.from_columns().samples  # so that none are read
    bare = dataclasses.replace(trace, samples=no_samples)
    rows = []
    for loader in sorted({int(number) for number in trace.batches["loader"].unique()}):
        of_ranks = by_rank(bare.of_loader(loader))
        totals = {str(name): of_ranks[name].to_numpy().sum().item() for name in of_ranks}
        totals |= _NOT_SEEN if unseen(bare.of_loader(loader)) else {}
        rows.append(_with_shares({"loader": loader, **totals}))
    return rows


def _with_shares(row: dict[str, Any]) -> dict[str, Any]:
    """The row with ``wait_s``, seconds spent waiting and starting workers, also as a share."""
    names = ("n_batches", "n_samples", "n_workers", "step_s", "samples_per_s")
    wait_s = row["wait_s"] + row["startup_s"]
    total_s = wait_s + row["step_s"]
    return {
        **{name: row[name] for name in ("loader", "rank") if name in row},
        **{name: row[name] for name in names},
        "wait_s": wait_s,
        "wait_share": wait_s / total_s if total_s != 0 else 0.0,
    }
