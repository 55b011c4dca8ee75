"""A recommendation in words: the verdict, what limits it, what to know, and the code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz._recommend.bottleneck import START, STEP, Limit
from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.memory_budget import Room
from loaderviz._recommend.predict import Prediction
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import count, duration, percent, rate

KEPT_BUSY = 0.05  # of its time the consumer waits at most, where one can say so


@dataclass(frozen=True)
class Outcome:
    """All that the words speak of."""

    evidence: Evidence
    chosen: Prediction
    limit: Limit
    predictions: Sequence[Prediction]  # of all that was tried
    fitting: Sequence[Prediction]
    present: Prediction
    room: Room
    epochs: int
    most_workers: int
    measured: Mapping[LoaderSettings, float]  # batches a second


def samples_per_s(evidence: Evidence, prediction: Prediction) -> float:
    """Different samples a second: those that every worker delivers once more do not count."""
    batches_per_s = float(np.mean(1 / np.maximum(prediction.batch_s, 1e-12)))
    return evidence.batch_size * batches_per_s / evidence.times(prediction.setting)


def measured_per_s(found: Outcome, setting: LoaderSettings) -> float:
    """The same, as measured; NaN where it was not."""
    batches_per_s = found.measured.get(setting, math.nan)
    return batches_per_s * found.evidence.batch_size / found.evidence.times(setting)


def verdict(found: Outcome) -> str:
    """One line, without its full stop."""
    evidence, chosen = found.evidence, found.chosen
    n = chosen.setting.num_workers
    measured = measured_per_s(found, chosen.setting)
    pace = f"{rate(samples_per_s(evidence, chosen))} samples/s"
    if not math.isnan(measured):
        pace = f"{rate(measured)} samples/s measured"
    who = "No workers" if n == 0 else count(n, "worker")
    if _mean(evidence.costs.step_s) and chosen.wait_share <= KEPT_BUSY:
        return f"{who} keep{'s' * (n == 1)} the model busy: {pace}"
    if found.limit.part in ("", STEP):
        return f"{who}: {pace}"
    return f"{who}: {pace}, limited by {_named(found.limit.part)}"


def _named(part: str) -> str:
    return {START: "the start of workers"}.get(part, part)


def limits(found: Outcome) -> str:
    """What limits the chosen setting: the part of the work, then what that means here."""
    evidence, chosen, part = found.evidence, found.chosen, found.limit.part
    costs, batch_s = evidence.costs_of(chosen.setting), float(np.mean(chosen.pace_s))
    waiting_s = _mean(costs.sample_s * (1 - costs.cpu_share))
    where = "workers" if chosen.setting.num_workers else "the main process"
    computes = "computes" if where.startswith("the") else "compute"
    batch = f"{duration(batch_s)} a batch"
    cpus = f"{chosen.cpus:.1f} of {evidence.cores:g} CPUs are busy"
    sentences = {
        "": "no part alone; loading and steps take about as long",
        STEP: f"it takes {duration(_mean(costs.step_s))} of the {batch}; the model "
        f"waits {percent(chosen.wait_share)} of the time",
        "sample CPU": f"{where} {computes} to read samples; {cpus}",
        "sample I/O": f"to read a sample is to wait for {duration(waiting_s)}, for a disk, a "
        f"network or the like; {cpus}",
        "collate": f"{where} put{'s' * (where != 'workers')} samples together into batches; {cpus}",
        "unpickling": f"the main process takes {duration(_mean(costs.take_s))} of the {batch} to "
        "unpickle it",
        "transport": f"a batch takes {duration(_mean(costs.transport_s))} from worker to main "
        "process",
        "pinning": f"to pin a batch takes {duration(_mean(costs.pin_s))}",
        START: "workers have to start and end, which a short run feels",
    }
    less = percent(found.limit.gain)
    half = f"; half of it, and all would take {less} less time" if part else ""
    return f"{part + ': ' if part else ''}{sentences[part]}{half}"


def code(evidence: Evidence, setting: LoaderSettings) -> str:
    """The call, with what differs from torch's own defaults."""
    options: dict[str, Any] = {}
    if evidence.about.get("batch_size") is not None:
        options["batch_size"] = evidence.about["batch_size"]
    options |= {"num_workers": setting.num_workers, **setting.changed_options()}
    text = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"DataLoader(dataset, {text})  # the rest as you have it"


def _mean(values: Any) -> float:
    return float(np.mean(values))
