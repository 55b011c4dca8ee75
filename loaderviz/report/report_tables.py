"""Who did what: a row for each worker, each rank and each loader, and the waits in numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.trace import Trace
from loaderviz.trace.analysis.rank_summary import by_rank
from loaderviz.trace.analysis.steps import waits_by_step
from loaderviz.trace.columns_of_rows import Table, arrays, codes, where

WHO = ("rank", "loader", "worker")
LIMITS_S = (0.001, 0.01, 0.1, 1.0, 10.0)
MOST_WORST = 10
_EXITS = ("killed", "failed", "running", "done")  # the gravest of several processes first


@dataclass(frozen=True)
class Waits:
    """How long the consumer waited, step by step."""

    n: int
    total_s: float
    median_s: float
    first_s: float  # the part that went into first batches of epochs
    longer: tuple[dict[str, Any], ...]  # limit_s, steps, and shares of steps and of the waiting
    worst: tuple[dict[str, Any], ...]


def waits_of(trace: Trace) -> Waits:
    rows = waits_by_step(trace)
    waited = rows["wait_s"]
    total = float(waited.sum())
    longer = []
    for limit in LIMITS_S:
        own = waited > limit
        if own.any():
            longer.append({
                "limit_s": limit,
                "steps": int(own.sum()),
                "share_of_steps": float(own.mean()),
                "share_of_waiting": float(waited[own].sum()) / total,
            })  # fmt: skip
    worst = np.argsort(-waited, kind="stable")[:MOST_WORST]
    return Waits(
        n=len(waited),
        total_s=total,
        median_s=float(np.median(waited)) if len(waited) else 0.0,
        first_s=float(waited[rows["first"]].sum()),
        longer=tuple(longer),
        worst=tuple(_step(rows, int(row)) for row in worst if waited[row] > 0),
    )


def _step(rows: Table, row: int) -> dict[str, Any]:
    names = ("rank", "loader", "step", "epoch", "batch", "worker")
    found: dict[str, Any] = {name: int(rows[name][row]) for name in names}
    found |= {"at_s": float(rows["requested_s"][row]), "wait_s": float(rows["wait_s"][row])}
    return {**found, "why": _why(rows, row)}


def _why(rows: Table, row: int) -> str:
    if rows["first"][row]:
        return "first batch of its epoch"
    ready, asked = rows["ready_s"][row], rows["requested_s"][row]
    if np.isnan(ready):
        return "not seen where it was made"
    if rows["worker"][row] < 0:
        return "made while the loop waited"
    if ready <= asked:
        return "it lay ready: handed over late"
    same = (rows["rank"] == rows["rank"][row]) & (rows["loader"] == rows["loader"][row])
    later = same & (rows["step"] > rows["step"][row]) & (rows["ready_s"] < ready)
    return "slower than later ones, which lay ready" if later.any() else "no batch was ready"


def workers_of(trace: Trace) -> list[dict[str, Any]]:
    """A row for each worker; where workers were started anew, all its processes together."""
    batches, processes = arrays(trace.batches), arrays(trace.workers)
    both = codes(WHO, batches, processes)
    by_batch, by_process = (_groups(each) for each in both)
    rows = []
    for code in sorted({*by_batch, *by_process}):
        own = where(batches, by_batch.get(code, slice(0)))
        lives = where(processes, by_process.get(code, slice(0)))
        rows.append(_worker(own, lives))
    return rows


def _groups(numbers: Any) -> dict[int, Any]:
    order = np.argsort(numbers, kind="stable")
    found, first = np.unique(numbers[order], return_index=True)
    parts = np.split(order, first[1:])
    return dict(zip(found.tolist(), parts, strict=False))


def _worker(own: Table, lives: Table) -> dict[str, Any]:
    of_any = own if len(own["rank"]) else lives
    made = own["ready_s"] - own["started_s"]
    known = np.flatnonzero(~np.isnan(made))
    slowest = known[np.argmax(made[known])] if len(known) else None
    begun = np.nanmin(own["dispatched_s"], initial=np.inf) if len(known) else np.nan
    span = float(np.nanmax(own["ready_s"]) - begun) if len(known) else np.nan
    exits = [each for each in _EXITS if each in set(lives["exit"].tolist())]
    keys = [key for key in lives["last_key"].tolist() if key is not None]
    busy = float(made[known].sum())
    return {
        **{name: int(of_any[name][0]) for name in WHO},
        "batches": len(known),
        "samples": int(own["n_samples"][known].sum()),
        "busy_share": min(busy / span, 1.0) if span > 0 else np.nan,
        "cpu_share": float(np.nansum(own["cpu_s"][known])) / busy if busy > 0 else np.nan,
        "read_s": _median(own["collate_s"] - own["started_s"]),
        "collate_s": _median(own["ready_s"] - own["collate_s"]),
        "slowest_s": float(made[slowest]) if slowest is not None else np.nan,
        "slowest_batch": int(own["batch"][slowest]) if slowest is not None else None,
        "processes": len(lives["rank"]),
        "exit": exits[0] if exits else None,
        "last_key": keys[0] if keys else None,
        "rss_peak_bytes": int(
            max(lives["rss_peak_bytes"].max(initial=0), own["rss_bytes"].max(initial=0))
        ),
    }


def _median(values: Any) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan


def ranks_of(trace: Trace) -> list[dict[str, Any]]:
    """A row for each rank."""
    table = by_rank(trace)
    rows: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items()} for row in table.to_dict("records")
    ]
    return [_with_shares(row) for row in rows]


def loaders_of(trace: Trace) -> list[dict[str, Any]]:
    """A row for each loader, of all ranks together."""
    bare = dataclasses.replace(trace, samples=Trace.from_columns().samples)  # reads none of them
    rows = []
    for loader in sorted({int(each) for each in trace.batches["loader"].unique()}):
        summary = dataclasses.replace(bare.of_loader(loader).summary(), slowest=None, unequal=())
        rows.append(_with_shares({"loader": loader, **dataclasses.asdict(summary)}))
    return rows


def _with_shares(row: dict[str, Any]) -> dict[str, Any]:
    """Waiting and starting together, in seconds and as a part of the loop's time."""
    names = ("n_batches", "n_samples", "n_workers", "step_s", "samples_per_s")
    waited = row["wait_s"] + row["startup_s"]
    whole = waited + row["step_s"]
    return {
        **{name: row[name] for name in ("rank", "loader") if name in row},
        **{name: row[name] for name in names},
        "wait_s": waited,
        "wait_share": waited / whole if whole > 0 else 0.0,
    }
