"""What else there is to know of a recommendation, in a sentence or two each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from loaderviz._recommend.choose_candidate import NOISE, as_good
from loaderviz._recommend.evidence import FEW
from loaderviz._recommend.memory_budget import memory_bytes, shm_bytes
from loaderviz._recommend.recommendation_text import (
    Outcome,
    measured_per_s,
    samples_per_s,
)
from loaderviz.loader_settings import PREFETCH_FACTOR
from loaderviz.text import change, count, percent, rate, size

UNCERTAIN = 0.1  # of what a batch takes: from here on it is said
BUSY = 0.85  # of the CPUs: hardly any more work gets done


def notes(found: Outcome) -> tuple[str, ...]:
    """What else there is to know, the gravest first."""
    return (
        *_of_the_runs(found),
        *_of_the_recording(found),
        *_of_the_stream(found),
        *_of_the_options(found),
        *_of_the_cpus(found),
        *_of_memory(found),
        *_of_now(found),
    )


def _of_the_runs(found: Outcome) -> Iterator[str]:
    """What was measured, beside what was predicted."""
    told = []
    for each in found.predictions:
        real = measured_per_s(found, each.setting)
        if not math.isnan(real):
            off = samples_per_s(found.evidence, each) / real - 1
            told.append(f"{each.setting}: {rate(real)} samples/s (predicted {change(off)})")
    if told:
        yield f"Measured: {'; '.join(told)}."


def _of_the_recording(found: Outcome) -> Iterator[str]:
    """What the recording leaves uncertain."""
    evidence = found.evidence
    n, error = evidence.n_recorded, min(evidence.error, 1.0)
    if n < FEW or error > UNCERTAIN:
        yield (
            f"Uncertain: {count(n, 'batch', 'batches')} {'were' if n != 1 else 'was'} recorded, "
            f"which tell what one takes to ± {percent(error)}. Record for longer: seconds=..., or "
            "a longer loop."
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
    if (setting.prefetch_factor or 0) > PREFETCH_FACTOR:
        yield (
            f"prefetch_factor={setting.prefetch_factor} holds up to {setting.in_flight} batches, "
            "so that slow ones are waited for less."
        )
    if found.evidence.has_device and not setting.pin_memory:
        yield (
            "pin_memory stays off, as it is now: a recording without copies to the device does not "
            "tell what it gains. Where the loop copies batches, try pin_memory=True with "
            ".to(device, non_blocking=True): they are copied while the model works."
        )


def _of_the_cpus(found: Outcome) -> Iterator[str]:
    """Where there are more workers than CPUs, and where more were not tried."""
    evidence, chosen = found.evidence, found.chosen
    n, cores = chosen.setting.num_workers, evidence.cores
    cpus = count(cores, "CPU")
    if n > cores:
        yield f"{n} workers are more than the {cpus} that this process may use: " + (
            "they keep all of them busy, which whatever else runs here will feel."
            if chosen.cpus >= BUSY * cores
            else f"they mostly wait, and want {max(chosen.cpus, 0.1):.1f} CPUs in all."
        )
    if n == found.most_workers and evidence.n_batches is None:
        yield f"{n} workers are the most that were tried; max_workers=... tries more."
    if evidence.n_ranks > 1:
        yield f"{evidence.n_ranks} ranks share this machine: each may use {cpus}."


def _of_memory(found: Outcome) -> Iterator[str]:
    """What memory it takes, and what was left out because it takes more than is free."""
    evidence, room = found.evidence, found.room
    setting = found.chosen.setting
    shm, memory = shm_bytes(evidence, setting), memory_bytes(evidence, setting)
    if setting.num_workers:
        at_most = "at most " if evidence.worker_bytes_shared else ""
        parts = [] if memory is None else [f"{at_most}{size(memory)} of memory"]
        if shm is not None:
            free = "" if room.shm is None else f" ({size(room.shm)} are free)"
            parts.append(f"{size(shm)} of /dev/shm{free}")
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
                f"take {size(memory_bytes(evidence, best.setting) or 0)} of memory, "
                f"{size(shm_bytes(evidence, best.setting) or 0)} of it in /dev/shm: more than is "
                "free."
            )


def _of_now(found: Outcome) -> Iterator[str]:
    """What the present setting gives."""
    present, chosen = found.present, found.chosen
    if present.setting == chosen.setting:
        yield "That is how it is set now."
        return
    now, then = (measured_per_s(found, each.setting) for each in (present, chosen))
    if math.isnan(now + then):
        now, then = (samples_per_s(found.evidence, each) for each in (present, chosen))
    less = change(now / then - 1) if now < (1 - 2 * NOISE) * then else "about as much"
    yield f"As it is now ({present.setting}): {rate(now)} samples/s, {less}."
