"""The figure of several epochs: which samples came in each, and which worker delivered them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loaderviz.course.figures.lane_figure import lane_figure
from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.figures.display import Figure
from loaderviz.figures.results.delivery_strip import NEVER
from loaderviz.figures.timelines import boxes
from loaderviz.text import worker_name

if TYPE_CHECKING:
    from loaderviz._audit import Audit


def epochs(audit: Audit, *, title: str) -> Figure:
    """Draw a lane for each epoch of an audit, a box for each sample, coloured by its worker.

    A hollow red box is a sample that never came in that epoch.

    Args:
        audit: of one rank.
        title: what the figure shows, in one line.

    Raises:
        LoaderVizError: for an audit in which no sample came.
    """
    came, missing = audit.deliveries.query("sample >= 0"), audit.missing
    if came.empty:
        raise LoaderVizError("there is nothing to draw: no sample came")
    last = int(max(came["sample"].max(), *missing["sample"].nlargest(1), 0))
    totals = ", then ".join(map(str, audit.epochs["delivered"]))
    worker, sample = came["worker"].to_numpy(), came["sample"].to_numpy()
    hover = [
        f"sample {number:,}: {worker_name(each)}, epoch {epoch}"
        for number, each, epoch in zip(sample, worker, came["epoch"], strict=True)
    ]
    delivered = boxes.bars(
        "delivered", sample - 0.5, sample + 0.5, came["epoch"].to_numpy(np.int64),
        thickness=0.72, fill=style.batch_codes(np.maximum(worker, 0)), hover=hover,
        insidetextanchor="middle", **boxes.number_labels(worker, 12),
    )  # fmt: skip
    never = boxes.bars(
        "never", missing["sample"] - 0.42, missing["sample"] + 0.42,
        missing["epoch"].to_numpy(np.int64), thickness=0.62, fill=style.TRANSPARENT,
        edge=NEVER, edge_px=2, hover=[f"sample {n:,} never came" for n in missing["sample"]],
    )  # fmt: skip
    return lane_figure(
        [delivered, never],
        [f"epoch {epoch}" for epoch in audit.epochs["epoch"]],
        title=title,
        numbers=f"{totals} of {last + 1} samples · the number and colour of a box is the worker "
        "that delivered it",
        x_title="samples, by their place in the dataset",
        x={"range": [-0.6, last + 0.6], "showgrid": False, "nticks": 17},
        uniformtext={"minsize": 9, "mode": "hide"},
    )
