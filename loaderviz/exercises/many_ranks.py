"""Exercises of notebook 09: a stream shared out over ranks and workers, results without padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler

from loaderviz._audit import Audit
from loaderviz.exercises.hints import Check, Hints
from loaderviz.exercises.launch_ranks import audit_in_turn, simulate_ranks
from loaderviz.text import count

# Samples, ranks, workers of each rank
SHARED = ((17, 2, 2), (6, 2, 4), (16, 4, 2), (103, 3, 5), (1, 2, 2), (12, 1, 3), (9, 3, 1))
share_hint = Hints(
    "with 2 ranks and 2 workers there are 4 shares: which of 0, 1, 2 and 3 is this worker's?",
    "rank + worker is 1 for two of the four; give each its own number.",
    "and the ranks should be neighbours: rank + worker * ranks, or first every ranks-th sample, "
    "then of these every workers-th.",
)


def share(answer: Callable[..., Any]) -> Check:
    """Whether ``answer(data, rank, ranks, worker, workers)`` shares out, and evenly over the ranks.

    No sample may be lost or come twice, and no rank may have two more than another.
    """
    figure = None
    for n, ranks, workers in SHARED:
        case = f"{count(n, 'sample')}, ranks={ranks}, workers={workers}"
        try:
            found = simulate_ranks(answer, n, ranks=ranks, workers=workers, batch_size=3)
        except Exception as error:  # of the reader's code
            return Check(False, f"{case}: share raised {type(error).__name__}: {error}")
        picture = found.figure() if len(found.deliveries) or len(found.missing) else None
        if not found.exactly_once:
            return Check(False, f"{case}: {found.verdict}.", picture)
        sizes = found.per_worker.groupby("rank")["samples"].sum()
        if sizes.max() - sizes.min() > 1:
            return Check(
                False,
                f"{case}: every sample comes once, but rank {sizes.idxmax()} has {sizes.max()} and "
                f"rank {sizes.idxmin()} has {sizes.min()}.",
                picture,
            )
        figure = figure or picture
    return Check(True, "Every sample once, and no rank has two more than another.", figure)


GATHERED = ((17, 2), (16, 2), (10, 4), (3, 4), (1, 3), (5, 1))
unpadded_hint = Hints(
    "print parts: which sample is the first of rank 1?",
    "samples 0, 1, 2 ... are dealt like cards: the first of each rank, then the second of each.",
    "zip(*parts) takes one from each rank in turn. What is at the end of that?",
)


def unpadded(answer: Callable[[list[list[int]], int], Any]) -> Check:
    """Whether ``answer(parts, n)`` puts the results of all ranks in order, each sample's once.

    ``parts`` has a list for each rank: what came of the samples that a ``DistributedSampler``
    without shuffling gave it. Samples may well have equal results.
    """
    figure = None
    for n, ranks in GATHERED:
        case = f"{count(n, 'sample')}, ranks={ranks}"
        loaders = [_loader(n, ranks, rank) for rank in range(ranks)]
        parts = [[_result(i) for batch in loader for i in batch.tolist()] for loader in loaders]
        try:
            given = list(answer([list(part) for part in parts], n))
        except Exception as error:  # of the reader's code
            return Check(False, f"{case}: unpadded raised {type(error).__name__}: {error}")
        found = _audit(n, ranks)
        figure = figure or found.figure()
        if len(given) != n:
            wrong = f"{case}: {len(given)} results. What the ranks read: {found.verdict}."
            return Check(False, wrong, found.figure())
        right = [_result(i) for i in range(n)]
        if given != right:
            at = next(i for i in range(n) if given[i] != right[i])
            wrong = f"{case}: sample {at} has the result {right[at]}, and not {given[at]!r}."
            return Check(False, wrong, found.figure())
    return Check(True, "One result for each sample, in order, and none for the padding.", figure)


def _result(sample: int) -> int:
    return sample * sample % 7


def _loader(n: int, ranks: int, rank: int) -> DataLoader[Any]:
    numbers: Any = range(n)
    sampler: Any = DistributedSampler(numbers, num_replicas=ranks, rank=rank, shuffle=False)
    return DataLoader(numbers, batch_size=3, sampler=sampler)


def _audit(n: int, ranks: int) -> Audit:
    """The audit of one epoch of all ranks."""
    return audit_in_turn((_loader(n, ranks, rank) for rank in range(ranks)), n)
