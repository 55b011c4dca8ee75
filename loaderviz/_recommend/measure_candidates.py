"""The top few settings run for real, each for a short while."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._recommend.candidate_settings import cost
from loaderviz._recommend.choose_candidate import NOISE
from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.predict import Prediction
from loaderviz._recommend.trial_recording import PATIENCE
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.text import count

TOP = 4  # settings that are measured


def contenders(
    chosen: Prediction, present: Prediction, fitting: Sequence[Prediction]
) -> list[Prediction]:
    """The chosen one, what there is now, the fastest, and the fastest of fewer workers."""
    alike = [each for each in fitting if each.setting.in_order or not chosen.setting.in_order]
    fewer = [each for each in alike if each.setting.num_workers < chosen.setting.num_workers]
    fastest = [_fastest(each) for each in (alike, fewer) if each]
    known = [present] if present in fitting else []
    return list({each.setting: each for each in (chosen, *known, *fastest)}.values())[:TOP]


def _fastest(predictions: Sequence[Prediction]) -> Prediction:
    least = min(float(np.mean(each.batch_s)) for each in predictions)
    near = [each for each in predictions if np.mean(each.batch_s) <= (1 + NOISE) * least]
    return min(near, key=lambda each: cost(each.setting))


def measure(
    loader: DataLoader[Any], evidence: Evidence, settings: Sequence[LoaderSettings], seconds: float
) -> dict[LoaderSettings, float]:
    """Batches a second of each setting, steps as predicted: a sleep, or work on the CPU.

    Where an epoch is over in the given time the start of the workers counts, as in the prediction.

    Raises:
        Exception: whatever the loader or its dataset raises, unchanged.
    """
    print(
        f"recommend: measures {count(len(settings), 'setting')}, at most {seconds:g} s each "
        f"from the first batch: {'; '.join(map(str, settings))}."
    )
    found = {}
    for setting in settings:
        with keep_random_state(loader):
            timeout_s = loader.timeout or PATIENCE * seconds
            copied = copy_loader(loader, **setting.options(), timeout=timeout_s)
            found[setting] = _batches_per_s(copied, evidence, setting, seconds)
    return found


def _batches_per_s(
    loader: DataLoader[Any], evidence: Evidence, setting: LoaderSettings, seconds: float
) -> float:
    step_s = float(np.mean(evidence.costs.step_s))
    busy_s = step_s * evidence.costs.step_cpu_share
    begun = time.perf_counter()
    first = 0.0
    ends: list[float] = []
    for _ in loader:
        now = time.perf_counter()
        first = first or now
        if ends and ends[-1] - first > seconds:
            break
        _step(busy_s, step_s - busy_s)
        ends.append(time.perf_counter())
    else:
        return len(ends) / (time.perf_counter() - begun)
    # What lay ready at the beginning is no pace to go on with.
    start = min(max(setting.in_flight, 1), len(ends) // 2)
    return (len(ends) - start) / (ends[-1] - ends[start - 1])


def _step(busy_s: float, idle_s: float) -> None:
    until = time.thread_time() + busy_s
    while time.thread_time() < until:
        pass
    if idle_s > 0:
        time.sleep(idle_s)
