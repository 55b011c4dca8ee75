"""Tries out whether a loader resumes: stops it, saves what there is to save, goes on elsewhere.

One process goes on, one stops amid the epoch, and new ones resume, with other random numbers, from
what the second has saved: see ``resume_runs``. Its batches are compared with those of the first.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch.utils.data import DataLoader

from loaderviz._doctor.loader_setup import Setup, resumable
from loaderviz._doctor.resume_runs import (
    BY_NUMBER,
    BY_STATE,
    NO_RUN,
    STATE_FILE,
    Run,
    SeenBatch,
    Way,
    load_given,
    resume,
    run_and_save,
    run_in_process,
)
from loaderviz._doctor.run_epochs import MOST_BATCHES
from loaderviz.loaders.copy_loader import copy_loader

LEAST_BEFORE = 3  # batches until the interruption, where the epoch has twice as many
MOST_BEFORE_S = 0.5  # that they take: what skipping costs has to show
DEAR_S = 0.1  # that the batches before take at least, where reading them again is worth a word
DEAR_SHARE = 0.7  # of that time, by which going on is later than beginning


# "draws": the same samples in the same order with other contents; "anew": from the beginning;
# "counts": some come again or never; "others": contents that neither run had before.
Kind = Literal["draws", "anew", "counts", "order", "others"]


@dataclass(frozen=True)
class Difference:
    """Where a resumed run leaves the run that went on, and how."""

    kind: Kind
    at: int  # the first batch that differs, counted from 0 where it resumed
    n_batches: int  # that differ, of those that were compared
    n_compared: int
    text: str  # the same in words


@dataclass(frozen=True)
class Attempt:
    """One way to resume, tried out."""

    way: Way
    run: Run
    difference: Difference | None = None  # from the run that went on; None also after a failure

    @property
    def exact(self) -> bool:
        """Whether the same batches came."""
        return not self.run.failure and self.difference is None


@dataclass(frozen=True)
class ResumeTrial:
    """A loader that went on, was stopped, and was resumed."""

    whole: Run = NO_RUN
    stopped: Run = NO_RUN
    attempts: tuple[Attempt, ...] = ()  # the last one restores most
    undecided: str = ""  # why it could not be tried out
    misfit: str = ""  # why the state that was given does not fit
    n_after_end: int | None = None  # batches of the epoch after a state saved at an epoch's end

    @property
    def n_before(self) -> int:
        """How many batches came before the interruption."""
        return len(self.stopped.batches)

    @property
    def start_s(self) -> float:
        """From iter() to the first batch of an epoch, in seconds; the longer one of two."""
        return max(self.whole.delivered_s[0], self.stopped.delivered_s[0])

    @property
    def before_s(self) -> float:
        """From the first batch to the last one before the interruption, in seconds."""
        return self.whole.delivered_s[self.n_before - 1] - self.whole.delivered_s[0]

    @property
    def go_on_s(self) -> float:
        """From resuming to the first new batch, in seconds: the shortest; NaN if none came."""
        first_s = [each.run.delivered_s[0] for each in self.attempts if each.run.delivered_s]
        return min(first_s, default=float("nan"))

    @property
    def is_dear(self) -> bool:
        """Whether going on takes about as long as the batches before once more."""
        extra_s = self.go_on_s - self.start_s
        return self.before_s >= DEAR_S and extra_s >= DEAR_SHARE * self.before_s


def pristine_copy(setup: Setup) -> DataLoader[Any] | None:
    """A deep copy of the loader, as nothing has iterated it; None if it cannot be copied."""
    try:
        return copy.deepcopy(copy_loader(setup.loader))  # without an iterator that it holds
    except Exception:
        return None


def try_to_resume(setup: Setup, loader: Any, folder: Path, until: float) -> ResumeTrial:
    """Let one process go on, stop another one amid the epoch, and resume in new ones.

    Args:
        setup: the loader's; ``setup.resume`` may hold a state that was saved elsewhere.
        loader: see ``pristine_copy``; None: it cannot be copied.
        folder: for what is saved.
        until: when to give up, in seconds of ``time.monotonic()``.
    """
    if loader is None:
        return ResumeTrial(undecided="the loader cannot be copied (copy.deepcopy)")
    half = time.monotonic() + 0.4 * (until - time.monotonic())
    whole = run_in_process(run_and_save, loader, folder / "whole", MOST_BATCHES, half, until=until)
    if whole.failure or len(whole.batches) < 2:
        reason = whole.failure or "the epoch is too short to be interrupted"
        return ResumeTrial(whole, undecided=reason)
    n_before = _where_to_stop(whole)
    stopped = run_in_process(run_and_save, loader, folder / "stopped", n_before, until=until)
    trial = ResumeTrial(whole, stopped)
    if stopped.failure or any(batch.identity is None for batch in whole.batches):
        reason = stopped.failure or "batches cannot be compared by their contents"
        return replace(trial, undecided=reason)
    if stopped.batches != whole.batches[:n_before]:
        reason = "contents differ between two runs that began with all generators in the same state"
        return replace(trial, undecided=reason)
    while (way := _next_way(loader, trial)) is not None:
        attempt = _attempt(way, trial, loader, folder, until)
        trial = replace(trial, attempts=(*trial.attempts, attempt))
    if isinstance(setup.resume, Mapping):
        file = folder / "stopped" / STATE_FILE
        run = run_in_process(load_given, loader, folder / "given", file, setup.resume, until=until)
        trial = replace(trial, misfit=run.failure)
    if resumable(loader) and whole.ended:
        trial = replace(trial, n_after_end=_after_the_end(trial, loader, folder, until))
    return trial


def _where_to_stop(whole: Run) -> int:
    """How many batches come before the interruption."""
    times_s = whole.delivered_s
    n = sum(time_s - times_s[0] < MOST_BEFORE_S for time_s in times_s)
    return max(1, min(max(n, LEAST_BEFORE), len(times_s) // 2))


def _next_way(loader: Any, trial: ResumeTrial) -> Way | None:
    """What to try next, by what was tried; None: that is all."""
    first = BY_STATE if resumable(loader) else BY_NUMBER
    if not trial.attempts:
        return first
    if len(trial.attempts) > 1:
        return None
    if not trial.attempts[0].exact:
        when = "stop" if first.by_state else "start"
        return replace(first, saved=f"{first.saved} and the generators", generators=when)
    return first if trial.is_dear else None  # once more: machines are busy now and then


def _attempt(way: Way, trial: ResumeTrial, loader: Any, folder: Path, until: float) -> Attempt:
    whole, n_before = trial.whole, trial.n_before
    before, expected = whole.batches[:n_before], whole.batches[n_before:]
    most = len(expected) + (n_before + 1 if whole.ended else 0)
    file = folder / "stopped" / STATE_FILE
    own = folder / f"resumed-{len(trial.attempts)}"
    run = run_in_process(resume, loader, own, way, file, n_before, most, until=until)
    if run.failure:
        return Attempt(way, run)
    return Attempt(way, run, compare(before, expected, run.batches, complete=whole.ended))


def _after_the_end(trial: ResumeTrial, loader: Any, folder: Path, until: float) -> int | None:
    """How many batches the epoch has that follows a state saved at an epoch's end.

    None if that could not be tried out.
    """
    n, file = len(trial.whole.batches) + 1, folder / "whole" / STATE_FILE
    run = run_in_process(resume, loader, folder / "after", BY_STATE, file, 0, n, until=until)
    return None if run.failure else len(run.batches)


def compare(
    before: Sequence[SeenBatch],
    expected: Sequence[SeenBatch],
    resumed: Sequence[SeenBatch],
    *,
    complete: bool,
) -> Difference | None:
    """The difference between what came after an interruption and what should have come.

    Args:
        before: the batches until the interruption.
        expected: those with which the uninterrupted run went on.
        resumed: those that the new process delivered.
        complete: whether ``expected`` and ``resumed`` reach to the end of the epoch.

    Returns:
        None where all batches are the same.
    """
    if not complete:
        n = min(len(expected), len(resumed))
        expected, resumed = expected[:n], resumed[:n]
    if not all(batch.keys for batch in (*before, *expected, *resumed)):  # not of all known
        before, expected, resumed = (
            [SeenBatch(batch.digest) for batch in part] for part in (before, expected, resumed)
        )
    ids, resumed_ids = _identities(expected), _identities(resumed)
    kind: Kind = "draws"
    text = "the same samples in the same order, with other random draws"
    if ids == resumed_ids:
        ids, resumed_ids = ([each.digest for each in part] for part in (expected, resumed))
    else:
        kind, text = _how(before, expected, resumed, complete=complete)
    same = [one == other for one, other in zip(ids, resumed_ids, strict=False)]
    n_compared = max(len(ids), len(resumed_ids))
    if sum(same) == n_compared:
        return None
    at = same.index(False) if False in same else len(same)
    return Difference(kind, at, n_compared - sum(same), n_compared, text)


def _identities(batches: Sequence[SeenBatch]) -> Sequence[Hashable]:
    return [batch.identity for batch in batches]


def _how(
    before: Sequence[SeenBatch],
    expected: Sequence[SeenBatch],
    resumed: Sequence[SeenBatch],
    *,
    complete: bool,
) -> tuple[Kind, str]:
    """The kind of difference between the batches of two runs, and what happened, in words."""
    was, due, came = map(_identities, (before, expected, resumed))
    if was and came[: len(was)] == was:
        return "anew", "the epoch begins anew: what came before comes a second time"
    if {*came} - {*was, *due} and not any(batch.keys for batch in resumed):
        return "others", "the batches have other contents"
    if not complete:
        return "order", "the batches are others"
    right, found = _units([*before, *expected]), _units([*before, *resumed])
    again, never = (found - right).total(), (right - found).total()
    unit = "samples" if any(batch.keys for batch in expected) else "batches"
    if not again and not never:
        return "order", f"the same {unit} in another order"
    n = right.total()
    return "counts", f"of {n} {unit} of the epoch, {again} come again and {never} never"


def _units(batches: Sequence[SeenBatch]) -> Counter[Hashable]:
    """What is counted: samples by their keys, or whole batches of a stream."""
    return Counter(unit for batch in batches for unit in (batch.keys or (batch.digest,)))
