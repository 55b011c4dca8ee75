"""The runs of an examination: a copy of the loader is iterated a bounded number of times.

``run_all`` sends what it learns at once, so that a run which ends badly leaves the earlier ones.
"""

from __future__ import annotations

import contextlib
import copy
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, SequentialSampler

from loaderviz._contents.compared_contents import ComparedContents, compare_contents
from loaderviz._contents.pristine_copy import PristineCopy, collates
from loaderviz._doctor import batch_probe
from loaderviz._doctor.checks import LOOKS, LookFor, NotLearnt
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.process_state import WatchedFiles, positions
from loaderviz._doctor.resume_trial import pristine_copy, try_to_resume
from loaderviz._doctor.run_epochs import PLAIN, Epoch, Send, iterate, set_epoch
from loaderviz._doctor.run_outcomes import (
    Trouble,
    alarm,
    child_processes,
    end_workers,
    kind_of,
)
from loaderviz.errors import error_text
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.held_objects import is_a
from loaderviz.recorder import Recording
from loaderviz.trace import load

EPOCHS = 2
CONTENTS_SHARE = 0.1  # of the budget, to read keys alone
# Of the budget, when each has to have ended; what hangs is then ended, and tells of itself.
END_SHARES = {PLAIN: 0.5, "looks": 0.85, "resume": 0.97}


@dataclass(frozen=True)
class Lengths:
    """What ``len()`` says; None where it says nothing or was not asked."""

    dataset: int | None = None
    loader: int | None = None


@dataclass(frozen=True)
class MovedFiles:
    """Files that were open when workers began, and stand elsewhere since: descriptors, paths.

    ``still``: the descriptors of files that the dataset holds, and that stood where they stood
    whenever a batch had come: where the last sample ends, a file may have stood before.
    """

    files: tuple[tuple[int, str], ...]
    still: frozenset[int] = frozenset()


def run_all(setup: Setup, folder: Path, budget_s: float, send: Send, *, copied: bool) -> None:
    """Learn all that the checks need from running the loader, in as few runs as possible.

    Args:
        setup: the loader.
        folder: where the recording goes, as ``PLAIN``.
        budget_s: seconds for all runs together.
        send: is called with each observation as soon as there is one: Lengths, EpochSet, Epoch,
            Contents, MovedFiles, Trouble, ResumeTrial, what a look returns, or a NotLearnt.
        copied: whether this process is a copy, in which the user's objects may be changed.
    """
    try:
        _run_all(setup, folder, budget_s, send, copied=copied)
    except Exception as error:  # outside of iterating: in set_epoch, or when the copy is made
        send(Trouble(PLAIN, kind_of(error), error_text(error)))


def _run_all(setup: Setup, folder: Path, budget_s: float, send: Send, *, copied: bool) -> None:
    now = time.monotonic()
    already_running = child_processes()
    until = {run: now + budget_s * share for run, share in END_SHARES.items()}
    if not _send_lengths(setup, send):
        return
    to_resume = copied and setup.is_to_resume
    pristine = pristine_copy(setup) if to_resume else None
    probed = _probed(setup, budget_s)
    with _undisturbed(setup, copied) as undisturbed:
        stood, files = positions(), WatchedFiles(part.value for part in setup.parts)
        with Recording((probed,), path=folder / PLAIN):
            first_epoch = iterate(
                probed,
                setup,
                EPOCHS,
                folder / PLAIN,
                until[PLAIN],
                send,
                at_batch=files.look,
                copied=copied,
            )
        stand = positions()
        moved = [file for file, position in stood.items() if stand.get(file, position) != position]
        send(MovedFiles(tuple(moved), files.still()))
        if undisturbed is not None and first_epoch is not None:
            set_epoch(setup.dataset, 0)  # which may lie in memory that copies share
            seconds = CONTENTS_SHARE * budget_s
            send(_compare_first_epoch(setup, undisturbed, first_epoch, folder / PLAIN, seconds))
    went_well = first_epoch is not None
    for look in LOOKS:
        if (copied or look.anywhere) and (went_well or look.after_failure):
            _look(look, setup, until["looks"], send, copied=copied)
    if went_well and to_resume:
        send(try_to_resume(setup, pristine, folder, until["resume"]))
    end_workers(already_running)


def _undisturbed(setup: Setup, copied: bool) -> AbstractContextManager[PristineCopy | None]:
    """A copy of this process to read keys in, where this process is a copy itself."""
    if copied and not setup.iterable:
        set_epoch(setup.dataset, 0)  # as before the epoch that is compared
        return PristineCopy(setup.dataset, collates(setup.loader))
    return contextlib.nullcontext()


def _compare_first_epoch(
    setup: Setup, pristine: PristineCopy, epoch: Epoch, recording: Path, budget_s: float
) -> ComparedContents:
    """Compare the samples of this epoch, whose notes say what each held when it was collated.

    A later epoch may rightly hold others, where the dataset knows the number of its epoch.
    """
    noted = [[note.held for note in epoch.notes]]
    return compare_contents(setup.loader, load(recording), noted, pristine, budget_s)


def _look(look: LookFor, setup: Setup, until: float, send: Send, *, copied: bool) -> None:
    try:
        with alarm(until) if copied else contextlib.nullcontext():
            observation = look.function(setup, until)
    except Exception as error:
        late = isinstance(error, TimeoutError)
        why = "there was no time left" if late else error_text(error)
        observation = NotLearnt(look.learns, why)
    send(NotLearnt(look.learns) if observation is None else observation)


def _send_lengths(setup: Setup, send: Send) -> bool:
    """Send the lengths; returns whether the loader can be run with such a dataset."""
    dataset: Any = setup.dataset
    if not hasattr(type(dataset), "__len__"):
        return True
    try:
        length = len(dataset)
    except Exception as error:
        # A stream may not know; and a map-style dataset is not asked where a sampler knows.
        unknown = setup.iterable and isinstance(error, TypeError | NotImplementedError)
        if unknown or not (setup.iterable or is_a(setup.sampler.value, SequentialSampler)):
            return True
        send(Trouble(PLAIN, "length", error_text(error)))
        return False
    send(Lengths(length))
    with contextlib.suppress(Exception):  # raised by a sampler without a length
        send(Lengths(length, len(copy.copy(setup.loader))))
    return True


def _probed(setup: Setup, budget_s: float) -> DataLoader[Any]:
    """A copy of the loader that shares its dataset and sampler, with the probes in place."""
    settings = setup.settings
    changes: dict[str, Any] = {
        "collate_fn": batch_probe.Probe(
            settings["collate_fn"],
            None if setup.num_workers else setup.dataset,
            batched=settings["batch_sampler"] is not None,
            labels=setup.iterable,
            # That takes milliseconds in a large process, and tells only of these.
            weigh=bool(setup.num_workers and setup.forks and setup.large_containers),
        ),
    }
    if setup.num_workers:
        changes["worker_init_fn"] = batch_probe.WorkerStart(
            settings["worker_init_fn"], settings["collate_fn"]
        )
        changes["timeout"] = min(settings["timeout"] or budget_s, 0.5 * budget_s)
    return copy_loader(setup.loader, **changes)
