"""Notebook 10: a loader with other settings, and the exercises: name, cure, and keep it so."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._audit import Audit, audit, simulate_audit
from loaderviz._doctor import doctor
from loaderviz._plot_timings import take
from loaderviz.datasets import SleepingDataset, Stream, splits
from loaderviz.errors import LoaderVizError
from loaderviz.exercises.hints import Check, Hints
from loaderviz.figures import timeline
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.recorder import record
from loaderviz.simulator import Costs, simulate
from loaderviz.text import percent
from loaderviz.trace import Summary, Trace


def with_settings(loader: DataLoader[Any], settings: Mapping[str, Any]) -> DataLoader[Any]:
    """A loader of the same dataset, sampler and ``collate_fn``, as ``recommend`` wants it set."""
    return copy_loader(loader, **LoaderSettings(**settings).options())


# Name it

LIMITS = ("the model", "too few workers", "one slow sample", "the start of each epoch")
_LIMITED_BY = {
    "A": "the start of each epoch",
    "B": "one slow sample",
    "C": "too few workers",
    "D": "the model",
}
limits_hint = Hints(
    "is the consumer busy nearly all the time? Then the model sets the pace.",
    "if it waits: everywhere alike, once and long, or at the beginning of every epoch?",
    "print(your_own_loader.recording('A').summary()) says how many epochs there were.",
)


@functools.cache
def recording(name: str) -> Trace:
    """Loader A, B, C or D, recorded now, when it is first asked for."""
    uneven = [0.004] * 80
    uneven[14] = 0.7
    made: dict[str, Callable[[], tuple[DataLoader[Any], float, int]]] = {
        "A": lambda: (_of(SleepingDataset(12, 0.02), num_workers=3), 0.03, 6),
        "B": lambda: (_of(SleepingDataset(80, uneven), num_workers=2), 0.01, 1),
        "C": lambda: (_of(SleepingDataset(80, 0.02), num_workers=2), 0.01, 1),
        "D": lambda: (_of(SleepingDataset(80, 0.002), num_workers=2), 0.04, 1),
    }
    if name not in made:
        raise LoaderVizError(f"recording({name!r}): give 'A', 'B', 'C' or 'D'")
    loader, step_s, epochs = made[name]()
    with record(loader, label=name) as rec:
        for _ in range(epochs):
            take(loader, step_s)
    return rec.trace


def _of(dataset: Any, num_workers: int) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, num_workers=num_workers)


def limits(answers: Mapping[str, str]) -> Check:
    """Is what the reader says of each recording right? The first that is not is drawn."""
    for name, limit in _LIMITED_BY.items():
        answer = answers.get(name)
        if answer not in LIMITS:
            return Check(False, f"{name}: {answer!r} is none of {', '.join(LIMITS)}.")
        if answer != limit:
            trace = recording(name)
            return Check(False, f"{name}: it is not {answer}. {_where(trace)}", timeline(trace))
    return Check(True, "All four named. Only C wants more workers.")


def _where(trace: Trace) -> str:
    """Where the consumer's time went, without saying what that means."""
    found = trace.summary()
    batches = trace.batches
    longest = (batches["delivered_s"] - batches["requested_s"]).max() / found.elapsed_s
    first = (found.startup_s + found.first_wait_s) / found.elapsed_s
    return (
        f"It waits {percent(found.wait_share)} of the time: {percent(first)} until the first batch "
        f"of an epoch, and {percent(longest)} in its longest wait."
    )


# Cure it

MOST_WAITING = 0.25  # of the time past the first batch
TRIES = 3  # one of them is to be good: what else the machine does is no fault of the loader
cure_hint = Hints(
    "first the samples: every worker has to know its share. notebook 04, or loaderviz.shard.",
    "then the random numbers: torch seeds its own generator anew in each worker.",
    "then the pace: a worker needs 4 x 0.02 s for a batch, and the model takes one every 0.02 s.",
)
_numbers = itertools.count()


def cured(path: str | Path) -> Check:
    """Whether ``make_loader()`` of this file makes a loader that is right, and then fast enough."""
    try:
        with _module(Path(path)) as module:
            return _judged(module.make_loader())
    except (Exception, SystemExit) as error:  # of the reader's code
        return Check(False, f"{type(error).__name__}: {error}")


