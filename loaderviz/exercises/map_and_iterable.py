"""Exercises of notebook 01: a stream for every epoch, and a sampler that takes turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from loaderviz._audit import Audit, audit
from loaderviz.datasets import SleepingDataset
from loaderviz.exercises.hints import Check, Hints

N_SAMPLES, BATCH_SIZE = 12, 4
N_FIRST, N_SECOND = 6, 10

epoch_hint = Hints(
    "an iterator is used up after one pass. When is yours made?",
    "__init__ runs once, __iter__ once for each epoch.",
    "keep the samples in __init__; make a new iterator in __iter__.",
)
turns_hint = Hints(
    "in first + second, sample 0 of the second dataset has the key len(first).",
    "zip stops at the shorter one. What is left of the longer one then?",
    "after n = min(...) turns, go on with range(n, len(first)) and the same for the second.",
)


def every_epoch(dataset_class: Callable[[Iterable[int]], IterableDataset[int]]) -> Check:
    """Iterate a stream of this class for two epochs, then in two loops at once."""
    everything = list(range(N_SAMPLES))
    loader = DataLoader(dataset_class(range(N_SAMPLES)), batch_size=BATCH_SIZE)
    for epoch in (1, 2):
        came: list[int] = []
        for batch in islice(loader, N_SAMPLES):  # more batches than there are, but not for ever
            came += batch.tolist()
        if came != everything:
            wrong = f"{len(came)} samples" if came else "nothing"
            return Check(
                False,
                f"Not yet: epoch {epoch} delivers {wrong} instead of 0 to {N_SAMPLES - 1}.",
                _audit_of(came).figure(),
            )
    dataset = dataset_class(range(N_SAMPLES))
    pairs = list(islice(zip(dataset, dataset, strict=False), N_SAMPLES))
    figure = _audit_of([first for first, _ in pairs]).figure()
    if pairs != list(zip(everything, everything, strict=True)):
        wrong = "Two epochs are right, but of two loops at once each takes samples of the other."
        return Check(False, wrong, figure)
    return Check(True, "Every epoch, and every loop, begins at the first sample.", figure)


def _audit_of(came: list[int]) -> Audit:
    """Of all samples, those that came, in this order."""
    known = [sample for sample in came if sample in range(N_SAMPLES)]
    return audit(DataLoader(SleepingDataset(N_SAMPLES, 0), batch_size=BATCH_SIZE, sampler=known))


def take_turns(sampler_class: Callable[[Any, Any], Iterable[int]]) -> Check:
    """Audit a loader of two joined datasets that asks for the keys of such a sampler."""
    first, second = SleepingDataset(N_FIRST, 0), SleepingDataset(N_SECOND, 0)
    sampler = sampler_class(first, second)
    n_samples = N_FIRST + N_SECOND
    keys = list(islice(sampler, 4 * n_samples))
    strange = [key for key in keys if key not in range(n_samples)]
    if strange:
        return Check(False, f"There is no key {strange[0]!r}: they are 0 to {n_samples - 1}.")
    if len(keys) == 4 * n_samples:
        return Check(False, f"The sampler does not end: {keys[:20]} and so on.")
    if not keys:
        return Check(False, "The sampler asks for no sample.")
    found = audit(DataLoader(first + second, batch_size=BATCH_SIZE, sampler=keys))
    if not found.exactly_once:
        return Check(False, f"Not yet: {found.verdict}.", found.figure())
    turns = [key for place in range(N_FIRST) for key in (place, N_FIRST + place)]
    rest = list(range(2 * N_FIRST, n_samples))
    if keys != turns + rest:
        return Check(False, f"Each sample comes once, but not in turns: {keys}.", found.figure())
    return Check(
        True, "In turns, then the rest of the longer one, each exactly once.", found.figure()
    )
