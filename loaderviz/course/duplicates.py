"""Exercise of notebook 04: share out a stream that has no length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from loaderviz._audit import simulate_audit
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.errors import LoaderVizError

once_hint = Hints(
    "an iterator has no length and no slices, but each worker can count the samples as they pass.",
    "of 3 workers, worker 1 keeps samples 1, 4, 7 and so on, and skips the others.",
    "itertools.islice(samples, start, None, step) begins at start and takes every step-th sample.",
)


PATIENCE = 10_000  # samples: any number that memory has room for
# Both ask the process which worker it is. The check calls the answer in the main process.
NEEDS_A_WORKER = {"shard", "get_worker_info"}


@explains_errors
def once(share: Callable[[Iterator[str], int, int], Iterable[str]]) -> Check:
    """Whether each sample comes exactly once, for some numbers of samples and workers, and evenly.

    ``share`` takes an iterator over all samples, a worker's number and the number of workers, and
    returns the samples that this worker yields. Nothing is run: its answers are audited.
    """
    for n_samples in (16, 17, 3):
        for workers in (1, 2, 3, 4):
            shares = [_indices(share, n_samples, worker, workers) for worker in range(workers)]
            found = simulate_audit(_given(shares), n_samples, num_workers=workers, batch_size=4)
            most, even = max(map(len, shares)), math.ceil(n_samples / workers)
            message = f"{n_samples} samples, num_workers={workers}: "
            if not found.exactly_once:
                return Check(False, f"{message}{found.verdict}.{_remark(share)}", found.figure())
            if most > even:
                worker = [len(each) for each in shares].index(most)
                message += f"worker {worker} yields {most} of them, an even share is {even}."
                return Check(False, message, found.figure())
    next(iter(share(_endless(), 0, 2)))
    return Check(
        True, "Each of 16, 17 and 3 samples comes exactly once, shared evenly by 1 to 4 workers."
    )


def _indices(share: Callable[..., Iterable[str]], n: int, worker: int, workers: int) -> list[int]:
    """Which of n samples a worker yields; one too many tells that there is no end."""
    samples = [f"sample {index}" for index in range(n)]
    shared = share(iter(samples), worker, workers)
    if shared is None:
        raise LoaderVizError("Not yet: `share` returned nothing. Does it yield?")
    share_of_worker = list(islice(shared, n + 1))
    for sample in share_of_worker:
        if sample not in samples:
            raise LoaderVizError(f"Not yet: worker {worker} yields {sample!r:.60}, no sample.")
    return [samples.index(sample) for sample in share_of_worker]


def _endless() -> Iterator[str]:
    """A stream without an end, as far as anybody has the patience to wait for its first sample."""
    yield from (f"sample {index}" for index in range(PATIENCE))
    raise LoaderVizError(
        f"Not yet: of a stream without an end {PATIENCE:,} samples have passed, and none was "
        "yielded. Yield each as it passes."
    )


def _given(shares: list[list[int]]) -> Callable[[Any, int, int], list[int]]:
    return lambda data, worker, workers: shares[worker]


def _remark(share: Callable[..., Any]) -> str:
    code = getattr(share, "__code__", None)
    for name in sorted(NEEDS_A_WORKER.intersection(getattr(code, "co_names", ()))):
        return (
            f" `{name}` asks the process which worker it is, and this check starts no workers: "
            "use `worker` and `workers`."
        )
    return ""
