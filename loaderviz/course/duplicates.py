"""Exercise of notebook 04: share out a stream that has no length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from loaderviz._audit import simulate_audit
from loaderviz.course.exercises import Check, Hints, explains_errors

once_hint = Hints(
    "an iterator has no length and no slices, but each worker can count the samples as they pass.",
    "of 3 workers, worker 1 keeps samples 1, 4, 7 and so on, and skips the others.",
    "itertools.islice(samples, start, None, step) begins at start and takes every step-th sample.",
)


@explains_errors
def once(share: Callable[[Iterator[Any], int, int], Iterable[Any]]) -> Check:
    """Whether each sample comes exactly once, whatever the number of samples and workers.

    ``share`` takes an iterator over all samples, a worker's number and the number of workers, and
    returns the samples that this worker yields. Nothing is run: its answers are audited.
    """
    for n_samples in (16, 17, 3):
        for workers in (1, 2, 3, 4):
            found = simulate_audit(
                lambda data, *place: share(iter(data), *place),
                n_samples,
                num_workers=workers,
                batch_size=4,
            )
            if not found.exactly_once:
                message = f"{n_samples} samples, num_workers={workers}: {found.verdict}."
                return Check(False, message, found.figure())
    return Check(True, "Each of 16, 17 and 3 samples comes exactly once, for 1 to 4 workers.")
