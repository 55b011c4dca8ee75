"""Where a series of durations changes its level for good, and which of its values stand out.

Robust: ranks, medians and quantiles decide, so that one value of 3 s among many of 20 ms moves
nothing. Nothing here is measured against a number of seconds: what matters is said by the caller.

The change points are those of binary segmentation by the CUSUM statistic, with the noise taken
from differences along the series and the threshold of Fryzlewicz, *Wild binary segmentation for
multiple change-point detection* (Annals of Statistics, 2014). ``ruptures`` would add itself and
scipy for these thirty lines, and its PELT takes a penalty that has to be tuned to the noise.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final

import numpy as np

from loaderviz.array_types import Floats

# Median absolute deviations that a value is off the median: hyperfine's "modified Z-score" of 10
# (src/outlier_detection.rs, after Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
OUTLIER_MADS: Final = 14.826
THRESHOLD: Final = 1.3  # times sigma * sqrt(2 ln n): Fryzlewicz 2014, section 4.1
FAR: Final = 4  # blocks: as far apart, batches of one round of workers no longer vary together
FEWEST_IN_BLOCK: Final = 3  # values: the median of three is not moved by one of them
MOST_BLOCKS: Final = 128  # of a series: the place of a change is then found to the value
FEWEST_ASIDE: Final = 2  # blocks on either side of a change
FEWEST_BLOCKS: Final = 8  # of a series: of fewer differences nobody can tell the noise


def stands_out(values: Floats, reference: Floats) -> Any:
    """Whether each value is far above the reference's, by hyperfine's rule; False for NaN."""
    known = reference[~np.isnan(reference)]
    if not len(known):
        return np.zeros(len(values), bool)
    middle = np.median(known)
    return values - middle > OUTLIER_MADS * np.median(np.abs(known - middle))


def levels(values: Floats, matters: float) -> list[int]:
    """Where each level of a series begins; the first at 0.

    Levels next to one another differ in their medians by more than ``matters``, and the middle
    halves of their values do not overlap (as Barrett et al., *Virtual machine warmup blows hot and
    cold*, OOPSLA 2017, take segments for equal whose spreads overlap).

    Args:
        values: durations in order, without NaN; shape (n,).
        matters: a difference that is no larger is none, in the unit of the values.
    """
    n = len(values)
    size = max(FEWEST_IN_BLOCK, math.ceil(n / MOST_BLOCKS))
    n_blocks = n // size
    if n_blocks < FEWEST_BLOCKS or not matters > 0:
        return [0]
    first = n - n_blocks * size  # the values before it belong to the first block
    medians = np.median(values[first:].reshape(n_blocks, size), axis=1)
    # Durations vary in proportion to themselves; what is far below ``matters`` counts as equal.
    cuts = _segments(np.log(np.maximum(medians, 0.0) + matters))
    begins = [0, *(first + size * cut for cut in cuts)]
    begins = _merged(values, begins, matters)
    return _to_the_value(values, begins, size)


def _segments(x: Floats) -> list[int]:
    """The change points of ``x``, in order."""
    # Neighbours may vary together: so the noise is that of values some way apart. A change adds to
    # it, but to few differences.
    apart = max(1, min(FAR, len(x) // 4))
    sigma = math.sqrt(float(np.mean((x[apart:] - x[:-apart]) ** 2)) / 2)
    limit = max(THRESHOLD * sigma * math.sqrt(2 * math.log(len(x))), 1e-9)
    sums = np.append(0.0, np.cumsum(x))
    found, parts = [], [(0, len(x))]
    while parts:
        start, end = parts.pop()
        n = end - start
        left = np.arange(FEWEST_ASIDE, n - FEWEST_ASIDE + 1)
        if not len(left):
            continue
        before = (sums[start + left] - sums[start]) / left
        after = (sums[end] - sums[start + left]) / (n - left)
        cusum = np.abs(before - after) * np.sqrt(left * (n - left) / n)
        best = int(np.argmax(cusum))
        if cusum[best] > limit:
            cut = start + int(left[best])
            found.append(cut)
            parts += [(start, cut), (cut, end)]
    return sorted(found)


def _merged(values: Floats, begins: list[int], matters: float) -> list[int]:
    """Only those beginnings at which something changes that matters, the least first to go."""
    begins = [*begins]
    while len(begins) > 1:
        quartiles = [np.quantile(part, [0.25, 0.5, 0.75]) for part in np.split(values, begins[1:])]
        gaps = []
        for a, b in pairwise(quartiles):
            apart = max(a[0] - b[2], b[0] - a[2])
            gaps.append(float(abs(a[1] - b[1])) if apart > 0 else 0.0)
        least = int(np.argmin(gaps))
        if gaps[least] > matters:
            break
        del begins[least + 1]
    return begins


def _to_the_value(values: Floats, begins: list[int], size: int) -> list[int]:
    """The same beginnings, each moved to where its two levels fit their values best."""
    placed = [*begins]
    for i in range(1, len(begins)):
        end = begins[i + 1] if i + 1 < len(begins) else len(values)
        low, high = max(begins[i] - 2 * size, placed[i - 1] + 1), min(begins[i] + 2 * size, end)
        before = np.median(values[placed[i - 1] : begins[i]])
        after = np.median(values[begins[i] : end])
        around = values[low:high]
        costs = np.append(0.0, np.cumsum(np.abs(around - before) - np.abs(around - after)))
        placed[i] = low + int(np.argmin(costs))
    return placed
