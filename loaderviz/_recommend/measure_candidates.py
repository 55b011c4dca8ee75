"""The most promising settings, run for real for a short while each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._recommend.candidate_settings import cheapness
from loaderviz._recommend.choose_candidate import NOISE
from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.predict import Prediction
from loaderviz._recommend.trial_recording import PATIENCE
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.text import count

MOST_MEASURED = 4  # settings


def contenders(
    chosen: Prediction, present: Prediction, fitting: Sequence[Prediction]
) -> list[Prediction]:
    """The chosen setting, the present one, the fastest, and the fastest with fewer workers.

    Settings out of order are among them only where the chosen one is out of order.
    """
    comparable = [
        prediction
        for prediction in fitting
        if prediction.setting.in_order or not chosen.setting.in_order
    ]
    fewer_workers = [
        prediction
        for prediction in comparable
        if prediction.setting.num_workers < chosen.setting.num_workers
    ]
    fastest = [_fastest(predictions) for predictions in (comparable, fewer_workers) if predictions]
    candidates = (chosen, *([present] if present in fitting else []), *fastest)
    by_setting = {prediction.setting: prediction for prediction in candidates}
    return list(by_setting.values())[:MOST_MEASURED]


def _fastest(predictions: Sequence[Prediction]) -> Prediction:
    """The cheapest of those within noise of the least time a batch."""
    least_s = min(float(np.mean(prediction.batch_s)) for prediction in predictions)
    near = [
        prediction
        for prediction in predictions
        if np.mean(prediction.batch_s) <= (1 + NOISE) * least_s
    ]
    return min(near, key=lambda prediction: cheapness(prediction.setting))


def measure(
    loader: DataLoader[Any], evidence: Evidence, settings: Sequence[LoaderSettings], seconds: float
) -> dict[LoaderSettings, float]:
    """Batches a second of each setting, run for at most ``seconds`` from its first batch.

    A step takes as long as in the prediction: it sleeps, or works on the CPU. Where an epoch ends
    within that time, the start of the workers counts, as in the prediction.

    Raises:
        Exception: whatever the loader or its dataset raises, unchanged.
    """
    print(
        f"recommend: measures {count(len(settings), 'setting')}, at most {seconds:g} s each "
        f"from the first batch: {'; '.join(map(str, settings))}."
    )
    measured = {}
    for setting in settings:
        with keep_random_state(loader):
            timeout_s = loader.timeout or PATIENCE * seconds
            copied = copy_loader(loader, **setting.options(), timeout=timeout_s)
            measured[setting] = _batches_per_s(copied, evidence, setting, seconds)
    return measured


def _batches_per_s(
    loader: DataLoader[Any], evidence: Evidence, setting: LoaderSettings, seconds: float
) -> float:
    step_s = float(np.mean(evidence.costs.step_s))
    busy_s = step_s * evidence.costs.step_cpu_share
    begun = time.perf_counter()
    first_s = 0.0
    ends: list[float] = []
    for _ in loader:
        now = time.perf_counter()
        first_s = first_s or now
        if ends and ends[-1] - first_s > seconds:
            break
        _step(busy_s, step_s - busy_s)
        ends.append(time.perf_counter())
    else:
        return len(ends) / (time.perf_counter() - begun)
    # Batches that lay ready at the beginning come faster than the loader can go on.
    n_ready = min(max(setting.in_flight, 1), len(ends) // 2)
    return (len(ends) - n_ready) / (ends[-1] - ends[n_ready - 1])


def _step(busy_s: float, idle_s: float) -> None:
    """In place of the model: work on the CPU, then sleep."""
    until = time.thread_time() + busy_s
    while time.thread_time() < until:
        pass
    if idle_s > 0:
        time.sleep(idle_s)
