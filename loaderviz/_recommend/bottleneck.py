"""What limits a setting: the part of the work that, were it faster, would gain the most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.predict import Prediction, predict
from loaderviz.simulator import Costs

LITTLE: Final = 0.1  # a smaller gain from half of a part: others take as long

STEP, START = "step", "start"


@dataclass(frozen=True)
class Limit:
    """A part of the work, and how much less time all takes if this part takes half of it.

    ``part`` is empty where no part alone holds up the others.
    """

    part: str
    gain: float


def limit_of(evidence: Evidence, chosen: Prediction, epochs: int) -> Limit:
    """The part whose halving gains the most; it is simulated for each of them."""
    setting = chosen.setting

    def batch_s(costs: Costs) -> float:
        (found,) = predict(evidence, [setting], epochs, costs)
        return float(np.mean(found.batch_s))

    costs = evidence.costs_of(setting)
    base_s = max(batch_s(costs), 1e-12)
    parts = _halved(costs, pins=setting.pin_memory)
    gains = {part: 1 - batch_s(halved) / base_s for part, halved in parts.items()}
    part = max(gains, key=lambda each: gains[each])
    return Limit(part if gains[part] >= LITTLE else "", gains[part])


def _halved(costs: Costs, *, pins: bool) -> dict[str, Costs]:
    cpu_s = costs.sample_s * costs.cpu_share
    wait_s = costs.sample_s - cpu_s
    parts = {
        STEP: replace(costs, step_s=costs.step_s / 2, copy_s=costs.copy_s / 2),
        "sample CPU": _sampled(costs, cpu_s / 2, wait_s),
        "sample I/O": _sampled(costs, cpu_s, wait_s / 2),
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
        START: replace(
            costs,
            startup_s=costs.startup_s / 2,
            boot_s=costs.boot_s / 2,
            shutdown_s=costs.shutdown_s / 2,
        ),
    }
    if pins:
        parts["pinning"] = replace(costs, pin_s=costs.pin_s / 2)
    return parts


def _sampled(costs: Costs, cpu_s: float, wait_s: float) -> Costs:
    sample_s = np.asarray(cpu_s + wait_s)
    share = np.divide(cpu_s, sample_s, out=np.zeros_like(sample_s), where=sample_s > 0)
    return replace(costs, sample_s=sample_s, cpu_share=np.minimum(share, 1.0))
