"""The figure of several epochs: which samples came in each, and which worker delivered them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.results.delivery_strip import NEVER
from loaderviz.figures.timelines import boxes
from loaderviz.text import worker_name

if TYPE_CHECKING:
    from loaderviz._audit import Audit

TITLE_PX, AXIS_PX, LANE_PX = 86, 56, 44


def epochs(audit: Audit, *, title: str, theme: style.ThemeName = "light") -> Figure:
    """Draw a lane for each epoch of an audit, a box for each sample, coloured by its worker.

    A hollow red box is a sample that never came in that epoch.

    Args:
        audit: of one rank.
        title: what the figure shows, in one line.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, and an audit in which no sample came.
    """
    came, missing = audit.deliveries.query("sample >= 0"), audit.missing
    if came.empty:
        raise LoaderVizError("there is nothing to draw: no sample came")
    last = int(max(came["sample"].max(), *missing["sample"].nlargest(1), 0))
    labels = [f"epoch {epoch}" for epoch in audit.epochs["epoch"]]
    totals = ", then ".join(map(str, audit.epochs["delivered"]))
    colours = style.theme(theme)
    layout = style.layout(
        colours,
        title=title,
        numbers=f"{totals} of {last + 1} samples · the number and colour of a box is the worker "
        "that delivered it",
        height=TITLE_PX + AXIS_PX + len(labels) * LANE_PX,
        margins=(axes.labels_px(labels), 22, TITLE_PX, AXIS_PX),
        lanes=labels,
    )
    layout |= {
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "xaxis": axes.axis(
            colours, "samples, in the order in which one process reads them",
            range=[-0.6, last + 0.6], showgrid=False, nticks=17,
        ),
        "yaxis": axes.lane_axis(colours, labels),
    }  # fmt: skip
    worker, sample = came["worker"].to_numpy(), came["sample"].to_numpy()
    hover = [
        f"sample {number:,}: {worker_name(each)}, epoch {epoch}"
        for number, each, epoch in zip(sample, worker, came["epoch"], strict=True)
    ]
    data = [
        boxes.bars(
            "delivered", sample - 0.5, sample + 0.5, came["epoch"].to_numpy(np.int64),
            thickness=0.72, fill=style.batch_codes(np.maximum(worker, 0)), hover=hover,
            insidetextanchor="middle", **boxes.number_labels(worker, 12),
        ),
        boxes.bars(
            "never", missing["sample"] - 0.42, missing["sample"] + 0.42,
            missing["epoch"].to_numpy(np.int64), thickness=0.62, fill=style.TRANSPARENT,
            edge=NEVER, edge_px=2,
            hover=[f"sample {number:,} never came" for number in missing["sample"]],
        ),
    ]  # fmt: skip
    return Figure(data=data, layout=layout)
