"""Exercises of notebook 04: name the faults; leave the data as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz._audit import audit
from loaderviz.course.datasets import SplitStream, splits
from loaderviz.course.exercises import (
    Check,
    Hints,
    explains_errors,
    first_wrong,
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
