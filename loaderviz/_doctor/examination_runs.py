"""The runs of an examination: a copy of the loader is iterated a bounded number of times.

``run_all`` sends what it learns at once, so that a run which ends badly leaves the earlier ones.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, SequentialSampler

from loaderviz._doctor import batch_probe
from loaderviz._doctor.batch_contents import contents_of
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.process_state import epoch_of
from loaderviz._doctor.resume_trial import resumable, resume, two_copies
from loaderviz._doctor.run_outcomes import (
    Fact,
    OwnFault,
    Trouble,
    alarm,
    children,
    end_workers,
    kind_of,
    look_around,
    text_of,
)
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.held_objects import attributes, is_a
from loaderviz.recorder import Recording

MOST_BATCHES = 500  # of an epoch
MOST_SAMPLES = 100_000
EPOCHS = 2
LATE_S = 0.5  # past the time of a run, before it is broken off
SHARE = {"plain": 0.5, "alone": 0.75, "resume": 0.95}  # of the time, until the run has to end

Send = Callable[[Any], None]


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
        return sum(note.n_samples for note in self.notes)

    @property
    def pace_s(self) -> float:
        """Seconds a batch, once it runs; what the doctor's own look at the samples took aside."""
        at = self.delivered_s
        if len(at) < 2:
            return float("nan")
        n_processes = len({note.pid for note in self.notes})
        own = sum(note.digest_s for note in self.notes[1:]) / n_processes
        return max(at[-1] - at[0] - own - self.steps_s, 1e-9) / (len(at) - 1)


def run_all(setup: Setup, folder: Path, budget_s: float, send: Send, *, copied: bool) -> None:
    """Everything that the checks want to know from running the loader, as few runs as possible.

    Args:
        setup: the loader.
        folder: where recordings go.
        budget_s: seconds for all of it.
        send: is given an Epoch, Contents, Fact or Trouble as soon as there is one.
        copied: whether this process is a copy, in which the user's objects may be changed.
    """
    try:
        _run_all(setup, folder, budget_s, send, copied=copied)
    except Exception as error:  # of what is not iterating: set_epoch, the making of a copy
        send(Trouble("plain", 0, kind_of(error), text_of(error)))


def _run_all(setup: Setup, folder: Path, budget_s: float, send: Send, *, copied: bool) -> None:
    begun = time.monotonic()
    before = children()
    until = {run: begun + budget_s * share for run, share in SHARE.items()}
    if not _measure(setup, send):
        return
    spare = two_copies(setup) if copied and resumable(setup.loader) else None
    probed = _probed(setup, folder, budget_s)
    if not _epochs("plain", probed, setup, EPOCHS, folder, until["plain"], send, copied=copied):
        end_workers(before)
        return
    if setup.num_workers:
        alone = _probed(setup, folder, budget_s, num_workers=0)
        took_s = time.monotonic() - begun  # that is W workers' time
        end = min(until["alone"], time.monotonic() + 1 + setup.num_workers * took_s)
        _epochs("alone", alone, setup, 1, folder, end, send, copied=copied)
    if spare is not None:
        send(Fact("run", "resume"))
        send(resume(spare, until["resume"]))
    end_workers(before)


def _measure(setup: Setup, send: Send) -> bool:
    """Lengths; whether the loader can be run with such a dataset."""
    dataset: Any = setup.dataset
    if not hasattr(type(dataset), "__len__"):
        return True
    try:
        send(Fact("len(dataset)", len(dataset)))
    except Exception as error:
        # A stream may not know; and a map-style dataset is not asked where a sampler knows.
        unknown = setup.iterable and isinstance(error, TypeError | NotImplementedError)
        if unknown or not (setup.iterable or is_a(setup.sampler.value, SequentialSampler)):
            return True
        text = f"len(dataset) raises {type(error).__name__}: {error}"
        send(Trouble("plain", 0, "length", text))
        return False
    with contextlib.suppress(Exception):  # of a sampler without a length
        send(Fact("len(loader)", len(copy.copy(setup.loader))))
    return True


def _probed(
    setup: Setup, folder: Path, budget_s: float, *, num_workers: int | None = None
) -> DataLoader[Any]:
    """A copy of the loader that shares its dataset and sampler, with the probes in place."""
    own = setup.own
    workers = setup.num_workers if num_workers is None else num_workers
    settings: dict[str, Any] = {
        "num_workers": workers,
        "collate_fn": batch_probe.Probe(
            own["collate_fn"],
            None if workers else setup.dataset,
            batched=own["batch_sampler"] is not None,
            digest=is_a(setup.dataset, IterableDataset),
        ),
    }
    if workers:
        init = batch_probe.Start(own["worker_init_fn"], folder, 0.4 * budget_s)
        settings["worker_init_fn"] = init
        settings["timeout"] = min(own["timeout"] or budget_s, 0.5 * budget_s)
    elif num_workers == 0 and setup.iterable:
        settings["drop_last"] = False
    return copy_loader(setup.loader, **settings)


def _epochs(
    run: str,
    loader: DataLoader[Any],
    setup: Setup,
    n: int,
    folder: Path,
    until: float,
    send: Send,
    *,
    copied: bool,
) -> bool:
    """Iterate ``loader`` n times; returns whether all went well."""
    before = children()
    send(Fact("run", run))
    with Recording((loader,), path=folder / run):
        seen = _Seen(run, 0)
        for number in range(n):
            if number and time.monotonic() + seen.first_s > until:
                return True  # no time for another
            if copied and run == "plain":
                _set_epoch(setup.dataset, number, send)
            share = time.monotonic() + (until - time.monotonic()) / (n - number)
            seen = _Seen(run, number)
            try:
                with alarm(until + LATE_S) if copied else contextlib.nullcontext():
                    seen.iterate(loader, share)
            except Exception as error:
                send(seen.epoch(complete=False))
                trouble = Trouble(run, number, kind_of(error), text_of(error), look_around(error))
                send(trouble)
                end_workers(before)  # else torch waits for each, which may be stuck
                return False
            send(seen.epoch(complete=seen.ended))
            if number == 0 and run == "plain" and seen.first_batch is not None:
                send(contents_of(seen.first_batch[0]))
                seen.first_batch = None
    return True


class _Seen:
    """What comes in while an epoch is iterated."""

    def __init__(self, run: str, number: int) -> None:
        self.run, self.number = run, number
        self.notes: list[batch_probe.Note] = []
        self.delivered_s: list[float] = []
        self.first_batch: Any = None
        self.ended = False

    def iterate(self, loader: DataLoader[Any], until: float) -> None:
        begun = time.perf_counter()
        n_samples = 0
        for got in loader:
            self.delivered_s.append(time.perf_counter() - begun)
            batch, note = got
            note = (
                note if type(note) is batch_probe.Note else batch_probe.Note(*note)
            )  # pinning rebuilds it
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
        notes, at = tuple(self.notes), tuple(self.delivered_s)
        return Epoch(self.run, self.number, notes, complete, self.first_s, at)


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
    send(Fact(f"epoch {number} set", epoch_of(dataset)))
