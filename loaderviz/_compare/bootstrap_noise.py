"""How far a measure of one run could be off, by the block bootstrap.

Batches of a loader come in bursts, one batch of each worker, and waits within a burst are
correlated. So runs are resampled in blocks of consecutive batches, each longer than a burst
(Künsch, The Jackknife and the Bootstrap for General Stationary Observations, 1989). Few blocks vary
less than the run that they are drawn from; so the interval is widened, as Student's t is wider than
the normal distribution.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from loaderviz._compare.measures import Measure

N_DRAWS: Final = 1000
MAX_BLOCKS: Final = 500  # more take time and make the interval no better
MIN_BLOCKS: Final = 8
PERCENTILES: Final = (2.5, 97.5)  # 95 of 100 such intervals hold the true value


def ratio_interval(a: Measure, b: Measure, burst_batches: int) -> tuple[float, float]:
    """The ends of the 95 % interval of the ratio of b to a; NaN where the runs are too short."""
    rng = np.random.default_rng(0)  # the same answer each time
    blocks_a, blocks_b = (_block_sums(measure, burst_batches) for measure in (a, b))
    n_blocks = min(blocks_a.shape[1], blocks_b.shape[1])
    if n_blocks < MIN_BLOCKS:
        return math.nan, math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratios = np.log(_resample(blocks_b, rng) / _resample(blocks_a, rng))
        log_ratio = np.log(np.float64(b.value) / np.float64(a.value))
    log_ratios = log_ratios[np.isfinite(log_ratios)]
    if len(log_ratios) < N_DRAWS // 2:
        return math.nan, math.nan
    spread = np.percentile(log_ratios, PERCENTILES) - log_ratio
    low, high = np.exp(log_ratio + spread * _widening(n_blocks))
    return float(low), float(high)


def _block_sums(measure: Measure, burst_batches: int) -> Any:
    """The sums of the values and of the weights of each block: shape (2, number of blocks)."""
    n = len(measure.values)
    size = max(2 * burst_batches, round(math.sqrt(n)), math.ceil(n / MAX_BLOCKS))
    n_blocks = n // size
    columns = np.stack([measure.values, measure.weights])[:, : n_blocks * size]
    return columns.reshape(2, n_blocks, size).sum(axis=2)


def _resample(blocks: Any, rng: np.random.Generator) -> Any:
    """The measure of each of ``N_DRAWS`` runs that are drawn from the blocks, with replacement."""
    n_blocks = blocks.shape[1]
    values, weights = blocks[:, rng.integers(0, n_blocks, (N_DRAWS, n_blocks))].sum(axis=2)
    return values / weights


def _widening(n_blocks: int) -> float:
    """The factor that makes an interval wide enough for so few blocks.

    Their variance has one degree of freedom less, and t is wider than normal (Cornish-Fisher).
    """
    freedom = n_blocks - 1
    return math.sqrt(n_blocks / freedom) * (1 + (1.96**2 + 1) / (4 * freedom))
