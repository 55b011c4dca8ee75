"""Notebook 10: a loader with other settings, and the exercises: name, cure, keep it cured."""

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
from loaderviz.course.datasets import SleepingDataset, Stream, splits
from loaderviz.course.duplicates import same_half
from loaderviz.course.exercises import Check, Hints, explains_errors, first_wrong
from loaderviz.errors import LoaderVizError
from loaderviz.figures import timeline
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.recorder import record
from loaderviz.simulator import Costs, simulate
from loaderviz.text import percent
from loaderviz.trace import Trace
from loaderviz.why.summary import Summary


def with_settings(loader: DataLoader[Any], settings: Mapping[str, Any]) -> DataLoader[Any]:
    """A copy of the loader with these settings, such as ``recommend`` gives; the rest is kept."""
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
    """The recording of loader A, B, C or D; it is made when it is first asked for.

    Raises:
        LoaderVizError: for any other name.
    """
    uneven = [0.004] * 80
    uneven[14] = 0.7
    cases = {  # dataset, workers, seconds a step, epochs
        "A": (SleepingDataset(12, 0.02), 3, 0.03, 6),
        "B": (SleepingDataset(80, uneven), 2, 0.01, 1),
        "C": (SleepingDataset(80, 0.02), 2, 0.01, 1),
        "D": (SleepingDataset(80, 0.002), 2, 0.04, 1),
    }
    if name not in cases:
        raise LoaderVizError(f"recording({name!r}): give 'A', 'B', 'C' or 'D'")
    dataset, num_workers, step_s, epochs = cases[name]
    loader = DataLoader(dataset, batch_size=4, num_workers=num_workers)
    with record(loader, label=name) as rec:
        for _ in range(epochs):
            take(loader, step_s)
    return rec.trace


@explains_errors
def limits(answers: Mapping[str, str]) -> Check:
    """Whether the reader names what limits each recording; draws the first where that is wrong.

    ``answers`` maps the recording's letter to one of ``LIMITS``.
    """
    name = first_wrong(answers, _LIMITED_BY, LIMITS)
    if name is None:
        return Check(True, "All four named. Only C wants more workers.")
    trace = recording(name)
    message = f"{name}: it is not {answers[name]}. {_waits(trace)}"
    return Check(False, message, timeline(trace))


def _waits(trace: Trace) -> str:
    """How long the consumer waits, and when; what that means is the reader's to say."""
    summary = trace.summary()
    batches = trace.batches
    longest = (batches["delivered_s"] - batches["requested_s"]).max() / summary.elapsed_s
    first = (summary.startup_s + summary.first_wait_s) / summary.elapsed_s
    return (
        f"It waits {percent(summary.wait_share)} of the time: {percent(first)} until the first "
        f"batch of an epoch, and {percent(longest)} in its longest wait."
    )


# Cure it

MOST_WAITING = 0.25  # of the time after the first batch
TRIES = 3  # one good run is enough: other programs on the machine may slow down the others
cure_hint = Hints(
    "first the samples: each worker has to read its own share. See notebook 04 or loaderviz.shard.",
    "then the random numbers: torch seeds its own generator differently in each worker.",
    "then the pace: a worker needs 4 x 0.02 s for a batch, and the model takes one every 0.02 s.",
)
_numbers = itertools.count()


@explains_errors
def cured(path: str | Path) -> Check:
    """Whether ``make_loader()`` of this file returns a loader that is right and fast enough."""
    with _module(Path(path)) as module:
        return _check_loader(module.make_loader())


def _check_loader(loader: DataLoader[Any]) -> Check:
    result = audit(loader, key=itemgetter(0))
    if not result.exactly_once:
        return Check(False, f"Not right yet: {result.verdict}.", result.figure())
    with contextlib.redirect_stdout(io.StringIO()):  # the doctor announces what it runs
        findings = [finding for finding in doctor(loader) if finding.severity != "advice"]
    if findings:
        text = "\n\n".join(map(str, findings))
        return Check(False, f"Every sample comes once. But:\n\n{text}")
    if _draws(loader) & _draws(loader):
        return Check(False, "Every sample comes once, but with the previous epoch's numbers.")
    for _ in range(TRIES):
        with record(loader) as rec:
            take(loader, 0.02)
        wait_share = rec.trace.summary().later_wait_share
        if wait_share <= MOST_WAITING:
            break
    figure = timeline(rec.trace)
    if wait_share > MOST_WAITING:
        waits = f"after the first batch it waits {percent(wait_share)} of the time"
        return Check(False, f"Right, but slow: {waits}.", figure)
    return Check(True, "Every sample once, new random numbers, and the model is busy.", figure)


def _draws(loader: DataLoader[Any]) -> set[tuple[int, float]]:
    """Each sample's key and random number, over an epoch."""
    return {
        pair for keys, draws in loader for pair in zip(keys.tolist(), draws.tolist(), strict=True)
    }


@contextlib.contextmanager
def _module(path: Path) -> Iterator[Any]:
    """The file as a module with a new name, which workers of every start method can import."""
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


# Keep it cured

keeps_hint = Hints(
    "the number of samples may be right and the samples wrong: ask the audit whether they are.",
    "exactly_once is True, False, or None if nothing is proven. What should None do in CI?",
    "for the second promise: summary.wait_share is a share, 0 to 1.",
)


@explains_errors
def keeps(answer: Callable[[Audit, Summary], Any]) -> Check:
    """Whether ``answer(audit, summary)`` is true for good runs and false for all others."""
    for case, (result, trace, is_good) in _runs().items():
        passes = bool(answer(result, trace.summary()))
        if passes != is_good:
            outcome = "it passes" if passes else "it fails"
            is_known = (result.deliveries["sample"] >= 0).any()
            of_audit = result.figure() if is_known else None
            figure = timeline(trace) if result.exactly_once else of_audit
            return Check(False, f"{case}: {outcome}, and should not.", figure)
    return Check(True, "The good runs pass, the bad ones fail, and what is not proven fails too.")


@functools.cache
def _runs() -> dict[str, tuple[Audit, Trace, bool]]:
    """By what happens in it: the audit of a run, its trace, and whether it should pass."""
    quick, slow, below, above = (
        simulate(Costs(sample_s=sample_s, step_s=0.05), num_workers=2, batch_size=4, n_batches=60)
        for sample_s in (0.01, 0.1, 0.0265, 0.0275)
    )
    once, twice, halves = (
        simulate_audit(split, 48, num_workers=2, batch_size=4)
        for split in (splits.by_stride, None, same_half)
    )
    stream = DataLoader(Stream(range(48)), batch_size=4)
    with record(stream) as rec:
        list(stream)
    return {
        "Every sample once, hardly a wait": (once, quick, True),
        "Every sample once, and a model that waits": (once, slow, False),
        "Every sample once, and waits of a little less than a tenth": (once, below, True),
        "Every sample once, and waits of a little more than a tenth": (once, above, False),
        "Every sample twice": (twice, quick, False),
        "As many samples as there should be, one half of them twice": (halves, quick, False),
        "A recorded stream, of which nobody knows what came": (audit(rec.trace), quick, False),
    }
