"""What a loop keeps that it should not: the batches of an epoch, or workers of loaders before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from loaderviz.trace.merge.run_meta import loader_description

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

FEWEST_STARTS: Final = 3  # that show that workers pile up: two may be those of neighbours
SHOWN: Final = 6  # starts at most


def is_cycled(trace: Trace, loader: int) -> bool:
    """Whether ``itertools.cycle`` keeps the batches of its first epoch, and replays them."""
    return loader_description(trace.meta, loader).get("cycled") is True


def piled_up(trace: Trace, loader: int) -> list[int]:
    """How many workers of a loader lived each time that it had started some; those of one rank.

    Empty where they do not pile up: ``trace`` is from ``as_one``, so that the workers of a loader
    that is made anew at one line of code are here, whatever their number was.
    """
    workers = trace.workers[trace.workers["loader"] == loader]
    workers = workers[workers["rank"] == workers["rank"].min()]
    workers = workers[workers["started_s"].notna()]
    started_s, ended_s = workers["started_s"].to_numpy(), workers["ended_s"].to_numpy()
    n_starts = len(started_s) // max(1, workers["worker"].nunique())
    if n_starts < FEWEST_STARTS:
        return []
    last_s = [float(part[-1]) for part in np.array_split(np.sort(started_s), n_starts)]
    living = [int(((started_s <= at_s) & ~(ended_s <= at_s)).sum()) for at_s in last_s]
    return living if (np.diff(living) > 0).all() else []
