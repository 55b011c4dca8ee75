"""A recommendation in words: the verdict, what limits it, what to know, and the code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz.advising.choose import NOISE, as_good
from loaderviz.advising.evidence import FEW, Evidence, local_ranks
from loaderviz.advising.limits import START, STEP, Limit
from loaderviz.advising.memory import Room, memory_bytes, shm_bytes
from loaderviz.advising.predict import Prediction
from loaderviz.advising.settings import Setting

UNCERTAIN = 0.1  # of what a batch takes: from here on it is said
KEPT_BUSY = 0.05  # of its time the consumer waits at most, where one can say so
BUSY = 0.85  # of the CPUs: hardly any more work gets done
_TORCH = {"prefetch_factor": 2, "in_order": True, "persistent_workers": False, "pin_memory": False}


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
    measured: Mapping[Setting, float]  # batches a second


def samples_per_s(evidence: Evidence, prediction: Prediction) -> float:
    """Different samples a second: those that every worker delivers once more do not count."""
    rate = float(np.mean(1 / np.maximum(prediction.batch_s, 1e-12)))
    return evidence.batch_size * rate / evidence.times(prediction.setting)


def verdict(found: Outcome) -> str:
    """One line, without its full stop."""
    evidence, chosen = found.evidence, found.chosen
    n = chosen.setting.num_workers
    pace = f"{rate(samples_per_s(evidence, chosen))} samples/s"
    who = "No workers" if n == 0 else f"{n} worker{'s' * (n != 1)}"
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
    costs, batch_s = evidence.costs, float(np.mean(chosen.pace_s))
    where = "workers" if chosen.setting.num_workers else "the main process"
    computes = "computes" if where.startswith("the") else "compute"
    cpus = f"{chosen.cpus:.1f} of {evidence.cores:g} CPUs are busy"
    sentences = {
        "": "no part alone; loading and steps take about as long",
        STEP: f"it takes {ms(_mean(costs.step_s))} of the {ms(batch_s)} a batch; the model waits "
        f"{chosen.wait_share:.0%} of the time",
        "sample CPU": f"{where} {computes} to read samples; {cpus}",
        "sample I/O": f"to read a sample is to wait for {ms(_waiting_s(evidence))}, for a disk, a "
        f"network or the like; {cpus}",
        "collate": f"{where} put{'s' * (where != 'workers')} samples together into batches; {cpus}",
        "unpickling": f"the main process takes {ms(_mean(costs.take_s))} of the {ms(batch_s)} a "
        "batch to unpickle it",
        "transport": f"a batch takes {ms(_mean(costs.transport_s))} from worker to main process",
        "pinning": f"to pin a batch takes {ms(_mean(costs.pin_s))}",
        START: "workers have to start and end, which a short run feels",
    }
    half = f"; half of it, and all would take {found.limit.gain:.0%} less time" if part else ""
    return f"{part + ': ' if part else ''}{sentences[part]}{half}"


def _waiting_s(evidence: Evidence) -> float:
    costs = evidence.costs
    return _mean(costs.sample_s * (1 - costs.cpu_share))


def notes(found: Outcome) -> tuple[str, ...]:
    """What else there is to know, the gravest first."""
    return (
        *_of_the_recording(found),
        *_of_the_stream(found),
        *_of_the_options(found),
        *_of_the_cpus(found),
        *_of_memory(found),
        *_of_now(found),
    )


def _of_the_recording(found: Outcome) -> Iterator[str]:
    evidence = found.evidence
    n, error = evidence.n_recorded, evidence.error
    if n < FEW or error > UNCERTAIN:
        yield (
            f"Uncertain: {n} batch{'es' * (n != 1)} {'were' if n != 1 else 'was'} recorded, which "
            f"tell what one takes to ± {min(error, 1):.0%}. Record for longer: seconds=..., or a "
            "longer loop."
        )
    if not evidence.about.get("num_workers"):
        yield (
            "The recording is of the main process alone: what it takes to bring a batch from a "
            "worker was not seen, and is assumed to be small."
        )
    if not evidence.steps_known:
        yield (
            "No step was given, so this is the fastest loading. With step_s=..., the time that "
            "your model takes for a batch, fewer workers may do."
        )
    if evidence.n_batches is None:
        yield "How long an epoch is was not known: the start of the workers does not count here."
    elif evidence.n_batches < 2:
        yield "An epoch is one batch: there is nothing that workers could do meanwhile."


def _of_the_stream(found: Outcome) -> Iterator[str]:
    evidence = found.evidence
    if evidence.naive:
        yield (
            "Each worker delivers all samples: more than one only repeats them. Share them out "
            "first, with loaderviz.shard(...) inside __iter__, and ask again."
        )
    elif evidence.iterable:
        yield (
            "How this iterable-style dataset divides itself among other numbers of workers, no "
            "recording tells: even shares are assumed. loaderviz.audit(loader) checks them."
        )


def _of_the_options(found: Outcome) -> Iterator[str]:
    setting = found.chosen.setting
    if not setting.in_order:
        kept = [each for each in found.fitting if each.setting.in_order]
        best = max(kept, key=lambda each: samples_per_s(found.evidence, each))
        yield (
            "in_order=False delivers batches as they come, so that their order differs from run to "
            f"run. In order, {best.setting} would be the best: "
            f"{rate(samples_per_s(found.evidence, best))} samples/s."
        )
    if setting.persistent_workers:
        yield (
            "persistent_workers=True keeps the workers, and their memory, from epoch to epoch; a "
            "dataset that is changed between epochs does not change in them."
        )
    if (setting.prefetch_factor or 2) > 2:
        yield (
            f"prefetch_factor={setting.prefetch_factor} holds up to {setting.in_flight} batches, "
            "so that slow ones are waited for less."
        )


def _of_the_cpus(found: Outcome) -> Iterator[str]:
    evidence, chosen = found.evidence, found.chosen
    n, cores = chosen.setting.num_workers, evidence.cores
    cpus = f"{cores:g} CPU{'s' * (cores != 1)}"
    if n > cores:
        yield f"{n} workers are more than the {cpus} that this process may use: " + (
            "they keep all of them busy, which whatever else runs here will feel."
            if chosen.cpus >= BUSY * cores
            else f"they mostly wait, and keep {chosen.cpus:.1f} busy."
        )
    if n == found.most_workers and evidence.n_batches is None:
        yield f"{n} workers are the most that were tried; max_workers=... tries more."
    if local_ranks() > 1:
        yield f"{local_ranks()} ranks share this machine: each may use {cpus}."


def _of_memory(found: Outcome) -> Iterator[str]:
    evidence, room = found.evidence, found.room
    setting = found.chosen.setting
    shm, memory = shm_bytes(evidence, setting), memory_bytes(evidence, setting)
    if setting.num_workers:
        at_most = "at most " if evidence.worker_bytes_shared else ""
        parts = [] if memory is None else [f"{at_most}{mib(memory)} of memory"]
        if shm is not None:
            free = "" if room.shm is None else f" ({mib(room.shm)} are free)"
            parts.append(f"{mib(shm)} of /dev/shm{free}")
        shared = ", what workers share with the main process counted in each"
        if parts:
            yield f"It takes {' and '.join(parts)}{shared if at_most and memory else ''}."
        else:
            yield "How much memory it takes, the recording does not tell."
    if len(found.fitting) < len(found.predictions):
        best = max(found.predictions, key=lambda each: samples_per_s(evidence, each))
        if best not in found.fitting and not as_good(found.chosen, best):
            yield (
                f"{best.setting} would give {rate(samples_per_s(evidence, best))} samples/s, and "
                f"take {mib(memory_bytes(evidence, best.setting) or 0)} of memory, "
                f"{mib(shm_bytes(evidence, best.setting) or 0)} of it in /dev/shm: more than is "
                "free."
            )


def _of_now(found: Outcome) -> Iterator[str]:
    present, chosen = found.present, found.chosen
    if present.setting == chosen.setting:
        yield "That is how it is set now."
        return
    now, then = (samples_per_s(found.evidence, each) for each in (present, chosen))
    if now < (1 - 2 * NOISE) * then:
        yield f"As it is now ({present.setting}): {rate(now)} samples/s, {now / then - 1:.0%}."
    else:
        yield f"As it is now ({present.setting}): {rate(now)} samples/s, about as much."


def code(evidence: Evidence, setting: Setting) -> str:
    """The call, with what differs from torch's own defaults."""
    options: dict[str, Any] = {}
    if evidence.about.get("batch_size") is not None:
        options["batch_size"] = evidence.about["batch_size"]
    options["num_workers"] = setting.num_workers
    chosen = setting.options()
    for name, usual in _TORCH.items():
        if chosen[name] not in (usual, None):
            options[name] = chosen[name]
    text = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"DataLoader(dataset, {text})  # the rest as you have it"


def rate(per_s: float) -> str:
    if not math.isfinite(per_s):
        return "?"
    if per_s >= 1000:
        return f"{float(f'{per_s:.3g}'):,.0f}"
    return f"{per_s:.3g}"


def ms(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1000 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"


def mib(n_bytes: float) -> str:
    size = n_bytes / 2**20
    return (
        f"{size / 1024:.1f} GiB" if size >= 1024 else f"{size:.0f} MiB" if size >= 1 else "<1 MiB"
    )


def _mean(values: Any) -> float:
    return float(np.mean(values))
