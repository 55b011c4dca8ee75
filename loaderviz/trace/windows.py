"""A run minute by minute: what ``Trace.windows`` tells, also of what a ring no longer holds.

The main process writes a row for each loader and window into a file, as it goes: of what the loop
waited for and did, and of those who read for it. What it had not written is worked out from the
batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.own_errors import own_errors
from loaderviz.trace.around_epochs import startups
from loaderviz.trace.columns_of_rows import Table, arrays, where

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

WINDOW_S: Final = 60.0
LEAST_WINDOW_S: Final = 1.0
MOST_EPOCHS: Final = 10  # of one loader in a window, that have a row each
DIGITS: Final = 4  # of what a trace keeps of a window's values
WINDOWS_OF_RING: Final = 10  # where that is less than 10 minutes

COLUMNS: Final = {
    **{"rank": "int64", "loader": "int64", "epoch": "int64", "start_s": "float64"},
    **{"end_s": "float64", "batches": "int64", "samples": "int64", "startup_s": "float64"},
    **{"wait_s": "float64", "step_s": "float64"},
    **{"supply_per_s": "float64", "demand_per_s": "float64"},
    **{"ready_p50_s": "float64", "ready_p95_s": "float64", "ready_p99_s": "float64"},
    **{"read_p50_s": "float64", "read_p99_s": "float64", "read_cpu_share": "float64"},
    **{"disk_bytes": "float64", "memory_bytes": "float64", "slowest_worker": "int64"},
}

INCIDENT_COLUMNS: Final = {
    **{"rank": "int64", "incident": "int64", "kind": "object", "loader": "float64"},
    **{"start_s": "float64", "end_s": "float64", "before_s": "float64", "after_s": "float64"},
    **{"text": "object", "path": "object"},
}
COLUMNS_OF_READING: Final = (
    *("supply_per_s", "read_p50_s", "read_p99_s", "read_cpu_share", "disk_bytes", "memory_bytes"),
)
FILE_ROW: Final = np.dtype([(name, "<f8") for name in COLUMNS])
Row = dict[str, float]


def window_s_of(last_s: float | None) -> float:
    """How long the windows are of a recording that keeps its last ``last_s`` seconds, or all."""
    return min(WINDOW_S, max(LEAST_WINDOW_S, (last_s or WINDOW_S * 10) / WINDOWS_OF_RING))


def values_of(batches: Table, begins_s: float = 0.0) -> tuple[Table, Table]:
    """What ``rows_of`` takes, of the table ``batches`` of one rank whose times begin there."""
    names = ("worker", "loader", "epoch")
    batches = {name: values for name, values in batches.items() if name != "rank"}
    got = ~np.isnan(batches["requested_s"] + batches["delivered_s"])
    own = where(batches, got)
    released_s = np.fmax(own["released_s"], own["delivered_s"])
    loop = {
        **{name: own[name] for name in names},
        "at_s": released_s + begins_s,
        "took_s": np.maximum(own["delivered_s"] - own["requested_s"], 0.0),
        "other_s": released_s - own["delivered_s"],
    }
    own = where(batches, ~np.isnan(batches["ready_s"] - batches["started_s"]))
    reading = {
        **{name: own[name] for name in names},
        "at_s": own["ready_s"] + begins_s,
        "took_s": own["ready_s"] - own["started_s"],
        "other_s": own["cpu_s"],
        "samples": own["n_samples"],
        "disk_bytes": own["disk_bytes"],
        "memory_bytes": own["rss_bytes"],
    }
    return loop, reading


def rows_of(
    loop: Table, reading: Table, starts: Table, rank: int, start_s: float, window_s: float
) -> list[Row]:
    """A row for each loader, epoch and window, in order; of very many epochs the last has the row.

    Args:
        loop: of each batch that the loop got ``loader``, ``epoch``, ``at_s`` (when it was done with
            it, which decides the window), ``took_s`` to wait for it and ``other_s`` for the step.
        reading: of each batch that was read the same, with ``worker``, ``samples``, ``disk_bytes``
            and ``memory_bytes``: when it was ready, what it took, and the CPU time of that.
        starts: of each iterator ``loader`` and ``epoch``, when it was made (``at_s``) and what that
            took (``took_s``).
        rank: whose they are.
        start_s: when the first window begins; nothing is before it.
        window_s: how long a window is.
    """
    tables = [_with_window(part, start_s, window_s) for part in (loop, reading, starts)]
    parts = [_by_window(table) for table in tables]
    many = _of_many_epochs(set().union(*parts))
    if many:
        parts = [_by_window(_as_one_epoch(table, many)) for table in tables]
    rows = []
    for key in sorted(set().union(*parts)):
        window, loader, epoch = key
        of_loop, of_reading, of_starts = found = [part.get(key, {}) for part in parts]
        ends = [values["at_s"].max() for values in found if values]
        begin_s = start_s + window * window_s
        rows.append({
            **{"rank": rank, "loader": loader, "epoch": epoch, "start_s": begin_s},
            "end_s": min(begin_s + window_s, float(max(ends))),
            "startup_s": float(of_starts["took_s"].sum()) if of_starts else 0.0,
            **_loop_columns(of_loop),
            **_reading_columns(of_reading, float(of_loop["other_s"].sum()) if of_loop else 0.0),
        })  # fmt: skip
    return rows


def _with_window(values: Table, start_s: float, window_s: float) -> Table:
    window = np.maximum(np.floor((values["at_s"] - start_s) / window_s), 0)
    return {**values, "window": window.astype(np.int64)}


def _of_many_epochs(keys: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int], int]:
    """The last epoch of each window and loader that have more than ``MOST_EPOCHS``."""
    found: dict[tuple[int, int], list[int]] = {}
    for window, loader, epoch in keys:
        found.setdefault((window, loader), []).append(epoch)
    return {key: max(epochs) for key, epochs in found.items() if len(epochs) > MOST_EPOCHS}


def _as_one_epoch(values: Table, many: Mapping[tuple[int, int], int]) -> Table:
    epoch = values["epoch"].copy()
    for (window, loader), last in many.items():
        epoch[(values["window"] == window) & (values["loader"] == loader)] = last
    return {**values, "epoch": epoch}


def _by_window(values: Table) -> dict[tuple[int, int, int], Table]:
    if not len(values["at_s"]):
        return {}
    keys = np.stack([values["window"], values["loader"], values["epoch"]])
    order = np.lexsort(keys)
    keys = keys[:, order]
    cuts = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
    firsts = keys[:, np.append(0, cuts)].T.tolist()
    groups = np.split(order, cuts)
    return {
        tuple(key): {name: column[rows] for name, column in values.items()}
        for key, rows in zip(firsts, groups, strict=True)
    }


def _loop_columns(loop: Table) -> Row:
    took_s = loop["took_s"] if loop else np.zeros(0)
    p50, p95, p99 = np.quantile(took_s, [0.5, 0.95, 0.99]) if len(took_s) else [math.nan] * 3
    return {
        "batches": len(took_s),
        "wait_s": float(took_s.sum()),
        "step_s": float(loop["other_s"].sum()) if loop else 0.0,
        "longest_s": float(took_s.max(initial=0.0)),  # no column: incidents.py asks for it
        **{"ready_p50_s": float(p50), "ready_p95_s": float(p95), "ready_p99_s": float(p99)},
    }


def _reading_columns(reading: Table, step_s: float) -> Row:
    if not reading:
        unknown = dict.fromkeys(COLUMNS_OF_READING, math.nan)
        return {**unknown, "samples": 0, "demand_per_s": math.nan, "slowest_worker": -1}
    took_s, samples = reading["took_s"], reading["samples"]
    p50, p99 = np.quantile(took_s, [0.5, 0.99])
    supply, memory, each_s = 0.0, 0.0, {}
    for worker in np.unique(reading["worker"]).tolist():
        own = reading["worker"] == worker
        n, busy_s = int(samples[own].sum()), float(took_s[own].sum())
        supply += n / busy_s if busy_s > 0 else 0.0
        memory += float(reading["memory_bytes"][own].max())
        each_s[worker] = busy_s / n if n else 0.0
    return {
        "samples": int(samples.sum()),
        "supply_per_s": supply,
        "demand_per_s": float(samples.sum()) / step_s if step_s > 0 else math.nan,
        "read_p50_s": float(p50),
        "read_p99_s": float(p99),
        "read_cpu_share": float(np.nansum(reading["other_s"]) / (took_s.sum() or math.nan)),
        "disk_bytes": float(np.nansum(reading["disk_bytes"])),
        "memory_bytes": memory,
        "slowest_worker": max(each_s, key=each_s.__getitem__),
    }


def waited_share(rows: Table) -> float:
    """The share of the loops' time in these windows that they wait, starts of workers included."""
    waited_s = float(rows["startup_s"].sum() + rows["wait_s"].sum())
    return waited_s / ((waited_s + float(rows["step_s"].sum())) or 1.0)


