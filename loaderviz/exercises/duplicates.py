"""Exercises of notebook 04: find what is wrong, lose no more than needed, split without loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._audit import audit, simulate_audit
from loaderviz.datasets import SplitStream, splits
from loaderviz.errors import LoaderVizError
from loaderviz.exercises.hints import Check, Hints

FAULTS = ("nothing", "all to every worker", "the same to every worker", "drop_last")
faults_hint = Hints(
    "print(loaderviz.audit(duplicates.loader('A'))) counts what comes twice and what never comes.",
    "as many samples as the dataset holds may still be the wrong ones.",
    "an order that is not 0, 1, 2, ... is no fault: look at twice and never only.",
)


def same_half(data: Sequence[Any], worker: int, workers: int) -> Sequence[Any]:
    """A split that forgets the worker's number."""
    return data[: len(data) // workers]


def loader(letter: str) -> DataLoader[Any]:
    """The loader A, B or C: one of a few ways to split 24 samples."""
    made: dict[str, Callable[[], DataLoader[Any]]] = {
        "A": lambda: _of(24, same_half, num_workers=2, batch_size=4),
        "B": lambda: _of(24, splits.by_stride, num_workers=3, batch_size=4),
        "C": lambda: _of(24, splits.by_ceil, num_workers=2, batch_size=8, drop_last=True),
    }
    if letter not in made:
        raise LoaderVizError(f"loader({letter!r}): give 'A', 'B' or 'C'")
    return made[letter]()


_WRONG = {"A": "the same to every worker", "B": "nothing", "C": "drop_last"}


def faults(answers: Mapping[str, str]) -> Check:
    """Whether each loader's fault is named; else the audit of the first that is not."""
    for letter, fault in _WRONG.items():
        answer = answers.get(letter)
        if answer not in FAULTS:
            words = ", ".join(f'"{each}"' for each in FAULTS)
            return Check(False, f"{letter}: {answer!r} is none of {words}.")
        if answer != fault:
            found = audit(loader(letter))
            return Check(False, f"{letter}: {answer!r} is not it. {found.verdict}.", found.figure())
    return Check(True, "All three named: A repeats one half and loses the other, C drops batches.")


N, BATCH_SIZE, MOST_WORKERS = 103, 8, 16
most_workers_hint = Hints(
    "with drop_last a worker delivers full batches only: 103 samples are 12 of them and 7 more.",
    "a worker with fewer than 8 samples delivers nothing at all.",
    "try the workers of the control above, one by one, beyond 8 too.",
)


def most_workers(num_workers: int) -> Check:
    """Run 103 samples, by stride, in batches of 8 with drop_last: is no more lost than must be?"""
    if type(num_workers) is not int or not 1 <= num_workers <= MOST_WORKERS:
        return Check(False, f"num_workers={num_workers!r}: give a whole number, 1 to 16.")
    found = audit(
        _of(N, splits.by_stride, num_workers=num_workers, batch_size=BATCH_SIZE, drop_last=True)
    )
    if _lost(num_workers) > _lost(1):
        return Check(False, f"Too much is lost: {found.verdict}.", found.figure())
    if any(_lost(more) == _lost(1) for more in range(num_workers + 1, MOST_WORKERS + 1)):
        return Check(False, "No more is lost than must be, but more workers can do it.")
    return Check(
        True, f"{num_workers} workers, {_lost(1)} lost, as with one. One more loses far more."
    )


def _lost(num_workers: int) -> int:
    found = simulate_audit(
        splits.by_stride, N, num_workers=num_workers, batch_size=BATCH_SIZE, drop_last=True
    )
    return len(found.missing)


fair_hint = Hints(
    "print split(range(17), worker, 2) for worker 0 and 1: which number is in neither?",
    "a slice has a step: range(17)[0::2] is every second number, from 0.",
    "let worker 0 begin at 0, worker 1 at 1, and all step by the number of workers.",
)
_CASES = [(n, workers) for n in (17, 16, 5, 1, 0, 103, 10, 30) for workers in (2, 1, 3, 4, 7, 8)]


def fair(split: Callable[[range, int, int], Any]) -> Check:
    """Whether no sample is lost or twice, and no worker has two more than another.

    ``split(data, worker, workers)`` returns what this worker reads of ``data``. Tried with many
    numbers of samples and workers; then a real loader runs with what it returned.
    """
    for n, workers in _CASES:
        case = f"{n} samples, num_workers={workers}"
        try:
            parts = [list(split(range(n), worker, workers)) for worker in range(workers)]
            found = simulate_audit(partial(_given, parts), n, num_workers=workers, batch_size=4)
        except Exception as error:  # of the reader's code
            return Check(False, f"{case}: split raised {type(error).__name__}: {error}")
        sizes = [len(part) for part in parts]
        if not found.exactly_once:
            figure = found.figure() if n else None
            return Check(False, f"{case}: {found.verdict[0].lower()}{found.verdict[1:]}.", figure)
        if max(sizes) > min(sizes) + 1:
            says = f"nothing is lost, but the shares are {', '.join(map(str, sizes))}"
            return Check(False, f"{case}: {says}. Let them differ by one at most.", found.figure())
    parts = [list(split(range(17), worker, 2)) for worker in range(2)]
    real = audit(_of(17, partial(_given, parts), num_workers=2, batch_size=4))
    return Check(bool(real.exactly_once), f"{real.verdict}, in shares alike.", real.figure())


def _given(parts: list[list[int]], data: Sequence[Any], worker: int, workers: int) -> Sequence[Any]:
    """What the reader's function returned: itself it could not be sent to spawned workers."""
    return data if len(parts) != workers else parts[worker]


def _of(n: int, split: Any, **settings: Any) -> DataLoader[Any]:
    with warnings.catch_warnings():
        # A handful of workers that only count need no CPU of their own.
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        return DataLoader(SplitStream(range(n), split), **settings)
