"""LV109 to LV113: what becomes of the batches, the draws and the time when training resumes."""

from __future__ import annotations

import math

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.resume_fixes import (
    SAVE_GENERATORS,
    SAVE_PLACE,
    SEED_BY_EPOCH,
    SEED_BY_KEY,
    STATEFUL,
)
from loaderviz._doctor.resume_runs import BY_NUMBER, BY_STATE, Way, resumable
from loaderviz._doctor.resume_trial import Attempt, ResumeTrial
from loaderviz.text import count, duration, percent, size

MOST_DIFFER = 0.5  # of a stream's batches: if more differ, contents may vary by themselves


def _trial(case: Case) -> ResumeTrial | None:
    """The trial; None where nobody wants to resume. Raises Undecided if it could not be made."""
    if not resumable(case.setup.loader) and not case.setup.resume:
        return None
    case.epoch()
    trial = case.resume_trial
    if trial is None:
        raise Undecided("resuming was not tried out: it takes a copy of this process, and time")
    if trial.undecided:
        raise Undecided(f"resuming could not be tried out: {trial.undecided}")
    return trial


def _attempt(case: Case, way: Way) -> tuple[ResumeTrial, Attempt] | None:
    """The first attempt of this way; None where there is none. Raises Undecided."""
    trial = _trial(case)
    if trial is None or trial.attempts[0].way != way:
        return None
    first = trial.attempts[0]
    if first.run.failure:
        raise Undecided(f"it could not be resumed here: {first.run.failure}")
    return trial, first


def _evidence(trial: ResumeTrial, attempt: Attempt) -> tuple[str, str]:
    difference = attempt.difference
    assert difference is not None
    batch = trial.n_before + difference.at
    return (
        f"stopped after {count(trial.n_before, 'batch', 'batches')} and resumed in a new process "
        f"from {attempt.way.saved}: {difference.text}",
        f"{difference.n_batches} of {difference.n_compared} batches differ, the first is batch "
        f"{batch}",
    )


@check(
    "LV109",
    "Resuming from state_dict() skips, repeats or reorders batches",
    "error",
    notebook=11,
    threads="meta-pytorch/data#1437",
)
def _resumes_elsewhere(case: Case) -> Seen | None:
    tried = _attempt(case, BY_STATE)
    if tried is None:
        return None
    trial, attempt = tried
    difference = attempt.difference
    if difference is None or difference.kind == "draws":
        return _after_the_end(trial)
    stream = not trial.whole.batches[0].keys
    many = difference.n_batches > MOST_DIFFER * difference.n_compared
    with_generators = trial.attempt(BY_STATE)
    assert with_generators is not None
    if stream and with_generators.exact:
        return None  # the batches were those: see LV111
    if stream and many and difference.kind == "order" and not _is_steady(case):
        raise Undecided("contents differ on every read, so they say nothing about the order")
    return seen(*_evidence(trial, attempt), fix=_fix_of_state(case))


def _fix_of_state(case: Case) -> str:
    if "snapshot_every_n_steps" not in case.setup.settings:
        return STATEFUL
    return _skip_fix(case)  # torchdata's: it goes on where its dataset and sampler can


def _after_the_end(trial: ResumeTrial) -> Seen | None:
    n, n_whole = trial.n_after_end, len(trial.whole.batches)
    if n is None or n >= n_whole:
        return None
    return seen(
        f"saved after the last batch of an epoch: the epoch after resuming has "
        f"{count(n, 'batch', 'batches')} in place of {n_whole}",
        fix=STATEFUL,
    )


def _is_steady(case: Case) -> bool:
    """Whether nothing was drawn from a generator between two batches: contents do not vary."""
    notes = [note for note in case.epoch().notes if note.states]
    first_two = [note for note in notes if note.worker == notes[0].worker][:2]
    return len(first_two) == 2 and first_two[0].states == first_two[1].states


@check(
    "LV110",
    "Resuming by the number of batches alone: the epoch goes on in another order",
    "warning",
    notebook=11,
    threads="huggingface/accelerate#2016",
)
def _other_order(case: Case) -> Seen | None:
    tried = _attempt(case, BY_NUMBER)
    if tried is None:
        return None
    trial, attempt = tried
    difference = attempt.difference
    best = trial.attempt(BY_NUMBER)
    assert best is not None
    if difference is None or difference.kind == "draws":
        return None
    if not trial.whole.batches[0].keys and best.exact:
        raise Undecided("of a stream, other draws and another order look the same: see LV111")
    cured = "with the states of the generators at the start of the epoch restored, all are the same"
    return seen(
        *_evidence(trial, attempt),
        cured if best.exact else "the states of the generators do not bring them back, either",
        fix=SEED_BY_EPOCH,
    )


@check(
    "LV111",
    "After resuming, random draws are others",
    "warning",
    notebook=11,
    threads="huggingface/transformers#21390",
)
def _other_draws(case: Case) -> Seen | None:
    tried = _attempt(case, BY_STATE) or _attempt(case, BY_NUMBER)
    if tried is None or tried[1].exact:
        return None
    trial, attempt = tried
    difference = attempt.difference
    assert difference is not None
    best = trial.attempt(attempt.way)
    cured = best is not None and best.exact
    stream = not trial.whole.batches[0].keys
    if difference.kind != "draws" and not (stream and cured):
        return None  # see LV109 and LV110
    text = "with the states of the generators restored, all are the same"
    by_generators = cured and attempt.way.by_state
    return seen(
        *_evidence(trial, attempt),
        text if cured else "the states of the generators of the main process do not help",
        fix=SAVE_GENERATORS if by_generators else SEED_BY_KEY,
    )


@check(
    "LV112",
    "To resume, all batches before are read once more",
    "advice",
    notebook=11,
    threads="huggingface/transformers#21934 huggingface/accelerate#2859",
)
def _reads_again(case: Case) -> Seen | None:
    trial = _trial(case)
    if trial is None:
        return None
    if math.isnan(trial.go_on_s):
        raise Undecided("no batch came after resuming")
    if not trial.is_dear:
        return None
    evidence = [
        f"going on after {count(trial.n_before, 'batch', 'batches')} took "
        f"{duration(trial.go_on_s)}; the first batch of an epoch takes {duration(trial.start_s)}",
    ]
    in_sampler = trial.attempt(Way("", in_sampler=True))
    if in_sampler is not None and in_sampler.run.delivered_s:
        evidence.append(
            f"with their keys skipped in the sampler it took "
            f"{duration(in_sampler.run.delivered_s[0])}"
        )
    return seen(*evidence, fix=_skip_fix(case))


def _skip_fix(case: Case) -> str:
    if case.setup.iterable:
        return SAVE_PLACE
    return SEED_BY_EPOCH


@check(
    "LV113",
    "Workers send their state with every batch, and that takes time",
    "advice",
    notebook=11,
    threads="meta-pytorch/data#1317 meta-pytorch/data#1283",
)
def _dear_snapshots(case: Case) -> Seen | None:
    if "snapshot_every_n_steps" not in case.setup.settings:
        return None
    case.epoch()
    trial = case.snapshot_trial
    if trial is None or not trial.is_dear:
        return None
    resumed = case.resume_trial
    of_size = f" of {size(resumed.stopped.state_bytes)}" if resumed else ""
    return seen(
        f"with snapshot_every_n_steps={trial.every}, a state{of_size}, each batch takes "
        f"{duration(trial.snapshot_s)} more: {percent(trial.gain)} of its time",
        fix="""
# As often as you save; it goes on exactly from between two snapshots, too.
StatefulDataLoader(dataset, ..., snapshot_every_n_steps=1000)
""",
    )
