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
SCALES = 0.8  # of what each of fewer workers makes: so much each of many makes, and more would help
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
        for look in (_more_workers, _fewer_workers, _more_workers):
            known = {setting.num_workers for setting in batch_s}
            others = [each for each in eligible if each.setting.num_workers not in known]
            tried = list(look(chosen, others, batch_s))
            if tried:
                batch_s |= measure(loader, evidence, tried, run_s, epochs)
            if tried and look is _more_workers:
                break
    batch_s = measure_again(loader, evidence, batch_s, run_s, epochs)
    measured_s = _measured_s(batch_s, chosen)
    is_wrong = measured_s >= (1 + WRONG) * np.mean(chosen.batch_s)
    if not chosen.setting.num_workers or not is_wrong:
        return Verification(batch_s)
    if math.isinf(measured_s):
        limit = Limit("", text="a worker was killed, or no batch came in time")
        return Verification(batch_s, Contradiction(chosen.setting, limit))
    slower = _slower_with_few_too(chosen, eligible, batch_s)
    if slower is not None:
        return Verification(batch_s, Contradiction(chosen.setting, slower))
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


def _fewest(chosen: Prediction, batch_s: Mapping[LoaderSettings, Any]) -> LoaderSettings | None:
    """The fewest workers that were measured, at most half as many as ``chosen``; None for none.

    With more than half as many it would not show whether more of them help.
    """
    few = [each for each in batch_s if 0 < each.num_workers <= chosen.setting.num_workers / 2]
    return min(
        few, key=lambda each: (each.num_workers, float(np.mean(batch_s[each]))), default=None
    )


def _each_makes_as_much(chosen: Prediction, batch_s: Mapping[LoaderSettings, Any]) -> bool:
    """Whether each worker of ``chosen`` was measured to make about as much as each of few."""
    few = _fewest(chosen, batch_s)
    if few is None:
        return False
    worker_s = _measured_s(batch_s, chosen) * chosen.setting.num_workers
    return bool(SCALES * worker_s <= float(np.mean(batch_s[few])) * few.num_workers)


def _slower_with_few_too(
    chosen: Prediction, eligible: Sequence[Prediction], batch_s: Mapping[LoaderSettings, Any]
) -> Limit | None:
    """What is known where few workers fall as short of their prediction as many; else None."""
    fewest = _fewest(chosen, batch_s)
    if fewest is None or not _each_makes_as_much(chosen, batch_s):
        return None
    predicted_s = {each.setting: float(np.mean(each.batch_s)) for each in eligible}
    times = float(np.mean(batch_s[fewest])) / predicted_s[fewest]
    if times <= 1 + DISAPPOINTING:
        return None
    text = (
        f"a batch took {times:.1f} times as long as predicted with {fewest}, too, so that it is "
        "hardly for the number of workers: perhaps the machine was faster in the recording, or "
        "its samples were quicker"
    )
    return Limit("", text=text)


def _more_workers(
    chosen: Prediction, others: Sequence[Prediction], batch_s: Mapping[LoaderSettings, Any]
) -> Iterator[LoaderSettings]:
    """What to measure where more workers would do what ``chosen`` was predicted to.

    So many as that takes, where each makes about as much as each of few, and the next number.
    """
    if not _each_makes_as_much(chosen, batch_s):
        return
    longer = _measured_s(batch_s, chosen) / float(np.mean(chosen.batch_s))
    least = chosen.setting.num_workers * longer * (1 - ABOUT)
    enough = [each.setting for each in others if each.setting.in_order]
    for n in sorted({each.num_workers for each in enough if each.num_workers >= least})[:2]:
        yield min((each for each in enough if each.num_workers == n), key=cheapness)


def _fewer_workers(
    chosen: Prediction, others: Sequence[Prediction], batch_s: Mapping[LoaderSettings, Any]
) -> Iterator[LoaderSettings]:
    """What else to measure where ``chosen`` takes longer than predicted, two settings at most.

    The cheapest that would do as well if no more could be had than was measured at best, and one
    midway between both: there may be a peak. Where no few workers were measured, which tell whether
    more help, half as many are in its place. In place of no workers, the fastest if it is faster
    than was measured.
    """
    best_s = min(float(np.mean(each)) for each in batch_s.values())
    most = chosen.setting.num_workers
    if not most:
        fastest = min(others, key=lambda each: float(np.mean(each.batch_s)), default=chosen)
        if np.mean(fastest.batch_s) < (1 - ABOUT) * best_s:
            yield fastest.setting
        return
    fewer = [each for each in others if each.setting.num_workers < most and each.setting.in_order]
    enough = [each.setting for each in fewer if np.mean(each.batch_s) <= (1 + ABOUT) * best_s]
    least = min(enough, key=cheapness, default=None)
    if least is not None:
        yield least
    if _fewest(chosen, batch_s) is None and not (least and 0 < least.num_workers <= most / 2):
        few = [each.setting for each in fewer if 0 < each.setting.num_workers <= most / 2]
        if few:
            yield min(few, key=lambda each: (-each.num_workers, cheapness(each)))
    elif least is not None:
        middle = math.sqrt(max(least.num_workers, 1) * most)
        more = [setting for setting in enough if setting.num_workers > least.num_workers]
        if more:
            yield min(more, key=lambda each: (abs(each.num_workers - middle), cheapness(each)))