def starts_of(trace: Trace, rank: int) -> Table:
    """The starts of workers of one rank, as ``rows_of`` takes them."""
    spans = [span[1:] for span in startups(trace) if span[0] == rank]
    loader, start_s, at_s = np.array(spans).reshape(-1, 3).T
    epoch = np.zeros(len(spans), np.int64)
    for number in np.unique(loader):
        own = trace.batches[(trace.batches["rank"] == rank) & (trace.batches["loader"] == number)]
        asked = own[["requested_s", "epoch"]].dropna().sort_values("requested_s")
        nth = np.searchsorted(asked["requested_s"].to_numpy(), at_s[loader == number])
        epoch[loader == number] = asked["epoch"].to_numpy()[np.minimum(nth, len(asked) - 1)]
    return {
        **{"loader": loader.astype(np.int64), "epoch": epoch},
        **{"at_s": at_s, "took_s": at_s - start_s},
    }


def packed(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """What ``meta["windows"]`` holds: a list for each of ``COLUMNS``, None where nobody knows."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in rows:
        for name, values in columns.items():
            value = row[name]
            if not math.isfinite(value):
                values.append(None)
            elif COLUMNS[name] == "int64":
                values.append(int(value))
            elif name in ("start_s", "end_s"):
                values.append(round(value, 6))
            else:
                values.append(float(f"{value:.{DIGITS}g}"))
    return columns


def written(path: Path) -> list[Row]:
    """The rows in the file of a recording, the whole ones; raises OSError but where it lacks."""
    try:
        data = path.read_bytes()
    except own_errors(FileNotFoundError):
        return []
    rows = np.frombuffer(data[: len(data) // FILE_ROW.itemsize * FILE_ROW.itemsize], FILE_ROW)
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows.tolist()]


def may_be_windows(kept: Any) -> bool:
    """Whether ``meta["windows"]`` may be this."""
    if not isinstance(kept, Mapping) or {*kept} != {*COLUMNS}:
        return False
    if not all(isinstance(values, list) for values in kept.values()):
        return False
    if not {type(value) for values in kept.values() for value in values} <= {int, float, NoneType}:
        return False
    try:
        columns = [np.asarray(kept[name], kind) for name, kind in COLUMNS.items()]
    except own_errors(OverflowError, TypeError, ValueError):
        return False
    return {column.shape for column in columns} == {(len(columns[0]),)} and all(
        np.fmin.reduce(column, initial=0) >= -1 and not np.isinf(column).any() for column in columns
    )


def of_these(meta: Mapping[str, Any], column: str, numbers: Iterable[int]) -> dict[str, Any]:
    """``meta`` with the windows of these ``rank``s or ``loader``s alone."""
    kept = meta.get("windows")
    if kept is None:
        return dict(meta)
    wanted = {*numbers}
    rows = [i for i, value in enumerate(kept[column]) if value in wanted]
    return {**meta, "windows": {name: [each[i] for i in rows] for name, each in kept.items()}}


def merged(
    parts: Iterable[tuple[Mapping[str, Any], int, int, float]],
) -> dict[str, Any]:
    """What ``meta`` has of windows and incidents of several recordings, on one clock.

    Args:
        parts: of each its ``meta``, its rank, the number of its first loader in the run, and when
            its tables begin in those of the run, in seconds.
    """
    kept = [part for part in parts if part[0].get("windows") is not None]
    if not kept:
        return {}
    begun_s = [shift_s - (meta.get("begins_s") or 0.0) for meta, _, _, shift_s in kept]
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    incidents = []
    for (meta, rank, first_loader, _), own_s in zip(kept, begun_s, strict=True):
        later_s = own_s - min(begun_s)
        n = len(meta["windows"]["rank"])
        for name, values in columns.items():
            own = meta["windows"][name]
            own = [rank] * n if name == "rank" else own
            own = [each + first_loader for each in own] if name == "loader" else own
            own = [each + later_s for each in own] if name in ("start_s", "end_s") else own
            values += own
        for row in meta.get("incidents") or ():
            moved = {
                name: row[name] + later_s for name in ("start_s", "end_s") if row[name] is not None
            }
            if row["loader"] is not None:
                moved["loader"] = row["loader"] + first_loader
            incidents.append({**row, "rank": rank, **moved})
    return {"windows": columns, "incidents": incidents, "begins_s": max(-min(begun_s), 0.0)}


def may_be_incidents(kept: Any) -> bool:
    """Whether ``meta["incidents"]`` may be a list of rows."""
    return isinstance(kept, list) and all(
        isinstance(row, Mapping)
        and {*row} == {*INCIDENT_COLUMNS}
        and all(
            value is None or isinstance(value, str if kind == "object" else int | float)
            for value, kind in ((row[name], kind) for name, kind in INCIDENT_COLUMNS.items())
        )
        for row in kept
    )


def incidents_of(trace: Trace) -> pd.DataFrame:
    """What ``Trace.incidents`` is."""
    import pandas as pd

    rows = trace.meta.get("incidents") or []
    return pd.DataFrame({
        name: pd.Series([row[name] for row in rows], dtype=kind)
        for name, kind in INCIDENT_COLUMNS.items()
    })  # fmt: skip


def windows_of(trace: Trace) -> pd.DataFrame:
    """What ``Trace.windows`` is: from what was written, else from the batches."""
    import pandas as pd

    kept: Any = trace.meta.get("windows")
    if kept is None:
        rows: list[Row] = []
        for rank in np.unique(trace.batches["rank"]).tolist():
            values = values_of(arrays(trace.batches[trace.batches["rank"] == rank]))
            rows += rows_of(*values, starts_of(trace, rank), rank, 0.0, WINDOW_S)
        kept = packed(rows)
    return pd.DataFrame({
        name: pd.Series(kept[name], dtype=kind) for name, kind in COLUMNS.items()
    })  # fmt: skip
