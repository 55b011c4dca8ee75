"""The settings that are compared, and which of two is the cheaper one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Final

from loaderviz.loader_settings import PREFETCH_FACTOR, LoaderSettings

PREFETCH_FACTORS: Final = (PREFETCH_FACTOR, 1, 4, 8)  # cheapest first
EVERY_UP_TO: Final = 8  # every number of workers is tried up to here
LEAST_TRIED: Final = 16  # workers that wait for a disk or a network are of use beyond the CPUs


def cheapness(settings: LoaderSettings) -> tuple[int, bool, bool, int]:
    """A sort key, cheapest first: fewest workers, then plain options, then the least prefetch.

    torch's own ``prefetch_factor`` comes before a smaller one.
    """
    prefetch = settings.prefetch_factor or PREFETCH_FACTOR
    rank = PREFETCH_FACTORS.index(prefetch) if prefetch in PREFETCH_FACTORS else prefetch
    return settings.num_workers, not settings.in_order, settings.persistent_workers, rank


def default_max_workers(allowance: float) -> int:
    """How many workers to try at most where nobody says; ``allowance`` is in CPUs."""
    return max(LEAST_TRIED, 2 * math.ceil(allowance))


def settings_to_try(
    most_workers: int, epochs: int, present: LoaderSettings
) -> list[LoaderSettings]:
    """Every setting to compare, the present one included.

    With several epochs, workers that persist and workers that do not are both tried. One epoch does
    not tell them apart, so the present choice stays.
    """
    pins = present.pin_memory
    settings = {LoaderSettings(0, pin_memory=pins): None}
    for workers in _worker_counts(most_workers):
        for persistent in (present.persistent_workers,) if epochs == 1 else (False, True):
            for prefetch in PREFETCH_FACTORS:
                settings[LoaderSettings(workers, prefetch, True, persistent, pins)] = None
            for prefetch in PREFETCH_FACTORS[::2] if workers > 1 else ():
                settings[LoaderSettings(workers, prefetch, False, persistent, pins)] = None
    return list(settings | {present: None})


def _worker_counts(most: int) -> Iterator[int]:
    """1, 2, ... 8, 10, 12, 16, 20, 24, 32, ... and ``most``."""
    powers = (EVERY_UP_TO << n for n in range(most.bit_length()))
    beyond = (power * quarters // 4 for power in powers for quarters in (4, 5, 6))
    yield from (number for number in chain(range(1, EVERY_UP_TO), beyond) if number < most)
    yield most
