"""Exercises of notebook 05: seeds that all differ, a large enough buffer, one order for all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from loaderviz._audit import Audit, simulate_audit
from loaderviz.course.datasets.shuffling import shuffled
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.figures.draws import draws
from loaderviz.course.figures.shuffled_orders import classes

RANKS, WORKERS, EPOCHS = 8, 16, 10
apart_hint = Hints(
    "worker 1 of rank 0 and worker 0 of rank 1 must differ: rank + worker is 1 for both.",
    "give each of them its own digits, as hours, minutes and seconds have.",
    "base + worker + 100 * rank leaves room for 100 workers; where does the epoch go?",
)


@explains_errors
def apart(seed: Callable[[int, int, int, int], Any]) -> Check:
    """Whether ``seed(base, rank, worker, epoch)`` differs for each rank, worker and epoch.

    Tried with 8 ranks of 16 workers and 10 epochs. The figure shows two of each.
    """
    places = list(itertools.product(range(RANKS), range(WORKERS), range(EPOCHS)))
    seeds = [seed(7, *place) for place in places]
    for place, value in zip(places, seeds, strict=True):
        call = f"seed{(7, *place)} returns {value!r:.60}"
        if not isinstance(value, int | np.integer):
            return Check(False, f"{call}: a seed is a whole number.")
        if value < 0:
            return Check(
                False, f"{call}: NumPy takes no seed below 0. Use `% 2**64`, as for a hash()."
            )
    if seeds != [seed(7, *place) for place in places]:
        return Check(
            False, "Called again, seed returns something else: the run cannot be repeated."
        )
    figure = _drawn_numbers(seed)
    place_of: dict[Any, tuple[int, ...]] = {}
    for place, value in zip(places, seeds, strict=True):
        if value in place_of:
            first, second = (
                "rank {}, worker {}, epoch {}".format(*each) for each in (place_of[value], place)
            )
            return Check(False, f"The same seed {value} for {first} and for {second}.", figure)
        place_of[value] = place
    if seed(8, 0, 0, 0) == seeds[0]:
        return Check(False, "Another base gives the same seeds: all runs would be the same.")
    return Check(
        True, f"{len(seeds):,} different seeds, and the same again in the next run.", figure
    )


def _drawn_numbers(seed: Callable[[int, int, int, int], Any]) -> Any:
    """The figure of what generators with these seeds draw, for two ranks, workers and epochs."""
    rows = []
    for rank, epoch, worker in itertools.product(range(2), repeat=3):
        rng = np.random.default_rng(seed(7, rank, worker, epoch))
        for number in rng.integers(100, size=6):
            rows.append((rank, epoch, worker, int(number)))
    return draws(pd.DataFrame(rows, columns=["rank", "epoch", "worker", "number"]))


N, CLASSES, BATCH_SIZE, ENOUGH_CLASSES, STEP, ORDERS = 1000, 10, 50, 9.0, 100, 100
enough_hint = Hints(
    "each class is a stretch of 100 samples, and a buffer holds mostly the latest samples: with a "
    "buffer of 100, a batch has samples of 4 of the 10 classes.",
    "the control above can be set to 1,000 samples, too.",
    "half of all samples is not enough.",
)


def enough(buffer_size: int) -> Check:
    """Whether this is the smallest buffer, in steps of 100, that mixes a sorted stream enough.

    Enough means that a batch has samples of 9 of the 10 classes on average.
    """
    if type(buffer_size) is not int or buffer_size not in range(STEP, N + 1, STEP):
        return Check(False, f"buffer_size={buffer_size!r}: give 100, 200, ... or 1000.")
    n_classes = classes_in_a_batch(N, buffer_size)
    says = f"a batch has samples of {n_classes:.1f} of {CLASSES} classes on average"
    order = shuffled(range(N), buffer_size, random.Random(0))
    strips = {"on disk": range(N), f"buffer of {buffer_size:,}": list(order)}
    figure = classes(
        {name: [CLASSES * i // N for i in strip] for name, strip in strips.items()},
        title=f"{says[0].upper()}{says[1:]}",
    )
    if n_classes < ENOUGH_CLASSES:
        return Check(False, f"Not yet: {says}.", figure)
    if buffer_size > STEP and classes_in_a_batch(N, buffer_size - STEP) >= ENOUGH_CLASSES:
        return Check(False, f"Enough, but a smaller one would do: {says}.", figure)
    return Check(True, f"{buffer_size}: {says}.", figure)


def classes_in_a_batch(n: int, buffer_size: int) -> float:
    """The number of classes that a batch of 50 has samples of, on average over 100 orders.

    ``n`` samples, sorted by ten classes of equal size, go through a shuffle buffer. The average of
    a single order may be off by 0.2.
    """
    counts = []
    for seed in range(ORDERS):
        order = np.fromiter(shuffled(range(n), buffer_size, random.Random(seed)), int)
        classes_of = order * CLASSES // n
        batches = (classes_of[start : start + BATCH_SIZE] for start in range(0, n, BATCH_SIZE))
        counts += [len(np.unique(batch)) for batch in batches]
    return float(np.mean(counts))


agreed_hint = Hints(
    "print order(6, 0, worker, 2) for worker 0 and 1: do they share out the same list?",
    "all workers must shuffle alike: the seed may not depend on the worker.",
    "and yet it has to differ from epoch to epoch: what is the same in all workers, but differs by "
    "epoch?",
)


@explains_errors
def agreed(order: Callable[[int, int, int, int], Any]) -> Check:
    """Whether each shard is read once in each epoch, in an order that changes with the epoch.

    ``order(n_shards, epoch, worker, workers)`` returns the shards that this worker reads.
    """
    for n, workers in itertools.product((12, 6, 3, 25), (2, 1, 3, 4)):
        epochs = []
        for epoch in range(6):
            case = f"{n} shards, num_workers={workers}, epoch {epoch}"
            parts = [list(order(n, epoch, worker, workers)) for worker in range(workers)]
            if sorted(itertools.chain(*parts)) != list(range(n)):
                audit = _audit_of(parts, n)
                says = f"{case}: {audit.verdict} (a sample is a shard)."
                return Check(False, says, audit.figure())
            epochs.append(parts)
        if n > 6 and all(parts == epochs[0] for parts in epochs):
            return Check(
                False, f"{n} shards, num_workers={workers}: the same order in every epoch."
            )
    figure = _audit_of(parts, n).figure()
    return Check(True, "Every shard once, and the order changes with the epoch.", figure)


def _audit_of(parts: list[list[int]], n: int) -> Audit:
    """The audit of n shards, of which each worker reads its part."""
    return simulate_audit(
        lambda data, worker, workers: parts[worker], n, num_workers=len(parts), batch_size=1
    )
