"""Exercises of notebook 01: a stream that works in every epoch, and a sampler that takes turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from loaderviz._audit import Audit, audit
from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.hints import Check, Hints, explains_errors

N_SAMPLES, BATCH_SIZE = 12, 4
N_FIRST, N_SECOND = 6, 10

RETURN_AN_ITERATOR = "It has to yield, or to return an iterator, such as iter(...)."

epoch_hint = Hints(
    "an iterator is used up after one pass. When is yours created?",
    "__init__ runs once, __iter__ once for each epoch.",
    "keep the samples in __init__; make a new iterator in __iter__.",
)
turns_hint = Hints(
    "in first + second, sample 0 of the second dataset has the key len(first).",
    "zip stops at the shorter one. What is left of the longer one then?",
    "after n = min(...) turns, go on with range(n, len(first)) and the same for the second.",
)


@explains_errors
def every_epoch(dataset_class: Callable[[Iterable[int]], IterableDataset[int]]) -> Check:
    """Whether a stream of this class delivers all samples in two epochs, and to two loops at once.

    ``dataset_class(samples)`` returns the dataset.
    """
    all_samples = list(range(N_SAMPLES))
    made = dataset_class(range(N_SAMPLES)).__iter__()
    if not isinstance(made, Iterator):
        return Check(False, f"Not yet: __iter__ returned {_named(made)}. {RETURN_AN_ITERATOR}")
    loader = DataLoader(dataset_class(range(N_SAMPLES)), batch_size=BATCH_SIZE)
    for epoch in (1, 2):
        samples: list[int] = []
        for batch in islice(loader, N_SAMPLES):  # more batches than there should be, but an end
            samples += batch.tolist()
        if samples != all_samples:
            amount = f"{len(samples)} samples" if samples else "nothing"
            return Check(
                False,
                f"Not yet: epoch {epoch} delivers {amount} instead of 0 to {N_SAMPLES - 1}.",
                _audit_of(samples).figure(),
            )
    dataset = dataset_class(range(N_SAMPLES))
    pairs = list(islice(zip(dataset, dataset, strict=False), N_SAMPLES))
    figure = _audit_of([first for first, _ in pairs]).figure()
    if pairs != list(zip(all_samples, all_samples, strict=True)):
        message = "Two epochs are right, but two loops at once take each other's samples."
        return Check(False, message, figure)
    return Check(True, "Every epoch, and every loop, begins at the first sample.", figure)


def _named(made: object) -> str:
    """What a learner's ``__iter__`` returned in place of an iterator."""
    return "nothing" if made is None else f"{type(made).__name__}, not an iterator"


def _audit_of(samples: list[int]) -> Audit:
    """The audit of a loader that delivers these samples, in this order."""
    known = [sample for sample in samples if sample in range(N_SAMPLES)]
    return audit(DataLoader(SleepingDataset(N_SAMPLES, 0), batch_size=BATCH_SIZE, sampler=known))


@explains_errors
def take_turns(sampler_class: Callable[[Any, Any], Iterable[int]]) -> Check:
    """Whether the sampler takes a sample of each dataset in turn, then the rest of the longer one.

    ``sampler_class(first, second)`` yields keys of the joined datasets, ``first + second``.
    """
    first, second = SleepingDataset(N_FIRST, 0), SleepingDataset(N_SECOND, 0)
    sampler = sampler_class(first, second)
    if not isinstance(made := sampler.__iter__(), Iterator):
        return Check(False, f"Not yet: __iter__ returned {_named(made)}. {RETURN_AN_ITERATOR}")
    n_samples = N_FIRST + N_SECOND
    keys = list(islice(sampler, 4 * n_samples))
    unknown = [key for key in keys if key not in range(n_samples)]
    if unknown:
        return Check(False, f"There is no key {unknown[0]!r}: the keys are 0 to {n_samples - 1}.")
    if len(keys) == 4 * n_samples:
        return Check(False, f"The sampler does not end: {keys[:20]} and so on.")
    if not keys:
        return Check(False, "The sampler asks for no sample.")
    result = audit(DataLoader(first + second, batch_size=BATCH_SIZE, sampler=keys))
    figure = result.figure()
    if not result.exactly_once:
        return Check(False, f"Not yet: {result.verdict}.", figure)
    turns = [key for i in range(N_FIRST) for key in (i, N_FIRST + i)]
    rest = list(range(2 * N_FIRST, n_samples))
    if keys != turns + rest:
        return Check(False, f"Each sample comes once, but not in turns: {keys}.", figure)
    return Check(True, "In turns, then the rest of the longer one, each exactly once.", figure)
