"""The ratio of two sums over batches, and how far it could be off: the block bootstrap.

Batches come in bursts, one of each worker, and what they take is correlated: so blocks of
consecutive batches are drawn, each longer than a burst (Künsch, The Jackknife and the Bootstrap for
General Stationary Observations, 1989).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

Range = tuple[float, float]

N_DRAWS: Final = 400  # the ends of the interval then move by a tenth of its width
FEWEST_BLOCKS: Final = 4  # of fewer, hardly any draw differs
PERCENTILES: Final = (2.5, 97.5)


def ratio(values: Any, weights: Any) -> float:
    """The sum of the values over that of the weights; NaN where there are none."""
    total = float(np.sum(weights))
    return float(np.sum(values)) / total if total > 0 else math.nan


def ratio_range(values: Any, weights: Any, burst: int) -> Range:
    """The 95 % interval of ``ratio(values, weights)``; NaN where too few are there to tell.

    Args:
        values: of each batch, in order; shape (n,).
        weights: as many.
        burst: how many batches come together, one of each worker.
    """
    n = len(values)
    size = max(burst, round(math.sqrt(n) / 2), 1)
    n_blocks = n // size
    if n_blocks < FEWEST_BLOCKS:
        return math.nan, math.nan
    rest = n - n_blocks * size
    sums = np.stack([values, weights])[:, rest:].reshape(2, n_blocks, size).sum(axis=2)
    rng = np.random.default_rng(0)  # the same answer each time
    drawn = sums[:, rng.integers(0, n_blocks, (N_DRAWS, n_blocks))].sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.nanpercentile(drawn[0] / drawn[1], PERCENTILES)
    middle, of_blocks = ratio(values, weights), ratio(*sums)
    # Few blocks vary less than the run that they are drawn from: n - 1 degrees of freedom.
    wider = math.sqrt(n_blocks / (n_blocks - 1))
    return middle - wider * (of_blocks - float(low)), middle + wider * (float(high) - of_blocks)
