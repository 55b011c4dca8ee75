"""Exercises of notebook 04: name the faults, lose little, split without loss, leave data whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz._audit import Audit, audit, simulate_audit
from loaderviz.course.datasets import SplitStream, splits
from loaderviz.course.exercises import (
    Check,
    Hints,
    explains_errors,
    first_wrong,
    whole_number_between,
)
from loaderviz.course.figures import beside
from loaderviz.errors import LoaderVizError

FAULTS = ("nothing", "all to every worker", "the same to every worker", "drop_last")
faults_hint = Hints(
    "print(loaderviz.audit(duplicates.loader('A'))) counts what comes twice and what never comes.",
    "a loader can deliver the right number of samples and still the wrong ones.",
    "samples out of order are no fault: look only for those that come twice or never.",
)


def same_half(data: Sequence[Any], worker: int, workers: int) -> Sequence[Any]:
    """A split that ignores the worker's number: every worker reads the first part of ``data``."""
    return data[: len(data) // workers]


def loader(letter: str) -> DataLoader[Any]:
    """Loader A, B or C: each splits 24 samples in its own way.

    Raises:
        LoaderVizError: for any other letter.
    """
    settings: dict[str, tuple[Any, dict[str, Any]]] = {
        "A": (same_half, {"num_workers": 2, "batch_size": 4}),
        "B": (splits.by_stride, {"num_workers": 3, "batch_size": 4}),
        "C": (splits.by_ceil, {"num_workers": 2, "batch_size": 8, "drop_last": True}),
    }
    if letter not in settings:
        raise LoaderVizError(f"loader({letter!r}): give 'A', 'B' or 'C'")
    split, options = settings[letter]
    return DataLoader(SplitStream(range(24), split), **options)


_FAULT_OF = {"A": "the same to every worker", "B": "nothing", "C": "drop_last"}


@explains_errors
def faults(answers: Mapping[str, str]) -> Check:
    """Whether each loader's fault is named; shows the audit of the first loader where it is not.

    ``answers`` maps the loader's letter to one of ``FAULTS``.
    """
    letter = first_wrong(answers, _FAULT_OF, FAULTS)
    if letter is None:
        text = "All three named: A repeats one half and loses the other, C drops batches."
        return Check(True, text)
    result = audit(loader(letter))
    message = f"{letter}: {answers[letter]!r} is not it. {result.verdict}."
    return Check(False, message, result.figure())


MOST_WORKERS = 16
most_workers_hint = Hints(
    "with drop_last a worker delivers full batches only: 103 samples are 12 of them and 7 more.",
    "a worker with fewer than 8 samples delivers nothing at all.",
    "try each number of workers in the control above, even those beyond 8.",
)


@explains_errors
def most_workers(num_workers: int) -> Check:
    """Whether this is the most workers that lose no more samples than one worker does.

    103 samples, split by stride, in batches of 8 with ``drop_last``; worked out.
    """
    whole_number_between("num_workers", num_workers, 1, MOST_WORKERS)
    dropped = {n: _dropped(n) for n in range(1, MOST_WORKERS + 1)}
    n_lost = {n: len(result.missing) for n, result in dropped.items()}
    if n_lost[num_workers] > n_lost[1]:
        result = dropped[num_workers]
        return Check(False, f"Too much is lost: {result.verdict}.", result.figure())
    if any(n_lost[more] == n_lost[1] for more in range(num_workers + 1, MOST_WORKERS + 1)):
        return Check(False, "No more is lost than with one worker, but more workers can do it.")
    return Check(
        True,
        f"{num_workers} workers lose {n_lost[1]} samples, as with one. One more worker loses "
        "far more.",
    )


def _dropped(num_workers: int) -> Audit:
    return simulate_audit(
        splits.by_stride, 103, num_workers=num_workers, batch_size=8, drop_last=True
    )


fair_hint = Hints(
    "print split(range(17), worker, 2) for worker 0 and 1: which number is in neither?",
    "a slice has a step: range(17)[0::2] is every second number, from 0.",
    "let worker 0 begin at 0 and worker 1 at 1, and let each step by the number of workers.",
)
_CASES = [(n, workers) for n in (17, 16, 5, 1, 0, 103, 10, 30) for workers in (2, 1, 3, 4, 7, 8)]


@explains_errors
def fair(split: Callable[[range, int, int], Any]) -> Check:
    """Whether each sample comes once, and the workers' shares differ by one sample at most.

    ``split(data, worker, workers)`` returns what this worker reads of ``data``. It is tried with
    many numbers of samples and workers; then a real loader runs with the shares that it returned.
    """
    for n, workers in _CASES:
        case = f"{n} samples, num_workers={workers}"
        parts = [list(split(range(n), worker, workers)) for worker in range(workers)]
        shares = partial(_returned_share, parts)
        result = simulate_audit(shares, n, num_workers=workers, batch_size=4)
        if not result.exactly_once:
            figure = result.figure() if n else None
            verdict = result.verdict[0].lower() + result.verdict[1:]
            return Check(False, f"{case}: {verdict}.", figure)
        sizes = [len(part) for part in parts]
        if max(sizes) > min(sizes) + 1:
            says = f"nothing is lost, but the shares are {', '.join(map(str, sizes))}"
            return Check(False, f"{case}: {says}. Let them differ by one at most.", result.figure())
    parts = [list(split(range(17), worker, 2)) for worker in range(2)]
    stream = SplitStream(range(17), partial(_returned_share, parts))
    result = audit(DataLoader(stream, batch_size=4, num_workers=2))
    message = f"{result.verdict}, and the shares are even."
    return Check(bool(result.exactly_once), message, result.figure())


def _returned_share(
    parts: list[list[int]], data: Sequence[Any], worker: int, workers: int
) -> Sequence[Any]:
    """The share that the reader's function returned: spawned workers could not import it."""
    return data if len(parts) != workers else parts[worker]


whole_hint = Hints(
    "print(dataset[3]) twice: the second time it is another sample.",
    "a method whose name ends in an underscore, such as mul_, changes the tensor itself.",
    "mul without the underscore makes a new tensor, and leaves self.rows as it is.",
)


@explains_errors
def whole(make_dataset: Callable[[], Dataset[Any]]) -> Check:
    """Whether two epochs deliver 16 samples, each twice its row, from the same dataset.

    ``make_dataset`` is the reader's class; row k of its data is 4 * k, 4 * k + 1 and so on.
    """
    right = 2 * torch.arange(64.0).reshape(16, 4)
    loader = DataLoader(make_dataset(), batch_size=8)
    for epoch in range(2):
        got = torch.cat(list(loader))
        if got.shape != right.shape or not torch.equal(got, right):
            figure = beside(
                {"twice its row": right[:8, 1].tolist(), f"epoch {epoch}": got[:8, 1].tolist()}
            )
            return Check(False, f"In epoch {epoch} the samples are not twice their rows.", figure)
    return Check(True, "Each sample is twice its row, in both epochs.")
