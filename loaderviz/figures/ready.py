"""The strip above the lanes: how many batches are finished, and the loop does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import style

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.figures.lanes import Lanes


def steps(batches: pd.DataFrame) -> tuple[Any, Any]:
    """When the number of finished batches not yet taken changes, and what it is from then on."""
    arrive = batches["ready_s"].dropna().to_numpy()
    leave = batches.loc[batches["ready_s"].notna(), "delivered_s"].dropna().to_numpy()
    times = np.concatenate([arrive, leave])
    changes = np.concatenate([np.ones(len(arrive)), -np.ones(len(leave))])
    order = np.argsort(times, kind="stable")
    counts = np.cumsum(changes[order])
    return times[order], counts if len(counts) else np.zeros(1)


def strip(batches: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    times, counts = steps(batches)
    if not lanes.has_workers:
        times, counts = times[:0], counts[:0]
    return {
        "type": "scatter",
        "name": "ready",
        "x": times,
        "y": counts[: len(times)],
        "yaxis": "y2",
        "mode": "lines",
        "line": {"shape": "hv", "width": 1.4, "color": style.READY_LINE},
        "fill": "tozeroy",
        "fillcolor": style.READY_FILL,
        "hovertemplate": "%{y} batches ready<extra></extra>",
    }
