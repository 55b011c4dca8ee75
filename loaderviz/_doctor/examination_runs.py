"""The runs of an examination: a copy of the loader is iterated a bounded number of times.

``run_all`` sends what it learns at once, so that a run which ends badly leaves the earlier ones.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, SequentialSampler

from loaderviz._doctor import batch_probe
from loaderviz._doctor.batch_contents import contents_of
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.pickle_trial import unpicklable_part
from loaderviz._doctor.process_state import epoch_of
from loaderviz._doctor.resume_runs import resumable
from loaderviz._doctor.resume_trial import pristine_copy, try_to_resume
from loaderviz._doctor.run_outcomes import (
    OwnFault,
    Trouble,
    alarm,
    child_processes,
    end_workers,
    error_text,
    kind_of,
    stacks_of_workers,
    wait_channels,
)
from loaderviz._doctor.shape_trial import find_unequal_shapes
from loaderviz._doctor.slice_trial import try_slices
from loaderviz._doctor.snapshot_trial import try_snapshots
from loaderviz._doctor.start_trial import is_worth_trying, try_starts
from loaderviz._doctor.switch_trial import computes_and_hands_over_late, try_quick_switches
from loaderviz.loaders.copy_loader import copy_loader, let_go_of_iterator
from loaderviz.loaders.held_objects import attributes, is_a
from loaderviz.recorder import Recording
from loaderviz.trace import load

MOST_BATCHES = 500  # of an epoch
MOST_SAMPLES = 100_000
EPOCHS = 2
LATE_S = 0.5  # a run is broken off so long after its time is up
# Of the budget, when a run has to end.
END_SHARES = {
    "plain": 0.5,
    "switch": 0.7,
    "alone": 0.75,
    "slice": 0.8,
    "start": 0.85,
    "resume": 0.92,
    "snapshot": 0.97,
}

Send = Callable[[Any], None]


@dataclass(frozen=True)
class RunBegun:
    """A run begins."""

    run: str  # see ``Epoch.run``, "switch", "slice", "start", "resume" or "snapshot"


@dataclass(frozen=True)
class Lengths:
    """What ``len()`` says; None where it says nothing or was not asked."""

    dataset: int | None = None
    loader: int | None = None


@dataclass(frozen=True)
class EpochSet:
    """``dataset.epoch`` was set, as a training loop does."""

    number: int  # of the epoch of the run
    value: int | None  # that dataset.epoch had then


@dataclass(frozen=True)
class Epoch:
    """One epoch of one run, as far as it came. Times are seconds of the doctor's own loop."""

    run: str  # "plain": the loader as it is; "alone": without workers
    number: int
    notes: tuple[batch_probe.Note, ...]  # in order of delivery
    complete: bool
    first_s: float  # from iter() to the first batch
    delivered_s: tuple[float, ...]  # since iter()
    steps_s: float = 0.0  # what a recorded loop did with all batches but the last

    @property
    def n_samples(self) -> int:
        """Samples that were delivered."""
        return sum(note.n_samples for note in self.notes)

    @property
    def pace_s(self) -> float:
        """Seconds per batch after the first one, without the time the doctor took for digests."""
        delivered_s = self.delivered_s
        if len(delivered_s) < 2:
            return float("nan")
        n_processes = len({note.pid for note in self.notes})
        digest_s = sum(note.digest_s for note in self.notes[1:]) / n_processes
        loading_s = delivered_s[-1] - delivered_s[0] - digest_s - self.steps_s
        return max(loading_s, 1e-9) / (len(delivered_s) - 1)


def run_all(setup: Setup, folder: Path, budget_s: float, send: Send, *, copied: bool) -> None:
    """Learn all that the checks need from running the loader, in as few runs as possible.

    Args:
        setup: the loader.
        folder: where recordings go.
        budget_s: seconds for all runs together.
        send: is called with each RunBegun, Lengths, EpochSet, Epoch, Contents, SwitchTrial,
            SliceTrial, StartTrial, UnequalShapes, Unpicklable, ResumeTrial, SnapshotTrial or
            Trouble as soon as there is one.
        copied: whether this process is a copy, in which the user's objects may be changed.
    """
    try:
        _run_all(setup, folder, budget_s, send, copied=copied)
    except Exception as error:  # outside of iterating: in set_epoch, or when the copy is made
        send(Trouble("plain", 0, kind_of(error), error_text(error)))


