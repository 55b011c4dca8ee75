"""The notes of a recommendation: what else to know about it, a sentence or two each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from loaderviz._recommend.bottleneck import OTHERS
from loaderviz._recommend.choose_candidate import NOISE, is_as_good
from loaderviz._recommend.evidence import FEW_BATCHES
from loaderviz._recommend.memory_budget import memory_bytes, shm_bytes
from loaderviz._recommend.recommendation_text import (
    Outcome,
    measured_per_s,
    samples_per_s,
)
from loaderviz.loader_settings import PREFETCH_FACTOR
from loaderviz.loaders.start_method import start_method
from loaderviz.text import change, count, duration, percent, rate, size

UNLIKE_EPOCHS = 3.0  # times the time of another: more than a machine varies
UNCERTAIN = 0.1  # as a part of a batch's time: from here on the uncertainty is mentioned
OFTEN = 0.1  # of the steps: a validation now and then is no loop over several loaders
QUEUED = 0.25  # of the time: more is worth a word
BUSY = 0.85  # of the CPUs: beyond this they get hardly any more work done


def notes(outcome: Outcome) -> tuple[str, ...]:
    """All notes that apply, the most serious first."""
    return (
        *([outcome.evidence.of_several] if outcome.evidence.of_several else []),
        *_notes_on_measurements(outcome),
        *_notes_on_other_loaders(outcome),
        *_notes_on_unlike_workers(outcome),
        *_notes_on_this_process(outcome),
        *_notes_on_the_unseen(outcome),
        *_notes_on_unlike_epochs(outcome),
        *_notes_on_the_recording(outcome),
        *_notes_on_the_stream(outcome),
        *_notes_on_options(outcome),
        *_notes_on_cpus(outcome),
        *_notes_on_memory(outcome),
        *_notes_on_the_present(outcome),
    )


def _notes_on_measurements(outcome: Outcome) -> Iterator[str]:
    """Measured throughput beside the predicted one."""
    predicted_per_s = {
        prediction.setting: samples_per_s(outcome.evidence, prediction)
        for prediction in outcome.predictions
    }
    if outcome.measured:
        measurements = "; ".join(
            f"{setting}: {rate(measured_per_s(outcome, setting))} (predicted {rate(per_s)})"
            for setting, per_s in predicted_per_s.items()
            if setting in outcome.measured
        )
        yield f"Measured samples/s: {measurements}."
    if outcome.contradiction:
        setting = outcome.contradiction.setting
        yield (
            f"The prediction does not hold for {setting}. The cheapest setting within noise of "
            "the best measured is recommended."
        )
    if outcome.limit.part == OTHERS:
        yield (
            "What was measured holds while other processes use the CPUs: ask again on a quiet "
            "machine."
        )


def _notes_on_other_loaders(outcome: Outcome) -> Iterator[str]:
    """That the loop may wait for others, once this loader is quicker."""
    with_others = outcome.evidence.with_others
    if with_others > OFTEN:
        yield (
            f"Predicted as if this loader were alone: in {percent(with_others)} of its steps the "
            "loop takes batches of other loaders, too, and may then wait for those instead. What "
            "a cut saves in trace.summary().causes counts that."
        )


def _notes_on_unlike_workers(outcome: Outcome) -> Iterator[str]:
    """That no prediction holds as long as one worker has more to do than others."""
    evidence = outcome.evidence
    if evidence.unlike:
        yield (
            f"{evidence.unlike}: {rate(evidence.recorded_per_s)} samples/s were recorded. All "
            "predictions, that of the present settings too, are for workers that are alike: mend "
            "that first."
        )


def _notes_on_this_process(outcome: Outcome) -> Iterator[str]:
    """That the process which takes the batches is busy with something else."""
    if outcome.evidence.main_is_kept and not outcome.measured:
        yield (
            "Small batches that lie ready are handed over slowly: something else keeps this "
            "process, such as a Python thread of a server or a logger. Mend that first. It would "
            "slow samples down, too, that are read here: num_workers=0 is not recommended from "
            "such a recording, whatever is predicted for it."
        )


def _notes_on_the_unseen(outcome: Outcome) -> Iterator[str]:
    """What a prediction of more workers than were recorded assumes, where nothing was measured."""
    evidence, chosen = outcome.evidence, outcome.chosen
    n = evidence.n_readers
    if evidence.shared:
        yield (
            f"Samples of {n} workers waited for one another: more workers gain nothing, and fewer "
            "may do as well. recommend(loader), with the loader in place of its recording, "
            "measures it."
        )
    if outcome.measured or chosen.setting.num_workers <= n:
        return
    if samples_per_s(evidence, chosen) <= evidence.shown_per_s:
        return
    recorded = "one process read" if n == 1 else f"{n} workers read"
    yield (
        f"Predicted, not measured: in the recording {recorded} at a time. It does not show whether "
        "samples of more workers wait for one another (for a lock, a disk, a server). "
        "recommend(loader), with the loader in place of its recording, measures it."
    )


def _notes_on_unlike_epochs(outcome: Outcome) -> Iterator[str]:
    """That no one pace holds for all epochs."""
    evidence = outcome.evidence
    slowest_s, fastest_s = max(evidence.reading_s, default=0), min(evidence.reading_s, default=0)
    if slowest_s > UNLIKE_EPOCHS * fastest_s:
        nth = evidence.reading_s.index(slowest_s) + 1
        yield (
            f"Epochs are unlike: to read a sample took {duration(slowest_s)} in epoch {nth} and "
            f"{duration(fastest_s)} in another, as where samples are kept once they are read. A "
            "prediction mixes them, and a short measurement may see the slow ones alone."
        )


def _notes_on_the_recording(outcome: Outcome) -> Iterator[str]:
    """What the recording leaves uncertain."""
    evidence = outcome.evidence
    n, error = evidence.n_recorded, min(evidence.error, 1.0)
    if n < FEW_BATCHES or error > UNCERTAIN:
        yield (
            f"Uncertain: {count(n, 'batch', 'batches')} {'were' if n != 1 else 'was'} recorded, "
            f"so the time of a batch is known to ± {percent(error)}. Record for longer: "
            "seconds=..., or a longer loop."
        )
    if not evidence.description.get("num_workers"):
        yield (
            "The recording is of the main process alone: it does not show how long workers take to "
            "start, nor how long a batch takes from a worker to the main process. The usual "
            "times on Linux are assumed."
        )
    if evidence.crowded_out:
        yield (
            f"The workers waited for a CPU: the loop's own steps or other processes left them "
            f"about {evidence.cores_left:.1f} of {count(evidence.cores, 'CPU')}. The predictions "
            "are for that; with all CPUs to itself the loader may be much faster."
        )
    elif evidence.queued > QUEUED and evidence.n_readers <= evidence.cores:
        yield (
            f"While making batches, workers waited {percent(evidence.queued)} of the time for a "
            "CPU that other processes used, and not for a disk or the like: a quiet machine is "
            "faster."
        )
    method = evidence.description.get("start_method")
    if method and method != start_method() and evidence.n_batches is not None:
        yield (
            f"The workers were started with {method}. A start with {start_method()}, as is usual "
            "here, takes a different time, not recorded."
        )
    if not evidence.steps_known:
        yield (
            "No step was given, so this is the fastest loading. With step_s=..., the time that "
            "your model takes for a batch, fewer workers may be enough."
        )
    if evidence.n_batches is None:
        yield "The length of an epoch is not known, so the start of the workers is not counted."
    elif evidence.n_batches < 2:
        yield "An epoch is one batch: workers cannot load the next one while the model works."


def _notes_on_the_stream(outcome: Outcome) -> Iterator[str]:
    evidence = outcome.evidence
    if evidence.naive:
        yield (
            "Each worker delivers all samples: more than one only repeats them. Share them out "
            "first, with loaderviz.shard(...) inside __iter__, and ask again."
        )
    elif evidence.iterable:
        yield (
            "A recording does not tell how this iterable-style dataset divides itself among other "
            "numbers of workers: even shares are assumed. loaderviz.audit(loader) checks them."
        )


def _notes_on_options(outcome: Outcome) -> Iterator[str]:
    setting = outcome.chosen.setting
    if not setting.in_order:
        in_order = [prediction for prediction in outcome.fitting if prediction.setting.in_order]
        best = max(in_order, key=lambda prediction: samples_per_s(outcome.evidence, prediction))
        instead = (
            f" In order, {best.setting} would be the best: "
            f"{rate(samples_per_s(outcome.evidence, best))} samples/s predicted."
        )
        yield (
            "in_order=False delivers batches as they come, so that their order differs from run to "
            f"run.{'' if outcome.contradiction else instead}"
        )
    if setting.persistent_workers:
        yield (
            "persistent_workers=True keeps the workers, and their memory, from epoch to epoch: "
            "they do not see changes made to the dataset between epochs."
        )
    if (setting.prefetch_factor or 0) > PREFETCH_FACTOR:
        yield (
            f"prefetch_factor={setting.prefetch_factor} holds up to {setting.in_flight} batches, "
            "so that slow ones are waited for less."
        )
    if outcome.evidence.has_device and not setting.pin_memory:
        yield (
            "pin_memory stays off, as it is now: a recording without copies to the device does not "
            "tell what it gains. Where the loop copies batches, try pin_memory=True with "
            ".to(device, non_blocking=True): they are copied while the model works."
        )


def _notes_on_cpus(outcome: Outcome) -> Iterator[str]:
    """Whether there are more workers than CPUs, and whether more workers were left untried."""
    evidence, chosen = outcome.evidence, outcome.chosen
    n, cores = chosen.setting.num_workers, evidence.cores
    cpus = count(cores, "CPU")
    if n > cores:
        yield f"{n} workers are more than the {cpus} that this process may use: " + (
            "they keep all of them busy, and slow down whatever else runs here."
            if chosen.cpus >= BUSY * evidence.cores_left
            else f"they mostly wait, for a disk, a network or the like, and need "
            f"{max(chosen.cpus, 0.1):.1f} CPUs in all."
        )
    if n == outcome.most_workers and evidence.n_batches is None:
        yield f"{n} workers are the most that were tried; max_workers=... tries more."
    if evidence.n_ranks > 1:
        yield f"{evidence.n_ranks} ranks share this machine: each may use {cpus}."


def _notes_on_memory(outcome: Outcome) -> Iterator[str]:
    """How much memory the setting takes, and what was left out for taking more than is free."""
    evidence, free_bytes = outcome.evidence, outcome.free_bytes
    setting = outcome.chosen.setting
    shm, memory = shm_bytes(evidence, setting), memory_bytes(evidence, setting)
    if setting.num_workers:
        at_most = "at most " if evidence.worker_bytes_shared else ""
        parts = [] if memory is None else [f"{at_most}{size(memory)} of memory"]
        if shm is not None:
            free = "" if free_bytes.shm is None else f" ({size(free_bytes.shm)} free)"
            parts.append(f"{size(shm)} of /dev/shm{free}")
        shared = ", counting in each worker what it shares with the main process"
        if parts:
            yield f"It takes {' and '.join(parts)}{shared if at_most and memory else ''}."
        else:
            yield "The recording does not tell how much memory it takes."
    if len(outcome.fitting) < len(outcome.predictions) and not outcome.contradiction:
        best = max(outcome.predictions, key=lambda prediction: samples_per_s(evidence, prediction))
        if best not in outcome.fitting and not is_as_good(outcome.chosen, best):
            takes = [size(of(evidence, best.setting) or 0) for of in (memory_bytes, shm_bytes)]
            yield (
                f"{best.setting} would give {rate(samples_per_s(evidence, best))} samples/s by the "
                f"prediction, and take {takes[0]} of memory, {takes[1]} of it in /dev/shm: more "
                "than is free."
            )


def _notes_on_the_present(outcome: Outcome) -> Iterator[str]:
    """The throughput of the loader's present settings."""
    present, chosen = outcome.present, outcome.chosen
    if present.setting == chosen.setting:
        yield "The loader already has these settings."
        return
    now, then = (measured_per_s(outcome, shown.setting) for shown in (present, chosen))
    source = "measured"
    if math.isnan(now + then):
        now, then = (samples_per_s(outcome.evidence, shown) for shown in (present, chosen))
        source = "predicted"
    less = change(now / then - 1) if now < (1 - 2 * NOISE) * then else "about as much"
    alike = ", with workers alike" if outcome.evidence.unlike and source == "predicted" else ""
    yield f"As it is now{alike} ({present.setting}): {rate(now)} samples/s {source}, {less}."
