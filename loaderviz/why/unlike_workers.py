"""Workers that are unlike: one takes longer for each of its samples than the others.

What they did does not tell what another number of workers would do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas as pd

FEWEST_BATCHES: Final = 6  # of each worker: fewer do not tell its pace
SLOW: Final = 2.0  # times as long as each of the others: more than CPUs differ


def slow_worker(batches: pd.DataFrame) -> tuple[int, float] | None:
    """The worker that takes far longer for a sample than every other, and how many times as long.

    ``batches`` are those of one loader in one rank. None where workers are alike, or it is not
    known. A quarter of its batches may be as quick as those of others, and not more.
    """
    read = batches[batches["worker"] >= 0].dropna(subset=["started_s", "collate_s"])
    each_s = (read["collate_s"] - read["started_s"]) / read["n_samples"].clip(lower=1)
    workers = read["worker"].unique()
    if len(workers) < 2:
        return None
    by_worker = each_s.groupby(read["worker"])
    medians = by_worker.median()
    slowest = int(medians.index[int(medians.argmax())])
    others = medians.drop(slowest)
    far = medians[slowest] > SLOW * others.max()
    apart = by_worker.quantile(0.25)[slowest] > by_worker.quantile(0.75).drop(slowest).max()
    if by_worker.count().min() < FEWEST_BATCHES or not (far and apart):
        return None
    return slowest, float(medians[slowest] / others.median())