def _run_all(setup: Setup, folder: Path, budget_s: float, send: Send, *, copied: bool) -> None:
    begun_s = time.monotonic()
    already_running = child_processes()
    until = {run: begun_s + budget_s * share for run, share in END_SHARES.items()}
    if not _send_lengths(setup, send):
        return
    to_resume = copied and (resumable(setup.loader) or bool(setup.resume))
    pristine = pristine_copy(setup) if to_resume else None
    probed = _probed(setup, budget_s)
    kinds: set[str] = set()  # of failures

    def send_and_note(message: Any) -> None:
        if isinstance(message, Trouble):
            kinds.add(message.kind)
        send(message)

    end = until["plain"]
    if not _iterate("plain", probed, setup, EPOCHS, folder, end, send_and_note, copied=copied):
        if copied and "shapes" in kinds:
            with contextlib.suppress(Exception), alarm(until["switch"]):
                send(find_unequal_shapes(setup, until["switch"]))
        if copied and "pickle" in kinds:
            with contextlib.suppress(Exception), alarm(until["switch"]):
                send(unpicklable_part(setup, until["switch"]))
        end_workers(already_running)
        return
    if setup.num_workers:
        with contextlib.suppress(Exception):  # a trial that fails shows nothing
            trace = load(folder / "plain")
            if computes_and_hands_over_late(trace):
                send(RunBegun("switch"))
                batch_s = float(trace.batches["cpu_s"].mean())
                send(try_quick_switches(setup, batch_s, until["switch"]))
        probed = _probed(setup, budget_s, num_workers=0)
        took_s = time.monotonic() - begun_s  # alone, it may take that long for each worker
        end = min(until["alone"], time.monotonic() + 1 + setup.num_workers * took_s)
        _iterate("alone", probed, setup, 1, folder, end, send, copied=copied)
    if copied:
        with contextlib.suppress(Exception), alarm(until["slice"]):  # most datasets take no list
            send(RunBegun("slice"))
            send(try_slices(setup, until["slice"]))
    if copied and setup.num_workers:
        with contextlib.suppress(Exception), alarm(until["start"]):
            trace = load(folder / "plain")
            if is_worth_trying(setup, trace):
                send(RunBegun("start"))
                send(try_starts(setup, trace, until["start"]))
    if to_resume:
        send(RunBegun("resume"))
        send(try_to_resume(setup, pristine, folder, until["resume"]))
        with contextlib.suppress(Exception), alarm(until["snapshot"]):
            send(RunBegun("snapshot"))
            send(try_snapshots(setup, until["snapshot"]))
    end_workers(already_running)


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
        text = f"len(dataset) raises {type(error).__name__}: {error}"
        send(Trouble("plain", 0, "length", text))
        return False
    send(Lengths(length))
    with contextlib.suppress(Exception):  # raised by a sampler without a length
        send(Lengths(length, len(copy.copy(setup.loader))))
    return True


def _probed(setup: Setup, budget_s: float, *, num_workers: int | None = None) -> DataLoader[Any]:
    """A copy of the loader that shares its dataset and sampler, with the probes in place."""
    settings = setup.settings
    workers = setup.num_workers if num_workers is None else num_workers
    changes: dict[str, Any] = {
        "num_workers": workers,
        "collate_fn": batch_probe.Probe(
            settings["collate_fn"],
            None if workers else setup.dataset,
            batched=settings["batch_sampler"] is not None,
            digest=is_a(setup.dataset, IterableDataset),
        ),
    }
    if workers:
        changes["worker_init_fn"] = batch_probe.WorkerStart(settings["worker_init_fn"])
        changes["timeout"] = min(settings["timeout"] or budget_s, 0.5 * budget_s)
    elif num_workers == 0 and setup.iterable:
        changes["drop_last"] = False
    return copy_loader(setup.loader, **changes)


