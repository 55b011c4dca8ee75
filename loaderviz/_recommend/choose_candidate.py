"""The cheapest setting within noise of the best one, of those that fit into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loaderviz._recommend.candidate_settings import cheapness
from loaderviz._recommend.predict import Prediction
from loaderviz.loader_settings import LoaderSettings

NOISE = 0.015  # a smaller difference between two predictions from one recording tells nothing
MOST_SPREAD = 0.01  # at most this much of the spread between seeds counts as noise too
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
    fitting: Sequence[Prediction], measured: Mapping[LoaderSettings, float]
) -> Prediction:
    """The cheapest within noise of the fastest, by measured batches a second alone."""
    enough = (1 - NOISE) * max(measured.values())
    return _cheapest(
        [prediction for prediction in fitting if measured.get(prediction.setting, 0.0) >= enough]
    )


def is_as_good(prediction: Prediction, best: Prediction) -> bool:
    """Whether a prediction is slower than ``best`` by no more than noise, compared seed by seed."""
    ratio = best.batch_s / prediction.batch_s
    spread = min(float(np.std(ratio) / np.sqrt(len(ratio))), MOST_SPREAD)
    return float(np.mean(ratio)) + spread >= 1 - NOISE


def _cheapest(predictions: Sequence[Prediction]) -> Prediction:
    return min(predictions, key=lambda prediction: cheapness(prediction.setting))


def _fastest(predictions: Sequence[Prediction]) -> Prediction:
    return max(predictions, key=_batches_per_s)


def _batches_per_s(prediction: Prediction) -> float:
    return float(np.mean(1 / np.maximum(prediction.batch_s, 1e-12)))
