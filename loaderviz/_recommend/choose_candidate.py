"""The cheapest setting within noise of the best one, of those that fit into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loaderviz._recommend.candidate_settings import cost
from loaderviz._recommend.predict import Prediction
from loaderviz.loader_settings import LoaderSettings

NOISE = 0.015  # a smaller difference between two predictions from one recording tells nothing
MOST_SPREAD = 0.01  # of it between seeds that is taken for noise too
ORDER_IS_WORTH = 0.05  # a gain that is larger may cost the order of the batches


def choose(fitting: Sequence[Prediction]) -> Prediction:
    """Of predictions that fit into memory; that without workers always does."""
    in_order = [each for each in fitting if each.setting.in_order]
    pool = in_order
    if _rate(_best(fitting)) > (1 + ORDER_IS_WORTH) * _rate(_best(in_order)):
        pool = list(fitting)
    best = _best(pool)
    return min((each for each in pool if as_good(each, best)), key=lambda each: cost(each.setting))


def choose_measured(
    fitting: Sequence[Prediction], measured: Mapping[LoaderSettings, float]
) -> Prediction:
    """The same among those that were measured, by that alone; in batches a second."""
    best = max(measured.values())
    good = [each for each in fitting if measured.get(each.setting, 0.0) >= (1 - NOISE) * best]
    return min(good, key=lambda each: cost(each.setting))


def as_good(one: Prediction, best: Prediction) -> bool:
    """Whether it is hardly slower, seed by seed."""
    ratio = best.batch_s / one.batch_s
    spread = min(float(np.std(ratio) / np.sqrt(len(ratio))), MOST_SPREAD)
    return float(np.mean(ratio)) + spread >= 1 - NOISE


def _best(predictions: Sequence[Prediction]) -> Prediction:
    return max(predictions, key=_rate)


def _rate(prediction: Prediction) -> float:
    return float(np.mean(1 / np.maximum(prediction.batch_s, 1e-12)))
