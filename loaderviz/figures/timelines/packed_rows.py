"""The table of batches of a large timeline, in as few characters as it takes to draw it.

Times are counted in ticks and written as what they are beyond another time of the batch: small
numbers, the same again and again. ``packed_rows.js`` reads them.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from loaderviz.figures.timelines import bands
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.trace.columns_of_rows import Table

TICKS = 2**30  # the time axis at most: differences fit into 32 bits
MOST_CHARS = 4_400_000  # with the script and the layout, the page stays below 5 MB
MOST_ROWS = 1_000_000  # not tried beyond: a row takes 10 bytes at least
COARSE_ROWS = 200_000
BEFORE, LAST = "before", "last released_s"  # the row before's own; the latest in the rows before
TIMES = {
    "dispatched_s": BEFORE,
    "started_s": "dispatched_s",
    "collate_s": "started_s",
    "ready_s": "collate_s",
    "pinned_s": "ready_s",
    "requested_s": LAST,
    "delivered_s": "requested_s",
    "released_s": "delivered_s",
    "device_start_s": "delivered_s",
    "device_end_s": "device_start_s",
}


def pack(batches: Table, lanes: Lanes, shown: list[float]) -> tuple[dict[str, Any], bool]:
    """What ``layout.meta`` carries, and whether it holds each batch, or stretches of time only."""
    several = {c: np.ptp(batches[c]) > 0 for c in ("epoch", "loader")}
    numbers = {"lane": lanes.positions_of(batches), "batch": batches["batch"]}
    numbers |= {c: batches[c] for c, is_so in several.items() if is_so}
    numbers["n_samples"] = batches["n_samples"]
    if lanes.pins:
        numbers["pin"] = lanes.pins_of(batches)
    if lanes.devices:
        numbers["device"] = lanes.devices_of(batches)
    times = {c: batches[c] for c in TIMES}
    if len(batches["row"]) <= MOST_ROWS:
        packed = _packed(numbers, times)
        if len(packed["data"]) <= MOST_CHARS:
            return packed, True
    return {**_packed(*_coarse(batches, lanes, shown)), "merged": True}, False


def _packed(numbers: dict[str, Any], times: dict[str, Any]) -> dict[str, Any]:
    times = {c: values for c, values in times.items() if not np.isnan(values).all()}
    every = np.stack(list(times.values()))
    start, end = float(np.nanmin(every)), float(np.nanmax(every))
    tick = max((end - start) / (TICKS - 1), 1e-9)
    missing = np.isnan(every)
    ticks = dict(
        zip(times, np.rint(np.nan_to_num((every - start) / tick)).astype(np.int64), strict=True)
    )
    bits = 1 << np.arange(len(times))[:, None]
    beyond = {name: np.diff(values, prepend=0) for name, values in numbers.items()}
    beyond["missing"] = np.diff((missing * bits).sum(axis=0), prepend=0)
    columns = [[name, BEFORE] for name in beyond]
    for own, (name, values) in enumerate(ticks.items()):
        base = TIMES[name]
        while base not in (BEFORE, LAST, *ticks):
            base = TIMES[base]
        if base == LAST and "released_s" not in ticks:
            base = BEFORE
        if base in ticks:
            of_base = ticks[base]
            values = np.where(missing[own], of_base, values)
        else:
            last = name if base == BEFORE else "released_s"
            of_base = _latest_before(ticks[last], missing[list(ticks).index(last)])
            values = np.where(missing[own], of_base, values)
        ticks[name] = values
        beyond[name] = values - of_base
        columns.append([name, base])
    wide = np.stack([_zigzag(values) for values in beyond.values()])
    planes = wide.view(np.uint8).reshape(len(beyond), -1, 4).transpose(0, 2, 1)
    return {
        "n": wide.shape[1],
        "start": start,
        "tick": tick,
        "columns": columns,
        "data": base64.b64encode(zlib.compress(planes.tobytes(), 4)).decode("ascii"),
    }


def _latest_before(values: Any, missing: Any) -> Any:
    """For each row the latest known value in the rows before it; 0 where there is none."""
    at = np.maximum.accumulate(np.where(missing, -1, np.arange(len(values))))
    known = np.where(at < 0, 0, values[at])
    return np.append(0, known[:-1])


def _zigzag(values: Any) -> Any:
    """Small numbers of either sign as small unsigned ones."""
    if np.abs(values).max(initial=0) >= 2**31:  # a number of a batch, say, of a stranger's file
        values = np.zeros_like(values)
    return ((values << 1) ^ (values >> 63)).astype("<u4")


def _coarse(
    batches: Table, lanes: Lanes, shown: list[float]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows that stand for stretches of time: so much of each as a lane was busy in it."""
    edges = np.linspace(shown[0], shown[1], max(COARSE_ROWS // len(lanes), 500) + 1)
    start = edges[:-1]
    spent = bands.times_of(batches, lanes, edges)
    blank = np.full(len(start), np.nan)
    step, wait = (spent[kind].get(0, 0 * start) for kind in ("step", "wait"))
    parts = [
        {"started_s": start, "ready_s": start + busy, "lane": np.full(len(start), lane)}
        for lane, busy in spent["busy"].items()
    ]
    consumer = {"requested_s": start, "delivered_s": start + wait}
    parts.append({**consumer, "released_s": start + wait + step, "lane": np.zeros(len(start))})
    times = {c: np.concatenate([part.get(c, blank) for part in parts]) for c in TIMES}
    return {"lane": np.concatenate([part["lane"] for part in parts]).astype(np.int64)}, times
