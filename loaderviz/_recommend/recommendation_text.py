"""A recommendation in words: the verdict, what limits it, and the code to write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz._recommend.bottleneck import CPU, MEMORY, SHARED, START, STEP, Limit
from loaderviz._recommend.contradiction import Contradiction
from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.memory_budget import FreeBytes
from loaderviz._recommend.predict import Prediction
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import count, duration, percent, rate

KEPT_BUSY = 0.05  # the model is called busy where at most this part of its time is waiting


@dataclass(frozen=True)
class Outcome:
    """All that the text of a recommendation is written from."""

    evidence: Evidence
    chosen: Prediction
    limit: Limit
    predictions: Sequence[Prediction]  # of all settings that were tried
    fitting: Sequence[Prediction]  # those that fit into memory
    present: Prediction
    free_bytes: FreeBytes
    epochs: int
    most_workers: int
    measured: Mapping[LoaderSettings, float]  # batches a second
    contradiction: Contradiction | None = None


def samples_per_s(evidence: Evidence, prediction: Prediction) -> float:
    """Different samples a second: where every worker repeats a sample, it counts once."""
    batches_per_s = float(np.mean(1 / np.maximum(prediction.batch_s, 1e-12)))
    return evidence.batch_size * batches_per_s / evidence.deliveries_per_sample(prediction.setting)


def measured_per_s(outcome: Outcome, setting: LoaderSettings) -> float:
    """Samples a second as measured; NaN for a setting that was not."""
    batches_per_s = outcome.measured.get(setting, math.nan)
    return (
        batches_per_s
        * outcome.evidence.batch_size
        / outcome.evidence.deliveries_per_sample(setting)
    )


def verdict(outcome: Outcome) -> str:
    """The main thing in one sentence, without its full stop."""
    evidence, chosen = outcome.evidence, outcome.chosen
    n, step_s = chosen.setting.num_workers, _mean(evidence.costs.step_s)
    workers = "num_workers=0" if n == 0 else count(n, "worker")
    batches_per_s = outcome.measured.get(chosen.setting)
    if batches_per_s is None:
        wait_share, keep = chosen.wait_share, "would keep"
        pace = f"{rate(samples_per_s(evidence, chosen))} samples/s predicted"
    else:
        wait_share, keep = 1 - step_s * batches_per_s, "keeps" if n <= 1 else "keep"
        pace = f"{rate(measured_per_s(outcome, chosen.setting))} samples/s measured"
    present = measured_per_s(outcome, outcome.present.setting)
    if outcome.present.setting == chosen.setting:
        pace += ", as it is now"
    elif not math.isnan(present):
        pace += f" ({rate(present)} as it is now)"
    if step_s and wait_share <= KEPT_BUSY:
        return f"{workers} {keep} the model busy: {pace}"
    if outcome.limit.part in ("", STEP):
        return f"{workers}: {pace}"
    return f"{workers}: {pace}, limited by {_part_name(outcome.limit.part)}"


def _part_name(part: str) -> str:
    names = {START: "the start of workers", MEMORY: "memory bandwidth", "sampler": "the sampler"}
    names[SHARED] = "what samples share: a lock, a disk, a server"
    return names.get(part, part)


def limits(outcome: Outcome) -> str:
    """The part of the work that limits the chosen setting, and what that means here."""
    evidence, chosen, part = outcome.evidence, outcome.chosen, outcome.limit.part
    if outcome.limit.text:
        return ": ".join(filter(None, (part, outcome.limit.text)))
    costs, batch_s = evidence.costs_of(chosen.setting), float(np.mean(chosen.pace_s))
    waiting_s = _mean(costs.sample_s * (1 - costs.cpu_share))
    size = evidence.description.get("batch_size") or 1
    where = "workers" if chosen.setting.num_workers else "the main process"
    computes = "computes" if where.startswith("the") else "compute"
    batch = f"{duration(batch_s)} a batch"
    are = "is" if evidence.cores == 1 else "are"
    at_first = ""
    if costs.first_key_s > costs.sampler_s * size:
        at_first = f", and {duration(costs.first_key_s)} more before an epoch's first"
    cpus = f"{chosen.cpus:.1f} of {count(evidence.cores, 'CPU')} {are} busy"
    if evidence.crowded_out:
        cpus = f"other processes left {evidence.cores_left:.1f} of {count(evidence.cores, 'CPU')}"
    sentences = {
        "": "no part alone: loading and steps take about equally long",
        STEP: f"it takes {duration(_mean(costs.step_s))} of the {batch}; the model "
        f"waits {percent(chosen.wait_share)} of the time",
        CPU: f"{where} {computes} to read samples; {cpus}",
        "sample I/O": f"reading a sample means waiting {duration(waiting_s)}, for a disk, a "
        f"network or the like; {cpus}",
        SHARED: "samples took longer the more of them were read at once: they wait for one "
        "another, for a lock, a disk, a server or the like",
        "collate": f"{where} put{'s' * (where != 'workers')} samples together into batches; {cpus}",
        "unpickling": f"the main process takes {duration(_mean(costs.take_s))} of the {batch} to "
        "unpickle it",
        "transport": f"a batch takes {duration(_mean(costs.transport_s))} from worker to main "
        "process",
        "pinning": f"pinning a batch takes {duration(_mean(costs.pin_s))}",
        "sampler": f"the main process takes {duration(costs.sampler_s * size)} of the {batch} to "
        f"draw its keys{at_first}",
        START: "starting and ending workers takes a large part of a short run",
    }
    saved = percent(outcome.limit.gain)
    half = f"; halving it would save {saved} of the time" if part else ""
    return f"{part + ': ' if part else ''}{sentences[part]}{half}"


def code(evidence: Evidence, setting: LoaderSettings) -> str:
    """The call to write, with the options that differ from torch's defaults."""
    options: dict[str, Any] = {}
    if evidence.description.get("batch_size") is not None:
        options["batch_size"] = evidence.description["batch_size"]
    options |= {"num_workers": setting.num_workers, **setting.changed_options()}
    text = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"DataLoader(dataset, {text})  # the rest as you have it"


def _mean(values: Any) -> float:
    return float(np.mean(values))
