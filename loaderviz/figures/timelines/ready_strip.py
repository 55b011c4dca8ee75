"""The strip above the lanes: how many batches are finished and not yet taken by the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import style

if TYPE_CHECKING:
    from loaderviz.figures.timelines.lanes import Lanes
    from loaderviz.trace.columns_of_rows import Table


MANY = 200  # changes; a thicker line would hide the area below it


def ready_counts(batches: Table) -> tuple[Any, Any]:
    """When (s) the number of finished batches not yet taken changes, and the number from then on.

    Two arrays of one length, float64 and int32, in order of time.
    """
    ready, delivered = batches["ready_s"], batches["delivered_s"]
    arrivals = ready[~np.isnan(ready)]
    departures = delivered[~np.isnan(ready + delivered)]
    times = np.concatenate([arrivals, departures])
    changes = np.repeat(np.array([1, -1], np.int32), [len(arrivals), len(departures)])
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(changes[order], dtype=np.int32)


def strip(batches: Table, lanes: Lanes, edges: Any = None) -> dict[str, Any]:
    """The plotly trace of the strip; empty where there are no workers.

    ``edges``, in seconds: draw only the highest count of each bin between them; None: each change.
    """
    times, counts = ready_counts(batches)
    if edges is not None:
        first = np.searchsorted(times, edges[:-1], side="right")  # each bin's first change
        count_before = np.append(0, counts)[first]
        most = np.maximum.reduceat(np.append(counts, 0), first) if len(first) else counts
        changed = np.diff(first, append=len(times)) > 0
        times, counts = edges[:-1], np.where(changed, np.maximum(most, count_before), count_before)
    if not lanes.has_workers:
        times, counts = times[:0], counts[:0]
    return {
        "type": "scatter",
        "name": "ready",
        "x": times,
        "y": counts,
        "yaxis": "y2",
        "mode": "lines",
        "line": {
            "shape": "hv",
            "width": 1.4 if len(times) < MANY else 0.6,
            "color": style.READY_LINE,
        },
        "fill": "tozeroy",
        "fillcolor": style.READY_FILL,
        "hovertemplate": "%{y} batches ready<extra></extra>",
    }
