"""How far a measure of one run could be off: the block bootstrap.

Batches of a loader come in bursts, a batch of each worker at a time, and their waits hang together.
So runs are put together anew from blocks of consecutive batches (Künsch, The Jackknife and the
Bootstrap for General Stationary Observations, 1989), each longer than such a burst. Few blocks
vary less than what they stand for; the interval is widened by what Student's t has over the normal
distribution.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from loaderviz._compare.measures import Measure

N_DRAWS: Final = 1000
MOST_BLOCKS: Final = 500  # more say no more, and take time
FEWEST_BLOCKS: Final = 8
LIMITS: Final = (2.5, 97.5)  # percentiles: 95 of 100 intervals hold the true value


def ratio(a: Measure, b: Measure, burst: int) -> tuple[float, float]:
    """The interval, at 95 %, of the ratio of b to a; NaN where the runs are too short to tell."""
    rng = np.random.default_rng(0)  # the same answer each time
    blocks = [_blocks(measure, burst) for measure in (a, b)]
    fewest = min(each.shape[1] for each in blocks)
    if fewest < FEWEST_BLOCKS:
        return math.nan, math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.log(_drawn(blocks[1], rng) / _drawn(blocks[0], rng))
        middle = np.log(np.float64(b.value) / np.float64(a.value))
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < N_DRAWS // 2:
        return math.nan, math.nan
    spread = np.percentile(drawn, LIMITS) - middle
    low, high = np.exp(middle + spread * _widening(fewest))
    return float(low), float(high)


def _blocks(measure: Measure, burst: int) -> Any:
    """The sums of the values and of the weights of each block: 2 x blocks."""
    n = len(measure.values)
    size = max(2 * burst, round(math.sqrt(n)), math.ceil(n / MOST_BLOCKS))
    n_blocks = n // size
    both = np.stack([measure.values, measure.weights])[:, : n_blocks * size]
    return both.reshape(2, n_blocks, size).sum(axis=2)


def _drawn(blocks: Any, rng: np.random.Generator) -> Any:
    """The measure in runs that are put together anew."""
    n_blocks = blocks.shape[1]
    values, weights = blocks[:, rng.integers(0, n_blocks, (N_DRAWS, n_blocks))].sum(axis=2)
    return values / weights


def _widening(n_blocks: int) -> float:
    """For an interval from so few blocks: one less is free, and t is wider (Cornish-Fisher)."""
    free = n_blocks - 1
    return math.sqrt(n_blocks / free) * (1 + (1.96**2 + 1) / (4 * free))
