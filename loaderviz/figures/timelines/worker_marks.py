"""Marks of a timeline: what the workers do, or the main process in their place.

Each function returns one plotly trace. ``names`` are those of all batches (``boxes.batch_names``),
by row; ``axis_span_s`` is how many seconds the time axis shows; ``made`` are the batches that a
process began to make.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.figures import style
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.text import count
from loaderviz.trace.columns_of_rows import Table, batch_rows, where


def samples(
    samples: Table, batches: Table, lanes: Lanes, names: Any, axis_span_s: float
) -> dict[str, Any]:
    """A box for each sample that was read."""
    read = where(samples, ~np.isnan(samples["end_s"]))
    rows = batch_rows(read, batches)
    start, end = read["start_s"], read["end_s"]
    hover = (
        f"{name}<br>sample {position}, key {boxes.key_text(key)}<br>{duration}"
        for name, position, key, duration in zip(
            names[rows],
            read["position"].tolist(),
            read["key"],
            boxes.duration_texts(end - start),
            strict=True,
        )
    )
    fills = style.batch_codes(read["batch"], read["position"])
    # Shades tell narrow samples apart: an edge would cross the batch's number.
    edge = boxes.edge_codes(fills, start, end, axis_span_s, boxes.NUMBER_WIDTH)
    return boxes.bars(
        "sample", start, end, lanes.worker_lanes(read), thickness=0.66, fill=fills, edge=edge,
        batch=rows, hover=hover,
    )  # fmt: skip


def whole_batches(made: Table, lanes: Lanes, names: Any) -> dict[str, Any]:
    """One box for all samples of a batch, where single samples are not shown."""
    start, end = made["started_s"], made["collate_s"]
    hover = (
        f"{name}<br>{count(n, 'sample')}<br>{duration}"
        for name, n, duration in zip(
            names[made["row"]],
            made["n_samples"].tolist(),
            boxes.duration_texts(end - start),
            strict=True,
        )
    )
    fills = style.batch_codes(made["batch"])
    return boxes.bars(
        "sample", start, end, lanes.worker_lanes(made), thickness=0.66, fill=fills, edge=fills,
        batch=made["row"], hover=hover,
    )  # fmt: skip


def collate(made: Table, lanes: Lanes, names: Any, axis_span_s: float) -> dict[str, Any]:
    """A box for the collate step of each batch."""
    finished = where(made, ~np.isnan(made["ready_s"]))
    start, end = finished["collate_s"], finished["ready_s"]
    durations = boxes.duration_texts(end - start)
    hover = (
        f"{name}<br>collate {duration}"
        for name, duration in zip(names[finished["row"]], durations, strict=True)
    )
    # An edge keeps a very short collate step visible, unless the whole batch is about as narrow.
    wide = end - finished["started_s"] > 3 * boxes.NARROW * axis_span_s
    return boxes.bars(
        "collate", start, end, lanes.worker_lanes(finished), thickness=0.66, fill=style.QUIET,
        edge=style.QUIET, edge_px=np.where(wide, np.float32(1.5), np.float32(0)),
        batch=finished["row"], hover=hover,
    )  # fmt: skip


def batch_numbers(made: Table, lanes: Lanes) -> dict[str, Any]:
    """Each batch's number over its boxes; hidden where the batch is narrower than the number."""
    finished = where(made, ~np.isnan(made["ready_s"]))
    return boxes.bars(
        "number", finished["started_s"], finished["ready_s"], lanes.worker_lanes(finished),
        thickness=0.66, fill=style.TRANSPARENT, edge_px=0, batch=finished["row"],
        insidetextanchor="start", **boxes.number_labels(finished["batch"], 12),
    )  # fmt: skip


def failures(samples: Table, batches: Table, lanes: Lanes) -> dict[str, Any]:
    """A cross where reading a sample raised an exception."""
    unfinished = where(samples, np.isnan(samples["end_s"]))
    rows = batch_rows(unfinished, batches)
    failed = np.asarray(batches["state"][rows] == "failed", bool)
    raised, rows = where(unfinished, failed), rows[failed]
    hover = (
        f"{name}<br>reading key {boxes.key_text(key)} raised an exception"
        for name, key in zip(
            boxes.batch_names(batches, lanes.loaders, rows), raised["key"], strict=True
        )
    )
    return {
        "type": "scatter",
        "name": "failed",
        "x": raised["start_s"],
        "y": lanes.worker_lanes(raised),
        "mode": "markers",
        "marker": {"symbol": "x", "size": 12, "color": style.FAILED},
        "customdata": rows.astype(np.int32),
        "hovertext": boxes.text_array(hover),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