def _judged(loader: DataLoader[Any]) -> Check:
    """The check of the reader's loader: is each sample there once, and is the model busy?"""
    found = audit(loader, key=itemgetter(0))
    if not found.exactly_once:
        return Check(False, f"Not right yet: {found.verdict}.", found.figure())
    with contextlib.redirect_stdout(io.StringIO()):  # it announces what it runs
        faults = [each for each in doctor(loader) if each.severity != "advice"]
    if faults:
        return Check(False, "Every sample comes once. But:\n\n" + "\n\n".join(map(str, faults)))
    if _draws(loader) & _draws(loader):
        return Check(False, "Every sample comes once, but with the numbers of the last epoch.")
    for _ in range(TRIES):
        with record(loader) as rec:
            take(loader, 0.02)
        waits = waits_later(rec.trace.summary())
        if waits <= MOST_WAITING:
            break
    picture = timeline(rec.trace)
    if waits > MOST_WAITING:
        return Check(
            False, f"Right, but slow: past the first batch it waits {percent(waits)}.", picture
        )
    return Check(True, "Every sample once, new random numbers, and the model is busy.", picture)


def _draws(loader: DataLoader[Any]) -> set[tuple[int, float]]:
    """What an epoch draws for each sample."""
    return {
        pair for keys, draws in loader for pair in zip(keys.tolist(), draws.tolist(), strict=True)
    }


def waits_later(found: Summary) -> float:
    """The share of its time that the consumer waits, the start of the epochs left out."""
    waits = found.wait_s - found.first_wait_s
    return waits / ((waits + found.step_s) or 1.0)


@contextlib.contextmanager
def _module(path: Path) -> Iterator[Any]:
    """The file as a module with a name of its own, which every kind of worker can import."""
    name = f"my_loader_{next(_numbers)}"
    with TemporaryDirectory() as folder:
        Path(folder, f"{name}.py").write_text(path.read_text())
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            yield importlib.import_module(name)
        finally:
            sys.path.remove(folder)
            sys.modules.pop(name, None)


# Keep it so

keeps_hint = Hints(
    "the number of samples may be right, and the samples wrong: ask the verdict of the audit.",
    "exactly_once is True, False, or None where nothing is proven. What should None do in CI?",
    "and the second promise: summary.wait_share is a share, 0 to 1.",
)


def keeps(answer: Callable[[Audit, Summary], Any]) -> Check:
    """Whether the reader's check lets good runs pass, and no others. All of them are simulated."""
    for what, (found, run, good) in _runs().items():
        try:
            said = answer(found, run.summary())
        except Exception as error:  # of the reader's code
            return Check(False, f"{what}: keeps raised {type(error).__name__}: {error}")
        if bool(said) != good:
            passed = "it passes" if said else "it fails"
            picture = timeline(run) if found.exactly_once else _drawn(found)
            return Check(False, f"{what}: {passed}, and should not.", picture)
    return Check(True, "The good runs pass, the bad ones fail, and what is not proven fails too.")


def _drawn(found: Audit) -> Any:
    known = (found.deliveries["sample"] >= 0).any()
    return found.figure() if known else None


@functools.cache
def _runs() -> dict[str, tuple[Audit, Trace, bool]]:
    quick, slow = (
        simulate(Costs(sample_s=s, step_s=0.05), num_workers=2, batch_size=4, n_batches=60)
        for s in (0.01, 0.1)
    )
    once, twice, halves = (
        simulate_audit(split, 48, num_workers=2, batch_size=4)
        for split in (splits.by_stride, None, _same_half)
    )
    stream = DataLoader(Stream(range(48)), batch_size=4)
    with record(stream) as rec:
        list(stream)
    return {
        "Every sample once, hardly a wait": (once, quick, True),
        "Every sample once, and a model that waits": (once, slow, False),
        "Every sample twice": (twice, quick, False),
        "As many samples as there should be, one half of them twice": (halves, quick, False),
        "A recorded stream, of which nobody knows what came": (audit(rec.trace), quick, False),
    }


def _same_half(data: Any, worker: int, workers: int) -> Any:
    return data[: len(data) // workers]
