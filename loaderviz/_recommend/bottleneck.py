"""What limits a setting: the part of the work that would gain the most by being faster."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.predict import SEEDS, Prediction, predict
from loaderviz.simulator import Costs

LEAST_GAIN: Final = 0.1  # if halving a part gains less, other parts take as long as it does

STEP, START, CPU = "step", "start", "sample CPU"
# What no simulation shows: a measurement does.
SHARED, MEMORY, QUOTA, OTHERS = "shared", "memory", "CPU quota", "other processes"


@dataclass(frozen=True)
class Limit:
    """The part of the work that limits a setting, and the gain from halving it.

    ``part`` is empty where no part alone holds up the others. ``gain`` is the share, 0 to 1, of
    the whole time that is saved; NaN where that was not simulated. ``text`` is what a measurement
    shows of it; empty where the limit was simulated.
    """

    part: str
    gain: float = math.nan
    text: str = ""


def find_limit(evidence: Evidence, chosen: Prediction, epochs: int) -> Limit:
    """The part whose halving gains the most, found by simulating the halving of each."""
    setting = chosen.setting

    def mean_batch_s(costs: Costs) -> float:
        (prediction,) = predict(evidence, [setting], epochs, costs, seeds=SEEDS[:1])
        return float(np.mean(prediction.batch_s))

    costs = evidence.costs_of(setting)
    base_s = max(mean_batch_s(costs), 1e-12)
    halvings = _halve_each_part(costs, pins=setting.pin_memory, shared=evidence.shared)
    gains = {part: 1 - mean_batch_s(halved) / base_s for part, halved in halvings.items()}
    limiting = max(gains, key=lambda part: gains[part])
    return Limit(limiting if gains[limiting] >= LEAST_GAIN else "", gains[limiting])


def _halve_each_part(costs: Costs, *, pins: bool, shared: bool) -> dict[str, Costs]:
    """By the name of a part: the costs with that part taking half as long."""
    cpu_s = costs.sample_s * costs.cpu_share
    wait_s = costs.sample_s - cpu_s
    halvings = {
        STEP: replace(costs, step_s=costs.step_s / 2, copy_s=costs.copy_s / 2),
        CPU: _with_sample_times(costs, cpu_s / 2, wait_s),
        SHARED if shared else "sample I/O": _with_sample_times(costs, cpu_s, wait_s / 2),
        "collate": replace(
            costs,
            collate_s=costs.collate_s / 2,
            collate_sample_s=costs.collate_sample_s / 2,
            share_s=costs.share_s / 2,
            bytes_per_s=costs.bytes_per_s * 2,
        ),
        "unpickling": replace(costs, take_s=costs.take_s / 2),
        "transport": replace(
            costs,
            transport_s=costs.transport_s / 2,
            dispatch_s=costs.dispatch_s / 2,
            send_s=costs.send_s / 2,
        ),
        "sampler": replace(costs, sampler_s=costs.sampler_s / 2, first_key_s=costs.first_key_s / 2),
        START: replace(
            costs,
            startup_s=costs.startup_s / 2,
            boot_s=costs.boot_s / 2,
            init_s=costs.init_s / 2,
            shutdown_s=costs.shutdown_s / 2,
        ),
    }
    if pins:
        halvings["pinning"] = replace(costs, pin_s=costs.pin_s / 2)
    return halvings


def _with_sample_times(costs: Costs, cpu_s: float, wait_s: float) -> Costs:
    sample_s = np.asarray(cpu_s + wait_s)
    share = np.divide(cpu_s, sample_s, out=np.zeros_like(sample_s), where=sample_s > 0)
    return replace(costs, sample_s=sample_s, cpu_share=np.minimum(share, 1.0))
