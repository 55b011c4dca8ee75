"""The table of batches that a large timeline carries, compressed for the page.

Times are whole ticks, and each is written as its difference from another time (``TIMES``): such
numbers are small, repeat often and so compress well. ``packed_rows.js`` reads the table.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.trace.columns_of_rows import Table

TICKS = 2**30  # at most, on the whole time axis: differences fit into 32 bits
MOST_CHARS = 4_400_000  # with the script and the layout, the page stays below 5 MB
MOST_ROWS = 1_000_000  # more would not fit: a row takes at least 10 bytes
# Two bases of a difference: the latest known value of the same column in the rows before, and the
# latest known ``released_s`` in them.
BEFORE, LAST = "before", "last released_s"
# Each column of time, and the base that its values are written as differences from.
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


def pack(batches: Table, lanes: Lanes) -> dict[str, Any] | None:
    """The table for ``layout.meta``; None where it would be too large for a page."""
    if len(batches["row"]) > MOST_ROWS:
        return None
    several = {c: np.ptp(batches[c]) > 0 for c in ("epoch", "loader")}
    numbers = {"lane": lanes.worker_lanes(batches), "batch": batches["batch"]}
    numbers |= {c: batches[c] for c, has_several in several.items() if has_several}
    numbers["n_samples"] = batches["n_samples"]
    if lanes.pins:
        numbers["pin"] = lanes.pin_lanes(batches)
    if lanes.devices:
        numbers["device"] = lanes.device_lanes(batches)
    times = {c: batches[c] for c in TIMES}
    packed = _pack_columns(numbers, times)
    return packed if len(packed["data"]) <= MOST_CHARS else None


def _pack_columns(numbers: dict[str, Any], times: dict[str, Any]) -> dict[str, Any]:
    """``numbers``: columns of whole numbers; ``times``: columns of seconds, NaN where unknown."""
    times = {c: values for c, values in times.items() if not np.isnan(values).all()}
    seconds = np.stack(list(times.values()))
    start, end = float(np.nanmin(seconds)), float(np.nanmax(seconds))
    tick = max((end - start) / (TICKS - 1), 1e-9)
    missing = np.isnan(seconds)
    ticks = dict(
        zip(times, np.rint(np.nan_to_num((seconds - start) / tick)).astype(np.int64), strict=True)
    )
    bits = 1 << np.arange(len(times))[:, None]
    differences = {name: np.diff(values, prepend=0) for name, values in numbers.items()}
    differences["missing"] = np.diff((missing * bits).sum(axis=0), prepend=0)
    columns = [[name, BEFORE] for name in differences]
    for i, (name, values) in enumerate(ticks.items()):
        base = TIMES[name]
        while base not in (BEFORE, LAST, *ticks):
            base = TIMES[base]
        if base == LAST and "released_s" not in ticks:
            base = BEFORE
        if base in ticks:
            base_values = ticks[base]
        else:
            base_column = name if base == BEFORE else "released_s"
            base_missing = missing[list(ticks).index(base_column)]
            base_values = _latest_before(ticks[base_column], base_missing)
        # A missing time is written as its base, which is a difference of 0.
        values = np.where(missing[i], base_values, values)
        ticks[name] = values
        differences[name] = values - base_values
        columns.append([name, base])
    words = np.stack([_zigzag(values) for values in differences.values()])
    planes = words.view(np.uint8).reshape(len(differences), -1, 4).transpose(0, 2, 1)
    return {
        "n": words.shape[1],
        "start": start,
        "tick": tick,
        "columns": columns,
        "data": base64.b64encode(zlib.compress(planes.tobytes(), 4)).decode("ascii"),
    }


def _latest_before(values: Any, missing: Any) -> Any:
    """For each row the latest known value in the rows before it; 0 where there is none."""
    known_row = np.maximum.accumulate(np.where(missing, -1, np.arange(len(values))))
    latest = np.where(known_row < 0, 0, values[known_row])
    return np.append(0, latest[:-1])


def _zigzag(values: Any) -> Any:
    """Small numbers of either sign as small unsigned ones (uint32)."""
    # A batch number, say, that does not fit: files may come from anybody.
    if np.abs(values).max(initial=0) >= 2**31:
        values = np.zeros_like(values)
    return ((values << 1) ^ (values >> 63)).astype("<u4")