def _iterate(
    run: str,
    loader: DataLoader[Any],
    setup: Setup,
    n_epochs: int,
    folder: Path,
    until: float,
    send: Send,
    *,
    copied: bool,
) -> bool:
    """Iterate ``loader`` for so many epochs; returns whether all went well."""
    already_running = child_processes()
    send(RunBegun(run))
    with Recording((loader,), path=folder / run):
        progress = _EpochProgress(run, 0)
        for number in range(n_epochs):
            if number and time.monotonic() + progress.first_s > until:
                return True  # no time for another
            if copied and run == "plain":
                _set_epoch(setup.dataset, number, send)
            epoch_until = time.monotonic() + (until - time.monotonic()) / (n_epochs - number)
            progress = _EpochProgress(run, number)
            failure: Exception | None = None
            try:
                with alarm(until + LATE_S) if copied else contextlib.nullcontext():
                    progress.iterate(loader, epoch_until)
            except Exception as error:
                failure = error
            if failure is not None:
                send(progress.epoch(complete=False))
                send(_trouble(progress, failure, folder / run))
                failure = None
                if copied:
                    let_go_of_iterator(loader)
                    _have_iterators_end()
                end_workers(already_running)  # otherwise torch waits for each, and one may be stuck
                return False
            send(progress.epoch(complete=progress.ended))
            if number == 0 and run == "plain" and progress.first_batch is not None:
                send(contents_of(progress.first_batch[0]))
                progress.first_batch = None
    return True


def _trouble(progress: _EpochProgress, error: Exception, recording: Path) -> Trouble:
    trouble = Trouble(progress.run, progress.number, kind_of(error), error_text(error))
    if trouble.kind != "stuck":
        return trouble
    stacks = stacks_of_workers(recording)
    return replace(trouble, wait_channels=wait_channels(), stacks=stacks)


def _have_iterators_end() -> None:
    """Have torch end the workers of iterators that nothing holds any more, but not for long.

    That sets an event; once workers have been killed, one of which may have held its lock, it would
    wait for ever. Torch's error is one of a ring of objects, and holds the iterator until then.
    """
    with contextlib.suppress(TimeoutError), alarm(time.monotonic() + LATE_S):
        gc.collect()


class _EpochProgress:
    """What has been delivered while an epoch is iterated."""

    def __init__(self, run: str, number: int) -> None:
        self.run, self.number = run, number
        self.notes: list[batch_probe.Note] = []
        self.delivered_s: list[float] = []
        self.first_batch: Any = None
        self.ended = False

    def iterate(self, loader: DataLoader[Any], until: float) -> None:
        begun_s = time.perf_counter()
        n_samples = 0
        for batch, note in loader:
            self.delivered_s.append(time.perf_counter() - begun_s)
            if type(note) is not batch_probe.Note:
                note = batch_probe.Note(*note)  # pinning rebuilds it
            if note.fault:
                raise OwnFault(note.fault)
            if self.first_batch is None:
                self.first_batch = (batch,)
            self.notes.append(note)
            n_samples += note.n_samples
            if (
                len(self.notes) >= MOST_BATCHES
                or n_samples >= MOST_SAMPLES
                or time.monotonic() > until
            ):
                return
        self.ended = True

    @property
    def first_s(self) -> float:
        return self.delivered_s[0] if self.delivered_s else float("nan")

    def epoch(self, *, complete: bool) -> Epoch:
        notes, delivered_s = tuple(self.notes), tuple(self.delivered_s)
        return Epoch(self.run, self.number, notes, complete, self.first_s, delivered_s)


def _set_epoch(dataset: Any, number: int, send: Send) -> None:
    """As a training loop does with a dataset that wants to know."""
    if epoch_of(dataset) is None:
        return
    if callable(getattr(dataset, "set_epoch", None)):
        dataset.set_epoch(number)
    elif type(attributes(dataset)["epoch"]) is int:
        dataset.epoch = number
    else:
        return
    send(EpochSet(number, epoch_of(dataset)))
