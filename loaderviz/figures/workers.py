"""What the workers do, or the main process in their place: marks of a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import boxes, style

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.figures.lanes import Lanes


def samples(
    samples: pd.DataFrame, batches: pd.DataFrame, lanes: Lanes, named: list[str], span_s: float
) -> dict[str, Any]:
    read = samples[samples["end_s"].notna()]
    own = boxes.rows_of(read, batches)
    hover = [
        f"{named[row]}<br>sample {position}, key {boxes.key_text(key)}<br>{boxes.ms(end - start)}"
        for row, position, key, start, end in zip(
            own, *(read[c] for c in ("position", "key", "start_s", "end_s")), strict=True
        )
    ]
    fills = [style.shade(b, p) for b, p in zip(read["batch"], read["position"], strict=True)]
    return boxes.bars(
        "sample", read["start_s"], read["end_s"], lanes.positions_of(read), thickness=0.66,
        fill=fills, edge=boxes.edges(fills, read["start_s"], read["end_s"], span_s),
        batch=own, hover=hover,
    )  # fmt: skip


def whole_batches(made: pd.DataFrame, lanes: Lanes, named: list[str]) -> dict[str, Any]:
    hover = [
        f"{named[row]}<br>{n} samples<br>{boxes.ms(end - start)}"
        for row, n, start, end in zip(
            made.index, *(made[c] for c in ("n_samples", "started_s", "collate_s")), strict=True
        )
    ]
    fills = [style.colour(int(b)) for b in made["batch"]]
    return boxes.bars(
        "sample", made["started_s"], made["collate_s"], lanes.positions_of(made),
        thickness=0.66, fill=fills, edge=fills, batch=made.index, hover=hover,
    )  # fmt: skip


def collate(made: pd.DataFrame, lanes: Lanes, named: list[str], span_s: float) -> dict[str, Any]:
    done = made[made["ready_s"].notna()]
    hover = [
        f"{named[row]}<br>collate {boxes.ms(ready - start)}"
        for row, start, ready in zip(done.index, done["collate_s"], done["ready_s"], strict=True)
    ]
    # A collate step of a hair's width is still seen, unless its batch is that narrow too.
    wide = done["ready_s"] - done["started_s"] > 3 * boxes.NARROW * span_s
    return boxes.bars(
        "collate", done["collate_s"], done["ready_s"], lanes.positions_of(done), thickness=0.66,
        fill=style.QUIET, edge=style.QUIET, edge_px=np.where(wide, 1.5, 0),
        batch=done.index, hover=hover,
    )  # fmt: skip


def numbers(made: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    """The batch's number, over its boxes; hidden where the batch is narrower than the number."""
    done = made[made["ready_s"].notna()]
    numbers = [int(batch) for batch in done["batch"]]
    return boxes.bars(
        "number", done["started_s"], done["ready_s"], lanes.positions_of(done), thickness=0.66,
        fill="rgba(0,0,0,0)", edge_px=0, batch=done.index,
        text=[str(batch) for batch in numbers], textposition="inside", textangle=0,
        insidetextanchor="start",
        insidetextfont={"size": 12, "color": [style.text_on(batch) for batch in numbers]},
    )  # fmt: skip


def failures(
    samples: pd.DataFrame, batches: pd.DataFrame, lanes: Lanes, named: list[str]
) -> dict[str, Any]:
    """A cross where reading a sample raised an exception."""
    begun = samples[samples["end_s"].isna()]
    own = boxes.rows_of(begun, batches)
    failed = [batches["state"].iloc[row] == "failed" for row in own]
    raised = begun[np.asarray(failed, dtype=bool)]
    own = [row for row, is_failed in zip(own, failed, strict=True) if is_failed]
    hover = [
        f"{named[row]}<br>reading key {boxes.key_text(key)} raised an exception"
        for row, key in zip(own, raised["key"], strict=True)
    ]
    return {
        "type": "scatter",
        "name": "failed",
        "x": raised["start_s"].to_numpy(),
        "y": lanes.positions_of(raised),
        "mode": "markers",
        "marker": {"symbol": "x", "size": 12, "color": style.FAILED},
        "customdata": own,
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
