"""What the workers do, or the main process in their place: marks of a timeline."""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.figures import style
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.text import count
from loaderviz.trace.columns_of_rows import Table, batch_rows, where


def samples(
    samples: Table, batches: Table, lanes: Lanes, named: Any, span_s: float
) -> dict[str, Any]:
    """A box for each sample that was read."""
    read = where(samples, ~np.isnan(samples["end_s"]))
    own = batch_rows(read, batches)
    start, end = read["start_s"], read["end_s"]
    hover = (
        f"{name}<br>sample {position}, key {boxes.key_text(key)}<br>{took}"
        for name, position, key, took in zip(
            named[own],
            read["position"].tolist(),
            read["key"],
            boxes.durations(end - start),
            strict=True,
        )
    )
    fills = style.shades(read["batch"], read["position"])
    return boxes.bars(
        "sample", start, end, lanes.positions_of(read), thickness=0.66, fill=fills,
        edge=boxes.edges(fills, start, end, span_s), batch=own, hover=hover,
    )  # fmt: skip


def whole_batches(made: Table, lanes: Lanes, named: Any) -> dict[str, Any]:
    """A box for all samples of a batch, where single ones are not shown."""
    start, end = made["started_s"], made["collate_s"]
    hover = (
        f"{name}<br>{count(n, 'sample')}<br>{took}"
        for name, n, took in zip(
            named[made["row"]],
            made["n_samples"].tolist(),
            boxes.durations(end - start),
            strict=True,
        )
    )
    fills = style.shades(made["batch"])
    return boxes.bars(
        "sample", start, end, lanes.positions_of(made), thickness=0.66, fill=fills, edge=fills,
        batch=made["row"], hover=hover,
    )  # fmt: skip


def collate(made: Table, lanes: Lanes, named: Any, span_s: float) -> dict[str, Any]:
    """A box for the collate step of each batch."""
    done = where(made, ~np.isnan(made["ready_s"]))
    start, end = done["collate_s"], done["ready_s"]
    hover = (
        f"{name}<br>collate {took}"
        for name, took in zip(named[done["row"]], boxes.durations(end - start), strict=True)
    )
    # A collate step of a hair's width is still seen, unless its batch is that narrow too.
    wide = end - done["started_s"] > 3 * boxes.NARROW * span_s
    return boxes.bars(
        "collate", start, end, lanes.positions_of(done), thickness=0.66, fill=style.QUIET,
        edge=style.QUIET, edge_px=np.where(wide, np.float32(1.5), np.float32(0)),
        batch=done["row"], hover=hover,
    )  # fmt: skip


def numbers(made: Table, lanes: Lanes) -> dict[str, Any]:
    """The batch's number, over its boxes; hidden where the batch is narrower than the number."""
    done = where(made, ~np.isnan(made["ready_s"]))
    return boxes.bars(
        "number", done["started_s"], done["ready_s"], lanes.positions_of(done), thickness=0.66,
        fill=style.NONE, edge_px=0, batch=done["row"], insidetextanchor="start",
        **boxes.numbered(done["batch"], 12),
    )  # fmt: skip


def failures(samples: Table, batches: Table, lanes: Lanes) -> dict[str, Any]:
    """A cross where reading a sample raised an exception."""
    begun = where(samples, np.isnan(samples["end_s"]))
    own = batch_rows(begun, batches)
    failed = np.asarray(batches["state"][own] == "failed", bool)
    raised, own = where(begun, failed), own[failed]
    hover = (
        f"{name}<br>reading key {boxes.key_text(key)} raised an exception"
        for name, key in zip(boxes.names_of(batches, own), raised["key"], strict=True)
    )
    return {
        "type": "scatter",
        "name": "failed",
        "x": raised["start_s"],
        "y": lanes.positions_of(raised),
        "mode": "markers",
        "marker": {"symbol": "x", "size": 12, "color": style.FAILED},
        "customdata": own.astype(np.int32),
        "hovertext": boxes.texts(hover),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
