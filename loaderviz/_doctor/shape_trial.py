"""Finds the samples that cannot be put together: reads them and compares their shapes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from loaderviz._doctor.loader_setup import Setup
from loaderviz.recorder.unequal_samples import shapes_in

MOST_SAMPLES = 10_000
MOST_S = 2.0

Shape = tuple[int, ...]


@dataclass(frozen=True)
class UnequalShapes:
    """Two samples of one batch that have different shapes, and how common that is."""

    keys: tuple[str, str]  # of the samples; of a stream, their places in it
    part: str  # of a sample, such as "['image']"; empty where a sample is one tensor
    shapes: tuple[Shape, Shape]
    n_shapes: int  # of that part, among the samples that were read
    n_samples: int  # that were read


def find_unequal_shapes(setup: Setup, until: float) -> UnequalShapes | None:
    """Read samples, batch by batch, in a copy of the process.

    Args:
        setup: the loader.
        until: when to stop, in seconds of ``time.monotonic()``; two seconds at most.

    Returns:
        The first two of one batch that differ; None where there are none.
    """
    until = min(until, time.monotonic() + MOST_S)
    found: tuple[tuple[str, str], str, tuple[Shape, Shape]] | None = None
    counts: Counter[tuple[str, Shape]] = Counter()
    n_samples = 0
    for batch in _batches_of_samples(setup):
        first: tuple[str, dict[str, Shape]] | None = None
        for key, sample in batch:
            shapes = _shapes(sample)
            counts.update(shapes.items())
            n_samples += 1
            first = first or (repr(key), shapes)
            if found is None:
                found = _difference(first, (repr(key), shapes))
        if n_samples >= MOST_SAMPLES or time.monotonic() > until:
            break
    if found is None:
        return None
    keys, part, two = found
    n_shapes = sum(each == part for each, _ in counts)
    return UnequalShapes(keys, part, two, n_shapes, n_samples)


def _batches_of_samples(setup: Setup) -> Iterator[Iterator[tuple[Any, Any]]]:
    """Each sample with its key, or with its place in the stream."""
    dataset, settings = setup.dataset, setup.settings
    if not setup.iterable:
        for keys in settings["batch_sampler"] or ():
            yield ((key, dataset[key]) for key in keys)
    elif settings["batch_size"]:
        stream = enumerate(dataset)
        while batch := list(islice(stream, settings["batch_size"])):
            yield iter(batch)


def _shapes(sample: Any) -> dict[str, Shape]:
    """By their place in the sample, the shapes of its tensors and arrays."""
    return {part: shape for part, shape in shapes_in(sample) if isinstance(shape, tuple)}


def _difference(
    one: tuple[str, dict[str, Shape]], other: tuple[str, dict[str, Shape]]
) -> tuple[tuple[str, str], str, tuple[Shape, Shape]] | None:
    for part, shape in one[1].items():
        if other[1].get(part, shape) != shape:
            return (one[0], other[0]), part, (shape, other[1][part])
    return None
