"""Exercises of notebook 09: share out a stream over ranks and workers, drop the padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.launch_ranks import audit_in_turn, simulate_ranks
from loaderviz.text import count

# Samples, ranks, workers of each rank.
SHARE_CASES = ((17, 2, 2), (6, 2, 4), (16, 4, 2), (103, 3, 5), (1, 2, 2), (12, 1, 3), (9, 3, 1))
share_hint = Hints(
    "with 2 ranks and 2 workers there are 4 shares: which of 0, 1, 2 and 3 is this worker's?",
    "rank + worker is 1 for two of the four; give each of them its own number.",
    "neighbouring shares should go to different ranks: rank + worker * ranks, or first every "
    "ranks-th sample, then of these every workers-th.",
)


@explains_errors
def share(answer: Callable[..., Any]) -> Check:
    """Whether ``answer(data, rank, ranks, worker, workers)`` shares out ``data`` correctly.

    No sample may be lost or come twice, and no rank may have two samples more than another.
    """
    figure = None
    for n, ranks, workers in SHARE_CASES:
        case = f"{count(n, 'sample')}, ranks={ranks}, workers={workers}"
        result = simulate_ranks(answer, n, ranks=ranks, workers=workers, batch_size=3)
        is_known = len(result.deliveries) or len(result.missing)
        case_figure = result.figure(numbers="sample") if is_known else None
        if not result.exactly_once:
            return Check(False, f"{case}: {result.verdict}.", case_figure)
        sizes = result.per_worker.groupby("rank")["samples"].sum()
        if sizes.max() - sizes.min() > 1:
            most = f"rank {sizes.idxmax()} has {sizes.max()}"
            least = f"rank {sizes.idxmin()} has {sizes.min()}"
            message = f"{case}: every sample comes once, but {most} and {least}."
            return Check(False, message, case_figure)
        figure = figure or case_figure
    return Check(True, "Every sample once, and no rank has two more than another.", figure)


UNPADDED_CASES = ((17, 2), (16, 2), (10, 4), (3, 4), (1, 3), (5, 1))
unpadded_hint = Hints(
    "print parts: which sample is rank 1's first?",
    "samples 0, 1, 2 ... are dealt like cards: the first of each rank, then the second of each.",
    "zip(*parts) takes one from each rank in turn. What comes at the end?",
)


@explains_errors
def unpadded(answer: Callable[[list[list[int]], int], Any]) -> Check:
    """Whether ``answer(parts, n)`` returns the results of all n samples in order, each once.

    ``parts`` has a list for each rank: the results of the samples that a ``DistributedSampler``
    without shuffling gave it. Different samples may have equal results.
    """
    figure = None
    for n, ranks in UNPADDED_CASES:
        case = f"{count(n, 'sample')}, ranks={ranks}"
        loaders = [_loader(n, ranks, rank) for rank in range(ranks)]
        parts = [[_result(i) for batch in loader for i in batch.tolist()] for loader in loaders]
        results = list(answer(parts, n))
        audit = audit_in_turn(loaders, n)
        case_figure = audit.figure(numbers="sample")
        figure = figure or case_figure
        if len(results) != n:
            message = f"{case}: {len(results)} results. What the ranks read: {audit.verdict}."
            return Check(False, message, case_figure)
        for i, result in enumerate(results):
            if result != _result(i):
                message = f"{case}: sample {i} has the result {_result(i)}, and not {result!r}."
                return Check(False, message, case_figure)
    return Check(True, "One result for each sample, in order, and none for the padding.", figure)


def _result(sample: int) -> int:
    return sample * sample % 7


def _loader(n: int, ranks: int, rank: int) -> DataLoader[Any]:
    numbers: Any = range(n)
    sampler: Any = DistributedSampler(numbers, num_replicas=ranks, rank=rank, shuffle=False)
    return DataLoader(numbers, batch_size=3, sampler=sampler)
