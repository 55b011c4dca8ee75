"""``recommend``: the settings that a loader should have, from one short recording of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._recommend import memory_budget, recommendation_text
from loaderviz._recommend.advice_notes import notes
from loaderviz._recommend.bottleneck import find_limit
from loaderviz._recommend.candidate_settings import default_max_workers, settings_to_try
from loaderviz._recommend.candidate_table import candidates, uncertainty
from loaderviz._recommend.choose_candidate import choose, choose_measured
from loaderviz._recommend.evidence import Evidence, evidence_from_trace
from loaderviz._recommend.predict import predict
from loaderviz._recommend.recommendation import Recommendation
from loaderviz._recommend.trial_recording import record_trial
from loaderviz._recommend.verify_prediction import Verification, verify
from loaderviz.argument_checks import whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.describe_loader import dataloader_behind, foreign_loader_error
from loaderviz.trace import Trace

SECONDS = 3.0


def recommend(
    loader_or_trace: DataLoader[Any] | Trace,
    *,
    step_s: float | None = None,
    step_cpu_share: float = 0.0,
    epochs: int | None = None,
    n_batches: int | None = None,
    max_workers: int | None = None,
    seconds: float = SECONDS,
    verify: bool = True,
    loader: int | None = None,
) -> Recommendation:
    """The cheapest settings within noise of the fastest: predicted, and measured on a loader.

    >>> recommendation = recommend(loader, step_s=0.02)
    >>> print(recommendation)
    >>> DataLoader(dataset, batch_size=32, **recommendation.settings)

    A loader is recorded here, in a copy with one worker (two for an iterable-style dataset) and
    without steps; on Linux also for a short while without workers, in a copy of this process. What
    will run is printed first. Afterwards the loader itself and the random generators of torch,
    NumPy, ``random`` and the loader are as before. A trace is taken as it is.

    Then every number of workers, ``prefetch_factor`` and ``in_order``, and with several epochs
    ``persistent_workers``, is simulated. Fewest workers come first, then plain options:
    ``in_order=False`` is recommended only where it gains 5 % or more. ``pin_memory`` and all other
    options stay as they are.

    A prediction is no promise: samples of more workers may wait for one another, which no recording
    of one worker shows. So the loader's own settings, the best ones, the cheapest that are nearly
    as fast and the best with as few workers are run in turns. Where the gain is not there, one or
    two settings with more workers are run, if each worker makes as much as each of few, else with
    fewer. The best as measured is recommended, and ``limits`` says
    what the measurement shows. Where few batches of uneven times were seen, predictions that agree
    with the measurements count beside them. Of a trace nothing can be measured: ``low_per_s`` of
    the candidates and the notes say what it leaves open.

    Args:
        loader_or_trace: a ``DataLoader``, or a ``Trace`` of one, as ``record`` makes it.
        step_s: seconds that the model takes for a batch. None: as recorded in the trace; for a
            loader no step at all, so that the fastest loading is recommended.
        step_cpu_share: the part of a step, 0 to 1, that keeps a CPU busy: 0 for a step on a GPU.
        epochs: how often the loop goes through the loader. None: as often as the trace shows; once
            through a loader.
        n_batches: batches of an epoch, where neither the loader nor the trace tells, or where the
            loop ends earlier.
        max_workers: the most workers to try. None: twice the CPUs, at least 16.
        seconds: how long to record a loader from its first batch, and a quarter of that without
            workers; with ``verify``, each setting runs twice, for 0.3 of that or until each worker
            has made six batches (uneven ones: until as many came as were recorded), and the best of
            them three times more (uneven: once) where runs of the same setting differ, as on a busy
            machine. Where no batch comes in ten times as long, it gives up.
        verify: whether to measure a loader, at most eight settings, with steps of that length.
            Without workers a copy of this process runs, which only Linux can make.
        loader: which loader of a trace that holds several. None: the one that is waited for most;
            ``notes`` names it and others.

    Returns:
        A ``Recommendation``: ``settings``, ``code``, ``limits``, ``notes``, ``candidates``;
        ``print`` it, or ``figure()``.

    Raises:
        LoaderVizError: for an argument that is neither a loader nor a trace, a bad number, a loader
            that delivers no batch in time, a trace without a batch or
            without that loader, or ``seconds`` for a trace.
        Exception: whatever else the loader or its dataset raises, unchanged.
    """
    _check(step_s=step_s, step_cpu_share=step_cpu_share, seconds=seconds)
    if epochs is not None:
        whole_number("epochs", epochs, at_least=1)
    if n_batches is not None:
        whole_number("n_batches", n_batches, at_least=1)
    if max_workers is not None:
        whole_number("max_workers", max_workers, at_least=1)
    options: dict[str, Any] = {
        "step_s": step_s,
        "step_cpu_share": step_cpu_share,
        "n_batches": n_batches,
    }
    if isinstance(loader_or_trace, Trace):
        if seconds != SECONDS:
            raise LoaderVizError(
                f"seconds={seconds!r} is for a loader that can be run: pass the loader instead of "
                "its trace, or leave it out"
            )
        evidence = evidence_from_trace(loader_or_trace, loader=loader, **options)
        return _advise(evidence, epochs or evidence.epochs, max_workers)
    data_loader = _data_loader(loader_or_trace, loader)
    evidence = record_trial(data_loader, seconds, **options)
    return _advise(evidence, epochs or 1, max_workers, data_loader if verify else None, seconds)


def _advise(
    evidence: Evidence,
    epochs: int,
    max_workers: int | None,
    loader: DataLoader[Any] | None = None,
    seconds: float = SECONDS,
) -> Recommendation:
    """Where a ``loader`` is given, what is predicted to be the best is measured on it."""
    if loader is not None:  # what was seen of two workers at most is measured instead
        evidence = replace(evidence, shared=False)
    free_bytes = memory_budget.FreeBytes.now()
    most_workers = max_workers if max_workers is not None else default_max_workers(evidence.cores)
    tried = settings_to_try(1 if evidence.naive else most_workers, epochs, evidence.present)
    predictions = predict(evidence, tried, epochs)
    fitting = [
        prediction
        for prediction in predictions
        if memory_budget.fits(evidence, prediction.setting, free_bytes)
    ]
    eligible = [
        prediction
        for prediction in fitting
        if prediction.setting.num_workers <= _most_of_use(evidence)
        and (prediction.setting.num_workers or loader is not None or not evidence.main_is_kept)
    ]
    by_setting = {prediction.setting: prediction for prediction in predictions}
    chosen = choose(eligible)
    measured = Verification()  # of nothing
    if loader is not None:
        measured = verify(loader, evidence, chosen, eligible, seconds=seconds, epochs=epochs)
        chosen = choose_measured(
            chosen,
            eligible,
            measured.batch_s,
            error=evidence.error / 2,
            contradicted=measured.contradiction is not None,
        )
    outcome = recommendation_text.Outcome(
        evidence=evidence,
        chosen=chosen,
        limit=measured.contradiction.limit
        if measured.contradiction
        else find_limit(evidence, chosen, epochs),
        predictions=predictions,
        fitting=fitting,
        present=by_setting[evidence.present],
        free_bytes=free_bytes,
        epochs=epochs,
        most_workers=most_workers,
        measured={
            setting: float(1 / np.mean(batch_s)) for setting, batch_s in measured.batch_s.items()
        },
        contradiction=measured.contradiction,
    )
    return _recommendation(outcome)


def _most_of_use(evidence: Evidence) -> float:
    """How many workers may be of use: more only repeat samples, or wait for one another."""
    if evidence.naive:
        return 1
    return evidence.n_readers if evidence.shared else math.inf


def _recommendation(outcome: recommendation_text.Outcome) -> Recommendation:
    evidence, setting = outcome.evidence, outcome.chosen.setting
    return Recommendation(
        settings=setting.options(),
        code=recommendation_text.code(evidence, setting),
        verdict=recommendation_text.verdict(outcome),
        limits=recommendation_text.limits(outcome),
        notes=notes(outcome),
        memory_bytes=memory_budget.memory_bytes(evidence, setting),
        shm_bytes=memory_budget.shm_bytes(evidence, setting),
        uncertainty=uncertainty(evidence),
        candidates=candidates(outcome),
        cpu_allowance=evidence.cores,
        trace=evidence.trace,
    )


def _data_loader(value: Any, loader_number: int | None) -> DataLoader[Any]:
    """The DataLoader behind a value; refused where there is none, or a number chooses one."""
    data_loader = dataloader_behind(value)
    if data_loader is None:
        raise foreign_loader_error("recommend() takes a torch DataLoader or a Trace", value)
    if loader_number is not None:
        raise LoaderVizError(
            f"loader={loader_number!r} chooses among those of a trace: leave it out"
        )
    return data_loader


def _check(**numbers: Any) -> None:
    for name, value in numbers.items():
        if value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf:
            raise LoaderVizError(f"{name}={value!r}: give a number, 0 or more")
    if numbers["step_cpu_share"] > 1:
        share = numbers["step_cpu_share"]
        raise LoaderVizError(f"step_cpu_share={share!r}: a share is 0 to 1, 1 for all of the step")
    if not numbers["seconds"]:
        raise LoaderVizError("seconds=0: give seconds, more than 0")
