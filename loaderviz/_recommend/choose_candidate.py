"""The cheapest setting within noise of the best one, of those that fit into memory."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loaderviz._recommend.candidate_settings import cheapness
from loaderviz._recommend.predict import Prediction
from loaderviz.loader_settings import LoaderSettings

NOISE = 0.015  # a smaller difference between two predictions from one recording tells nothing
MOST_SPREAD = 0.01  # at most this much of the spread between seeds counts as noise too
MEASURED_NOISE = 0.02  # a smaller difference between two that were measured tells nothing
MOST_MEASURED_SPREAD = 0.01  # ... of the error of their means: 3 % at most are given up in all
CONTRADICTED_SPREAD = 0.02  # ... which is taken to be as much where more workers did not help
NEAR = 0.1  # longer than the best that was measured: it may be the best after all
PREDICTED_ERROR = 0.03  # of the ratio of two predictions (benchmarks/RESULTS.md, `fidelity.py`)
MOST_ERROR = 0.1  # of that mean: where so few batches were seen, predictions are as unsure
ORDER_IS_WORTH = 0.05  # the order of the batches is given up for a larger gain than this


def choose(fitting: Sequence[Prediction]) -> Prediction:
    """The cheapest within noise of the fastest; out of order only where that gains enough.

    ``fitting`` are predictions that fit into memory, the one without workers among them.
    """
    in_order = [prediction for prediction in fitting if prediction.setting.in_order]
    pool = in_order
    if _batches_per_s(_fastest(fitting)) > (1 + ORDER_IS_WORTH) * _batches_per_s(
        _fastest(in_order)
    ):
        pool = list(fitting)
    best = _fastest(pool)
    return _cheapest([prediction for prediction in pool if is_as_good(prediction, best)])


def choose_measured(
    chosen: Prediction,
    eligible: Sequence[Prediction],
    batch_s: Mapping[LoaderSettings, Any],
    *,
    error: float = 0.0,
    contradicted: bool = False,
) -> Prediction:
    """The cheapest within noise of the fastest, by the measured seconds a batch of each run.

    Where predictions agree with them they count, too, the more so the fewer batches tell the mean
    time of one: ``error`` is the standard error of that, as a part of it. Out of order only where
    that gains enough. It stays with the ``chosen`` one where that could not be measured, or none
    delivered a batch. Where the measurement has ``contradicted`` that more workers help, more of a
    difference between a few short runs is taken for noise.
    """
    if error and not contradicted:
        batch_s = _with_predictions(eligible, batch_s, error)
    least_spread = CONTRADICTED_SPREAD if contradicted else 0.0

    def fastest_s(of: Sequence[Prediction]) -> Any:
        times = (batch_s[each.setting] for each in of)
        return min(times, key=np.mean, default=np.array(math.inf))

    pool = [each for each in eligible if each.setting in batch_s]
    in_order = [each for each in pool if each.setting.in_order]
    if chosen not in pool or np.isinf(fastest_s(pool)).all():
        return chosen
    if np.mean(fastest_s(in_order)) <= (1 + ORDER_IS_WORTH) * np.mean(fastest_s(pool)):
        pool = in_order
    best_s = fastest_s(pool)
    return _cheapest(
        [each for each in pool if _is_measured_as_good(batch_s[each.setting], best_s, least_spread)]
    )


def _with_predictions(
    predictions: Sequence[Prediction], batch_s: Mapping[LoaderSettings, Any], error: float
) -> Mapping[LoaderSettings, Any]:
    """Measured seconds a batch, moved towards the predicted ones, each by how well it is known.

    A short run sees few samples, and which settings a rare slow one holds up is chance; a
    prediction lets many of them pass. Where some settings fall short of theirs and others do not,
    it is wrong about something, and only the measurements count.
    """
    best_s = min(map(np.mean, batch_s.values()), default=math.inf)
    near = [
        each
        for each in predictions
        if each.setting in batch_s and np.mean(batch_s[each.setting]) < (1 + NEAR) * best_s
    ]
    error = min(error, MOST_ERROR)
    off = [float(np.mean(each.batch_s) / np.mean(batch_s[each.setting])) for each in near]
    agree = 2 * math.hypot(error, PREDICTED_ERROR)  # two standard errors
    if not off or max(off) > (1 + agree) * min(off):
        return batch_s
    usual = statistics.geometric_mean(off)  # the machine may be slower now than in the recording
    part = error**2 / (error**2 + PREDICTED_ERROR**2)
    mixed = {
        each.setting: batch_s[each.setting] ** (1 - part)
        * float(np.mean(each.batch_s) / usual) ** part
        for each in near
    }
    return {**batch_s, **mixed}


def is_as_good(prediction: Prediction, best: Prediction) -> bool:
    """Whether a prediction is slower than ``best`` by no more than noise, compared seed by seed."""
    ratio = best.batch_s / prediction.batch_s
    spread = min(float(np.std(ratio) / np.sqrt(len(ratio))), MOST_SPREAD)
    return float(np.mean(ratio)) + spread >= 1 - NOISE


def _is_measured_as_good(batch_s: Any, best_s: Any, least_spread: float) -> bool:
    """The same of two that were measured, by the means of their runs and the errors of these."""
    errors = math.hypot(_error(batch_s), _error(best_s))
    spread = max(min(errors, MOST_MEASURED_SPREAD), least_spread)
    return float(np.mean(best_s) / np.mean(batch_s)) + spread >= 1 - MEASURED_NOISE


def _error(batch_s: Any) -> float:
    """The standard error of the mean, as a part of it; 0 where a run gave no batch."""
    if len(batch_s) < 2 or np.isinf(batch_s).any():
        return 0.0
    return float(np.std(batch_s, ddof=1) / math.sqrt(len(batch_s)) / np.mean(batch_s))


def _cheapest(predictions: Sequence[Prediction]) -> Prediction:
    return min(predictions, key=lambda prediction: cheapness(prediction.setting))


def _fastest(predictions: Sequence[Prediction]) -> Prediction:
    return max(predictions, key=_batches_per_s)


def _batches_per_s(prediction: Prediction) -> float:
    return float(np.mean(1 / np.maximum(prediction.batch_s, 1e-12)))
