"""The measurement of a recommended setting beside the present one, and what to try if it fails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._recommend.bottleneck import Limit
from loaderviz._recommend.candidate_settings import cheapness
from loaderviz._recommend.choose_candidate import choose
from loaderviz._recommend.contradiction import Contradiction, explain
from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.measure_candidates import (
    may_be_run,
    measure,
    measure_again,
    record_run,
)
from loaderviz._recommend.predict import Prediction
from loaderviz.loader_settings import LoaderSettings

DISAPPOINTING = 0.1  # longer than predicted: perhaps another setting is better
NEARLY = 0.1  # longer than the chosen one: as good, by how well so short a recording tells
RIVAL = 0.5  # longer than the best: that may be the error of two predictions
WRONG = 0.25  # longer than predicted: something is at work that the prediction does not know
ABOUT = 0.05  # of the throughput: a prediction that is this near reaches it
SECONDS = 0.3  # of those of the recording: a run


@dataclass(frozen=True)
class Verification:
    """Seconds a batch of each run, by setting; and what spoke against the prediction, if it did."""

    batch_s: Mapping[LoaderSettings, Any] = field(default_factory=dict)
    contradiction: Contradiction | None = None


def verify(
    loader: DataLoader[Any],
    evidence: Evidence,
    chosen: Prediction,
    eligible: Sequence[Prediction],
    *,
    seconds: float,
    epochs: int,
) -> Verification:
    """Measure the present and the chosen setting, and others where these may not be the best.

    Args:
        loader: it is left as it was.
        evidence: of the recording that the predictions rest on.
        chosen: the setting that is predicted to be the best.
        eligible: predictions of all settings that may be run.
        seconds: of the recording; each setting runs twice, for 0.3 of them, and the best of them
            three times more where their runs differ.
        epochs: how often the loop goes through the loader.

    Raises:
        Exception: whatever the loader or its dataset raises, unchanged.
    """
    run_s = SECONDS * seconds
    eligible = [each for each in eligible if may_be_run(each.setting)]
    wanted = {evidence.present, chosen.setting, *_rivals(chosen, eligible)}
    first = [each.setting for each in eligible if each.setting in wanted]
    batch_s = measure(loader, evidence, first, run_s, epochs) if first else {}
    if _measured_s(batch_s, chosen) > (1 + DISAPPOINTING) * np.mean(chosen.batch_s):
        known = {setting.num_workers for setting in batch_s}
        others = [each for each in eligible if each.setting.num_workers not in known]
        best_s = min(float(np.mean(each)) for each in batch_s.values())
        tried = list(_to_try(chosen, others, best_s))
        if tried:
            batch_s |= measure(loader, evidence, tried, run_s, epochs)
    batch_s = measure_again(loader, evidence, batch_s, run_s, epochs)
    measured_s = _measured_s(batch_s, chosen)
    is_wrong = measured_s >= (1 + WRONG) * np.mean(chosen.batch_s)
    if not chosen.setting.num_workers or not is_wrong:
        return Verification(batch_s)
    if math.isinf(measured_s):
        limit = Limit("", text="a worker was killed, or no batch came in time")
        return Verification(batch_s, Contradiction(chosen.setting, limit))
    trace = record_run(loader, evidence, chosen.setting, run_s / 2)
    return Verification(batch_s, explain(evidence, chosen.setting, trace))


def _measured_s(batch_s: Mapping[LoaderSettings, Any], chosen: Prediction) -> float:
    """Mean seconds a batch of a setting; NaN where it was not measured."""
    return float(np.mean(batch_s.get(chosen.setting, math.nan)))


def _rivals(chosen: Prediction, eligible: Sequence[Prediction]) -> Iterator[LoaderSettings]:
    """What may be as good, for all that predictions tell: the cheapest that is nearly as fast.

    And the best with as few workers: to prefetch more costs less than more workers do. And the best
    with workers, where none are predicted to be better, though not by far: these two predictions
    rest on different recordings, between which the machine may have changed.
    """
    with_workers = [each for each in eligible if each.setting.num_workers and each.setting.in_order]
    chosen_s = float(np.mean(chosen.batch_s))
    nearly = [each for each in with_workers if np.mean(each.batch_s) < (1 + NEARLY) * chosen_s]
    if chosen.setting.num_workers and nearly:
        cheapest = min((each.setting for each in nearly), key=cheapness)
        yield cheapest
        as_few = cheapest.num_workers
        yield choose([each for each in nearly if each.setting.num_workers == as_few]).setting
    elif with_workers:
        best = choose(with_workers)
        if np.mean(best.batch_s) < (1 + RIVAL) * chosen_s:
            yield best.setting


def _to_try(
    chosen: Prediction, others: Sequence[Prediction], best_s: float
) -> Iterator[LoaderSettings]:
    """What else to measure where ``chosen`` takes longer than predicted, two settings at most.

    The cheapest that would do as well if no more could be had than the ``best_s`` seconds a batch
    that were measured, and one midway between both: there may be a peak. In place of no workers,
    the fastest if it is faster than was measured.
    """
    most = chosen.setting.num_workers
    if not most:
        fastest = min(others, key=lambda each: float(np.mean(each.batch_s)), default=chosen)
        if np.mean(fastest.batch_s) < (1 - ABOUT) * best_s:
            yield fastest.setting
        return
    enough = [
        each.setting
        for each in others
        if each.setting.num_workers < most
        and each.setting.in_order
        and np.mean(each.batch_s) <= (1 + ABOUT) * best_s
    ]
    if not enough:
        return
    least = min(enough, key=cheapness)
    yield least
    middle = math.sqrt(max(least.num_workers, 1) * most)
    more = [setting for setting in enough if setting.num_workers > least.num_workers]
    if more:
        yield min(more, key=lambda each: (abs(each.num_workers - middle), cheapness(each)))
