"""What the consumer's time went into, over time: steps, and waiting by cause."""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.figures.timelines import bands
from loaderviz.trace import Trace
from loaderviz.trace.columns_of_rows import arrays, where
from loaderviz.trace.steps import step_ends
from loaderviz.why.attribution import Attribution, attribute

BINS = 200
LEAST_S = 1e-6  # the time axis spans at least this


def shares_over_time(trace: Trace) -> tuple[Any, dict[str, Any], Any]:
    """Edges of bins, in seconds; of each bin the share that each cause had, and that steps had.

    A share is that of all ranks' time, 0 to 1. What a wait is due to is spread evenly over it.
    """
    waits = attribute(trace)
    delivered = arrays(trace.batches)
    delivered = where(delivered, ~np.isnan(delivered["delivered_s"]))
    begin, end = delivered["delivered_s"], step_ends(delivered)
    first_s = min(np.min(waits.start_s), np.min(begin, initial=np.inf))
    last_s = max(np.max(waits.end_s), np.max(end, initial=-np.inf))
    edges = np.linspace(first_s, max(last_s, first_s + LEAST_S), BINS + 1)
    n_ranks = len(np.unique(waits.rank))
    time_s = n_ranks * (edges[1] - edges[0])
    shares = {cause: seconds / time_s for cause, seconds in _in_bins(waits, edges).items()}
    return edges, shares, bands.seconds_in_bins(begin, end, edges) / time_s


def _in_bins(waits: Attribution, edges: Any) -> dict[str, Any]:
    """Seconds of each bin by cause; causes without any are left out."""
    order = {
        moment: np.argsort(getattr(waits, moment), kind="stable") for moment in ("start_s", "end_s")
    }
    length_s = waits.end_s - waits.start_s
    edge_times = edges - edges[0]

    def summed_since(moment: str, rates: Any) -> Any:
        """At each edge, the seconds that ran since the waits' starts, or since their ends."""
        times, rates = getattr(waits, moment)[order[moment]] - edges[0], rates[order[moment]]
        n = np.searchsorted(times, edge_times)
        so_far = [np.append(0.0, np.cumsum(values))[n] for values in (rates, rates * times)]
        return so_far[0] * edge_times - so_far[1]

    seconds = {}
    for cause in waits.totals():
        own = waits.of_cause(cause)
        rates = np.divide(own, length_s, out=np.zeros_like(own), where=length_s > 0)
        passed = summed_since("start_s", rates) - summed_since("end_s", rates)
        seconds[cause] = np.diff(passed).clip(0)
    return seconds
