"""Notebook 14: how many classes a batch has; an exercise, to mix a sorted stream in little room."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from loaderviz._audit import audit
from loaderviz.course.datasets.shuffling import shuffled
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.figures.shuffled_orders import classes
from loaderviz.figures.display import Figure

CLASSES, BATCH_SIZE, ORDERS = 10, 50, 100
N, SHARD, ROOM, ENOUGH, TRIES = 1000, 10, 200, 9, 30  # of the exercise
mixed_hint = Hints(
    "a shard holds one class. Which shards come one after another on disk?",
    "a list of shards is short: it can be shuffled as a whole, before any is opened.",
    "rng.sample(shards, len(shards)) is such a list. The buffer then mixes what comes from them.",
)


def classes_in_a_batch(n: int, buffer_size: int) -> float:
    """The number of classes that a batch of 50 has samples of, on average over 100 orders.

    ``n`` samples, sorted by ten classes of equal size, go through a shuffle buffer. The average of
    a single order may be off by 0.2.
    """
    orders = (shuffled(range(n), buffer_size, random.Random(seed)) for seed in range(ORDERS))
    return float(np.mean([_classes_in(order, n) for order in orders]))


def _classes_in(order: Iterable[int], n: int) -> float:
    classes_of = np.fromiter(order, int) * CLASSES // n
    batches = (classes_of[start : start + BATCH_SIZE] for start in range(0, n, BATCH_SIZE))
    return float(np.mean([len(np.unique(batch)) for batch in batches]))


def tenths_in_a_batch(loader: Any, key: Callable[[Any], Any]) -> Figure:
    """Draw from which tenths of the source the samples of a loader's first epoch come.

    ``key`` returns what tells where a sample lay; keys are sorted to find its place.
    """
    found = audit(loader, key=key)
    source, places = np.unique(found.keys, return_inverse=True)
    came = found.deliveries.assign(tenth=CLASSES * places // len(source))
    batches = came.groupby(["rank", "batch"])["tenth"]
    full = CLASSES * (1 - (1 - 1 / CLASSES) ** batches.size()).mean()
    return classes(
        {"the source": sorted(came["tenth"]), "as it came": came["tenth"].tolist()},
        title=f"A batch has samples of {batches.nunique().mean():.1f} of {CLASSES} tenths of the "
        f"source; after a full shuffle {full:.1f}",
        colour="tenth of the source",
    )


class _Shard:
    """Samples of one class; what is read of it goes to ``read``."""

    def __init__(self, samples: range, read: list[int]) -> None:
        self._samples, self._read = samples, read

    def __iter__(self) -> Iterator[int]:
        for sample in self._samples:
            self._read.append(sample)
            yield sample


@explains_errors
def mixed(stream: Callable[[list[Any], random.Random], Iterable[int]]) -> Check:
    """Whether ``stream(shards, rng)`` mixes 1,000 sorted samples and holds 200 of them at most.

    There are 100 shards, each with ten samples of one of ten classes. On average a batch of 50 has
    to have samples of nine classes.
    """
    orders = []
    for seed in range(TRIES):
        order, held = _run(stream, seed)
        if held > ROOM:
            return Check(False, f"Not yet: {held} samples were held at once, {ROOM} are allowed.")
        if sorted(order) != list(range(N)):
            message = f"{len(order):,} samples came, {len(set(order)):,} different ones"
            return Check(False, f"Not yet: {message}. Each of {N:,} has to come once.")
        orders.append(order)
    average = float(np.mean([_classes_in(order, N) for order in orders]))
    title = f"A batch of {BATCH_SIZE} has samples of {average:.1f} of {CLASSES} classes, on average"
    strips = {"on disk": range(N), "yours": orders[0]}
    figure = classes(
        {name: [sample * CLASSES // N for sample in order] for name, order in strips.items()},
        title=title,
    )
    if average < ENOUGH:
        return Check(False, f"Not yet: {average:.1f} classes in a batch, {ENOUGH} needed.", figure)
    if orders[0] == orders[1]:
        return Check(False, "Not yet: with another rng the order is the same.", figure)
    return Check(True, f"{average:.1f} of {CLASSES} classes in a batch.", figure)


def _run(
    stream: Callable[[list[Any], random.Random], Iterable[int]], seed: int
) -> tuple[Sequence[int], int]:
    """The order of what comes, and the most samples that were read and had not come yet."""
    read: list[int] = []
    shards = [_Shard(range(at, at + SHARD), read) for at in range(0, N, SHARD)]
    order, held = [], 0
    for sample in stream(shards, random.Random(seed)):
        order.append(sample)
        held = max(held, len(read) - len(order))
        if len(order) > N:
            break
    return order, held
