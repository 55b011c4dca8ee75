"""What is compared: for each measure a value and a weight of every batch, from a trace's tables.

A measure of a run is ``sum(values) / sum(weights)``, so that seconds a sample, or waiting as a
share of all time, are right for batches of any size. How far it could be off is found by the block
bootstrap: batches of a loader come in bursts, one batch of each worker, and waits within a burst
are correlated. So runs are resampled in blocks of consecutive batches, each longer than a burst
(Künsch, The Jackknife and the Bootstrap for General Stationary Observations, 1989). Few blocks vary
less than the run that they are drawn from; so the interval is widened, as Student's t is wider than
the normal distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.trace.described_loaders import as_the_loop_sees_it, unseen
from loaderviz.trace.steps import groups, step_ends
from loaderviz.why.attribution import CAUSES, attribute
from loaderviz.why.notes import READ_AHEAD

if TYPE_CHECKING:
    from loaderviz.trace import Trace

N_DRAWS: Final = 1000
MAX_BLOCKS: Final = 500  # more take time and make the interval no better
MIN_BLOCKS: Final = 8
PERCENTILES: Final = (2.5, 97.5)  # 95 of 100 such intervals hold the true value
_COLUMNS = (
    *("rank", "loader", "epoch", "worker", "n_samples", "started_s", "collate_s", "ready_s"),
    *("requested_s", "delivered_s", "released_s", "cpu_s"),
)


@dataclass(frozen=True)
class Measure:
    """One quantity of a run, with an entry for each batch in the order of delivery.

    Attributes:
        name: what is measured, in words.
        unit: ``1/s``, ``s``, or ``share`` for 0 to 1.
        more_is_better: whether a larger value is an improvement.
        values: float, one for each batch: samples or seconds.
        weights: float, one for each batch: what its value is divided by; 0 leaves the batch out.
    """

    name: str
    unit: str
    more_is_better: bool
    values: Any
    weights: Any

    @property
    def value(self) -> float:
        """The measure of the whole run, in ``unit``; NaN where no batch has a weight."""
        total_weight = float(self.weights.sum())
        return float(self.values.sum()) / total_weight if total_weight > 0 else np.nan


def measures(trace: Trace) -> list[Measure]:
    """The measures of the delivered batches, without the first batch of each epoch.

    The last ones are causes of waiting, in the order of ``CAUSES``: they add up to the wait for a
    batch. As shares of all time, those that stay would look worse where the others went.

    The first one waits for workers to start and for the pipeline to fill, which is a larger share
    of a short run than of a long one.

    Raises:
        LoaderVizError: where the loop was not seen to ask for its batches.
    """
    trace = as_the_loop_sees_it(trace)
    if unseen(trace):
        raise LoaderVizError(READ_AHEAD)
    batches = {column: trace.batches[column].to_numpy() for column in _COLUMNS}
    delivered = np.flatnonzero(~np.isnan(batches["delivered_s"] - batches["requested_s"]))
    attribution = attribute(trace)
    waits = attribution.row >= 0
    caused_s = np.zeros((len(batches["rank"]), len(CAUSES)))
    caused_s[attribution.row[waits]] = attribution.seconds[waits]
    by_time = np.lexsort((batches["delivered_s"][delivered], batches["rank"][delivered]))
    order = delivered[by_time]
    batches = {column: values[order] for column, values in batches.items()}
    epoch = groups(*(batches[column] for column in ("rank", "loader", "epoch")))
    is_first = np.zeros(len(order), bool)
    is_first[np.unique(epoch, return_index=True)[1]] = True
    step_end_s = step_ends(batches)[~is_first]
    caused_s = caused_s[order][~is_first]
    later = {column: values[~is_first] for column, values in batches.items()}
    wait_s = np.nan_to_num(later["delivered_s"] - later["requested_s"])
    step_s = step_end_s - later["delivered_s"]
    n_samples = later["n_samples"].astype(float)
    ones = np.ones(len(n_samples))
    was_timed = ~np.isnan(later["started_s"]) & ~np.isnan(later["ready_s"])
    collate_s = np.where(np.isnan(later["collate_s"]), later["ready_s"], later["collate_s"])
    read_s = collate_s - later["started_s"]
    collating_s = later["ready_s"] - collate_s
    return [
        Measure("samples a second", "1/s", True, n_samples, wait_s + step_s),
        Measure("time spent waiting", "share", False, wait_s, wait_s + step_s),
        Measure("wait for a batch", "s", False, wait_s, ones),
        Measure("step", "s", False, step_s, ones),
        Measure("reading a sample", "s", False, *_only_where(was_timed, read_s, n_samples)),
        Measure("collating a batch", "s", False, *_only_where(was_timed, collating_s, ones)),
        Measure("CPU time of a batch", "s", False, *_only_where(was_timed, later["cpu_s"], ones)),
        *(
            Measure(f"waiting: {cause}", "s", False, caused_s[:, column], ones)
            for column, cause in enumerate(CAUSES)
        ),
    ]


def _only_where(condition: Any, values: Any, weights: Any) -> tuple[Any, Any]:
    """Values and weights, both 0 where the condition does not hold or the value is NaN."""
    is_known = condition & ~np.isnan(values)
    return np.where(is_known, values, 0.0), np.where(is_known, weights, 0.0)


def ratio_interval(a: Measure, b: Measure, burst_batches: int) -> tuple[float, float]:
    """The ends of the 95 % interval of the ratio of b to a; NaN where the runs are too short."""
    rng = np.random.default_rng(0)  # the same answer each time
    blocks_a, blocks_b = (_block_sums(measure, burst_batches) for measure in (a, b))
    n_blocks = min(blocks_a.shape[1], blocks_b.shape[1])
    if n_blocks < MIN_BLOCKS:
        return math.nan, math.nan
    if not b.value and (blocks_a[0] > 0).all():
        return 0.0, 0.0  # all of it has gone
    if not a.value and (blocks_b[0] > 0).all():
        return math.inf, math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratios = np.log(_resample(blocks_b, rng) / _resample(blocks_a, rng))
        log_ratio = np.log(np.float64(b.value) / np.float64(a.value))
    log_ratios = log_ratios[np.isfinite(log_ratios)]
    if len(log_ratios) < N_DRAWS // 2:
        return math.nan, math.nan
    low, high = np.percentile(log_ratios, PERCENTILES) - log_ratio
    spread = np.array([min(low, 0.0), max(high, 0.0)])  # what was measured is within it
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
