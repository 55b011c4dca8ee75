"""One run of an examination: some epochs of a loader are iterated, and each batch is noted."""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._doctor import batch_probe
from loaderviz._doctor.batch_contents import contents_of
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.process_state import epoch_of
from loaderviz._doctor.run_outcomes import (
    OwnFault,
    Trouble,
    alarm,
    child_processes,
    end_workers,
    kind_of,
    stacks_of_workers,
    wait_channels,
)
from loaderviz.errors import error_text
from loaderviz.loaders.copy_loader import let_go_of_iterator
from loaderviz.loaders.held_objects import attributes

PLAIN = "plain"  # the loader as it is: of its run, and the folder of its recording
MOST_BATCHES = 500  # of an epoch that are looked at
MOST_SAMPLES = 100_000
LATE_S = 0.5  # a run is broken off so long after its time is up

Send = Callable[[Any], None]


@dataclass(frozen=True)
class EpochSet:
    """``dataset.epoch`` was set, as a training loop does."""

    value: int | None  # that dataset.epoch had then


@dataclass(frozen=True)
class Epoch:
    """One epoch, as far as it came. Times are seconds of the doctor's own loop."""

    number: int
    notes: tuple[batch_probe.Note, ...]  # in order of delivery
    complete: bool
    delivered_s: tuple[float, ...]  # since iter()
    steps_s: float = 0.0  # what a recorded loop did with all batches but the last

    @property
    def first_s(self) -> float:
        """From iter() to the first batch."""
        return self.delivered_s[0] if self.delivered_s else math.nan

    @property
    def n_samples(self) -> int:
        """Samples that were delivered."""
        return sum(note.n_samples for note in self.notes)

    def notes_by_worker(self) -> dict[int, list[batch_probe.Note]]:
        """The notes of each worker that delivered a batch; -1: the main process."""
        by_worker: dict[int, list[batch_probe.Note]] = {}
        for note in self.notes:
            by_worker.setdefault(note.worker, []).append(note)
        return by_worker

    def first_notes(self) -> dict[int, list[batch_probe.Note]]:
        """The same, of those with the states of generators: a worker's first two batches."""
        found = {
            worker: [note for note in notes if note.states]
            for worker, notes in self.notes_by_worker().items()
        }
        return {worker: notes for worker, notes in found.items() if notes}

    @property
    def pace_s(self) -> float:
        """Seconds per batch after the first one, without the time the doctor took for digests."""
        delivered_s = self.delivered_s
        if len(delivered_s) < 2:
            return math.nan
        n_processes = len(self.notes_by_worker())
        digest_s = sum(note.digest_s for note in self.notes[1:]) / n_processes
        loading_s = delivered_s[-1] - delivered_s[0] - digest_s - self.steps_s
        return max(loading_s, 1e-9) / (len(delivered_s) - 1)


def iterate(
    loader: DataLoader[Any],
    setup: Setup,
    n_epochs: int,
    recorded_in: Path,
    until: float,
    send: Send,
    *,
    at_batch: Callable[[], object],
    copied: bool,
) -> Epoch | None:
    """Iterate ``loader`` for so many epochs; returns the first, or None where something failed.

    ``recorded_in`` is the folder of a recording that is under way. ``at_batch`` is called whenever
    a batch has come.
    """
    already_running = child_processes()
    first: Epoch | None = None
    for number in range(n_epochs):
        if first is not None and time.monotonic() + first.first_s > until:
            return first  # no time for another
        if copied and set_epoch(setup.dataset, number):
            send(EpochSet(epoch_of(setup.dataset)))
        epoch_until = time.monotonic() + (until - time.monotonic()) / (n_epochs - number)
        progress = _EpochProgress(number)
        failure: Exception | None = None
        try:
            with alarm(until + LATE_S) if copied else contextlib.nullcontext():
                progress.iterate(loader, epoch_until, at_batch)
        except Exception as error:
            failure = error
        if failure is not None:
            send(progress.epoch(complete=False))
            send(_trouble(failure, recorded_in))
            with _iterators_end() if copied else contextlib.nullcontext():
                failure = None
                if copied:
                    let_go_of_iterator(loader)
            end_workers(already_running)  # otherwise torch waits for each, and one may be stuck
            return None
        epoch = progress.epoch(complete=progress.ended)
        send(epoch)
        first = first or epoch
        if number == 0 and progress.first_batch is not None:
            send(contents_of(progress.first_batch[0]))
            progress.first_batch = None
    return first


def _trouble(error: Exception, recording: Path) -> Trouble:
    trouble = Trouble(PLAIN, kind_of(error), error_text(error))
    if trouble.kind != "stuck":
        return trouble
    stacks = stacks_of_workers(recording)
    return replace(trouble, wait_channels=wait_channels(), stacks=stacks)


@contextlib.contextmanager
def _iterators_end() -> Iterator[None]:
    """Have torch end the workers of iterators that the body lets go of, but not for long.

    That sets an event; once workers have been killed, one of which may have held its lock, it would
    wait for ever. Torch's error is one of a ring of objects, and holds the iterator until the
    collector finds it: in the body already, if it happens to run then. Python prints and drops what
    is raised in a finalizer, of which there may be others: each gets only so long.
    """
    with contextlib.suppress(TimeoutError), alarm(time.monotonic() + LATE_S, again_s=LATE_S / 5):
        yield
        gc.collect()


class _EpochProgress:
    """What has been delivered while an epoch is iterated."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.notes: list[batch_probe.Note] = []
        self.delivered_s: list[float] = []
        self.first_batch: Any = None
        self.ended = False

    def iterate(
        self, loader: DataLoader[Any], until: float, at_batch: Callable[[], object]
    ) -> None:
        begun_s = time.perf_counter()
        n_samples = 0
        for batch, note in loader:
            self.delivered_s.append(time.perf_counter() - begun_s)
            at_batch()
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

    def epoch(self, *, complete: bool) -> Epoch:
        return Epoch(self.number, tuple(self.notes), complete, tuple(self.delivered_s))


def set_epoch(dataset: Any, number: int) -> bool:
    """As a training loop does with a dataset that wants to know; whether this one does."""
    if epoch_of(dataset) is None:
        return False
    if callable(getattr(dataset, "set_epoch", None)):
        dataset.set_epoch(number)
    elif type(attributes(dataset)["epoch"]) is int:
        dataset.epoch = number
    else:
        return False
    return True
