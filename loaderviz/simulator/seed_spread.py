"""``band``: how far runs of the same settings differ because ties and small delays decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.argument_checks import whole_number
from loaderviz.simulator.costs import Costs
from loaderviz.simulator.simulate import simulate


@dataclass(frozen=True)
class Band:
    """The least, median and most seconds of the loop over several seeds.

    They count from the start of the loop to the end of its last step.
    """

    low_s: float
    median_s: float
    high_s: float
    seeds: int


def band(costs: Costs, *, seeds: int = 8, **settings: Any) -> Band:
    """The spread of the loop's time over ``seeds`` simulations, with the seeds 1, 2, 3, ...

    >>> band(costs, num_workers=4, batch_size=8, n_batches=100, in_order=False)

    With ``in_order=False`` the next task goes to a worker that has room, and which one has can be
    a matter of microseconds (torch/utils/data/dataloader.py, ``_try_put_index``).

    Args:
        costs: what the work takes.
        seeds: how many simulations.
        settings: as in ``simulate``, without its ``seed``.

    Raises:
        LoaderVizError: as ``simulate`` does, and for ``seeds`` below 1.
    """
    seeds = whole_number("seeds", seeds, at_least=1)
    took_s = [
        float(np.nanmax(simulate(costs, **settings, seed=seed).batches["released_s"]))
        for seed in range(1, seeds + 1)
    ]
    return Band(min(took_s), float(np.median(took_s)), max(took_s), seeds)
