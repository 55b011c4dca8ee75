"""What covers the boxes of a timeline that are too narrow to be told apart, until one zooms in.

A cover of its own colour lies over a batch's samples; past ``MOST_TOLD_APART`` batches one of a
single colour lies over all that any process works on. ``covers.js`` takes them off where there is
room, and off the batch that is hovered. Each function returns one plotly trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.figures import style
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.consumer_marks import pinned_batches
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.trace.columns_of_rows import Table, batch_rows, where
from loaderviz.trace.steps import step_ends

SAMPLES, BATCHES = "cover of samples", "cover of batches"
UNDER = {"sample", SAMPLES, "collate", "number", "step", "pin", "device"}  # that of batches
MOST_TOLD_APART = 48  # batches of one loop; more look like a barcode
LEAST_SAMPLE_PX = 6
LONG_SAMPLE_PX = 15
AXIS_PX = 900  # of a usual page, where nobody measures it


def rules() -> dict[str, float]:
    """What ``covers.js`` needs to know."""
    return {"batches": MOST_TOLD_APART, "samplePx": LEAST_SAMPLE_PX}


def lie_on(marks: list[dict[str, Any]]) -> set[str]:
    """The names of the covers among the marks. What lies under that of batches becomes invisible.

    Its colours would shine through wherever a box begins between two pixels.
    """
    found = {each["name"] for each in marks if len(each["x"])} & {SAMPLES, BATCHES}
    if BATCHES in found:
        for each in marks:
            if each["name"] in UNDER:
                each["opacity"] = 0
    return found


def _too_many(batches: Table, lanes: Lanes) -> bool:
    return len(batches["row"]) > MOST_TOLD_APART * max(len(lanes.consumers), 1)


def _too_narrow(samples: Table, axis_span_s: float) -> bool:
    seconds = samples["end_s"] - samples["start_s"]
    seconds = seconds[seconds > 0]
    return bool(len(seconds)) and np.median(seconds) < LEAST_SAMPLE_PX / AXIS_PX * axis_span_s


def of_samples(
    batches: Table, samples: Table, lanes: Lanes, axis_span_s: float, *, merged: bool
) -> dict[str, Any]:
    """A box in the batch's colour over all its samples, where these are too narrow.

    Not over those of a batch with one that is much longer than usual: that is to be seen.
    ``merged``: samples are not drawn.
    """
    covered = np.zeros(len(batches["row"]), bool)
    if not merged and _too_narrow(samples, axis_span_s):
        longest = np.zeros(len(covered))
        seconds = samples["end_s"] - samples["start_s"]
        np.fmax.at(longest, batch_rows(samples, batches), seconds)
        covered = longest < LONG_SAMPLE_PX / AXIS_PX * axis_span_s
    read = where(batches, ~np.isnan(batches["collate_s"]) & covered)
    start, end = read["started_s"], read["collate_s"]
    fills = style.batch_codes(read["batch"])
    return boxes.bars(
        SAMPLES, start, end, lanes.worker_lanes(read), thickness=0.66, fill=fills,
        edge=boxes.edge_codes(fills, start, end, axis_span_s), batch=read["row"],
    )  # fmt: skip


def of_batches(batches: Table, lanes: Lanes) -> dict[str, Any]:
    """A box in one colour over each thing that something works on, where batches are too many."""
    batches = batches if _too_many(batches, lanes) else where(batches, slice(0))
    pinned, pin_start = pinned_batches(batches)
    taken = where(batches, ~np.isnan(batches["delivered_s"]))
    parts = [
        (batches, lanes.worker_lanes, batches["started_s"], batches["ready_s"], 0.66),
        (taken, lanes.consumer_lanes, taken["delivered_s"], step_ends(taken), 0.8),
        (batches, lanes.device_lanes, batches["device_start_s"], batches["device_end_s"], 0.66),
        (pinned, lanes.pin_lanes, pin_start, pinned["pinned_s"], 0.4),
    ]
    known = [~np.isnan(end - start) for _, _, start, end, _ in parts]

    def joined(columns: list[Any]) -> Any:
        return np.concatenate([column[rows] for column, rows in zip(columns, known, strict=True)])

    return boxes.bars(
        BATCHES,
        joined([start for _, _, start, _, _ in parts]),
        joined([end for _, _, _, end, _ in parts]),
        joined([lanes_of(rows) for rows, lanes_of, _, _, _ in parts]),
        thickness=joined([np.full(len(rows["row"]), tall) for rows, _, _, _, tall in parts]),
        fill=style.BUSY,
        edge_px=0,
        batch=joined([rows["row"] for rows, *_ in parts]),
    )
