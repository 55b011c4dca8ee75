"""An exercise of notebook 09: share out a stream over ranks and workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.launch_ranks import simulate_ranks
from loaderviz.text import count

# Samples, ranks, workers of each rank.
SHARE_CASES = ((17, 2, 2), (6, 2, 4), (16, 4, 2), (103, 3, 5), (1, 2, 2), (12, 1, 3), (9, 3, 1))
share_hint = Hints(
    "with 2 ranks and 2 workers there are 4 shares: which of 0, 1, 2 and 3 is this worker's?",
    "rank + worker is 1 for two of the four; give each of them its own number.",
    "neighbouring shares should go to different ranks: rank + worker * ranks, or first every "
    "ranks-th sample, then of these every workers-th.",
)


@explains_errors
def share(answer: Callable[..., Any]) -> Check:
    """Whether ``answer(data, rank, ranks, worker, workers)`` shares out ``data`` correctly.

    No sample may be lost or come twice, no rank may have two samples more than another, and no
    worker two more than another of its rank.
    """
    figure = None
    for n, ranks, workers in SHARE_CASES:
        case = f"{count(n, 'sample')}, ranks={ranks}, workers={workers}"
        result = simulate_ranks(answer, n, ranks=ranks, workers=workers, batch_size=3)
        is_known = len(result.deliveries) or len(result.missing)
        case_figure = result.figure(numbers="sample") if is_known else None
        if not result.exactly_once:
            return Check(False, f"{case}: {result.verdict}.", case_figure)
        sizes = result.per_worker.groupby("rank")["samples"].sum()
        if sizes.max() - sizes.min() > 1:
            most = f"rank {sizes.idxmax()} has {sizes.max()}"
            least = f"rank {sizes.idxmin()} has {sizes.min()}"
            message = f"{case}: every sample comes once, but {most} and {least}."
            return Check(False, message, case_figure)
        within = result.per_worker.groupby("rank")["samples"].agg(["min", "max"])
        uneven = within[within["max"] - within["min"] > 1]
        if len(uneven):
            rank, (least, most) = uneven.index[0], uneven.iloc[0]
            message = f"every sample comes once, but of the workers of rank {rank} one has {most}"
            return Check(False, f"{case}: {message} and one has {least}.", case_figure)
        figure = figure or case_figure
    return Check(True, "Every sample once, shared evenly by all ranks and workers.", figure)
