"""Exercise of notebook 17: name the faults; and what a loader announces beside what comes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.data import DataLoader, Dataset

from loaderviz._audit import audit
from loaderviz.course.datasets import SplitStream, splits
from loaderviz.course.exercises import Check, Hints, explains_errors, first_wrong
from loaderviz.errors import LoaderVizError


def announced(dataset: Dataset[Any], **settings: Any) -> str:
    """A line on ``len(loader)``, the batches and samples that come, and whether torch warns."""
    loader: DataLoader[Any] = DataLoader(dataset, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        length, came = len(loader), [len(batch) for batch in loader]
    warned = any("Length of IterableDataset" in str(each.message) for each in caught)
    return (
        f"num_workers={loader.num_workers}, batch_size={loader.batch_size}:  "
        f"len(loader) {length:2}   batches {len(came):2}   samples {sum(came):3}   "
        f"{'torch warns' if warned else 'no warning'}"
    )


FAULTS = (
    "nothing",
    "every worker reads all samples",
    "every worker reads the same half",
    "drop_last",
)
faults_hint = Hints(
    "loaderviz.audit(lost_samples.loader('A')) counts what comes twice and what never comes.",
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


_FAULT_OF = {"A": "every worker reads the same half", "B": "nothing", "C": "drop_last"}


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
