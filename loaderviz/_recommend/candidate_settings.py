"""The settings that are compared, and which of two is the cheaper one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Final

from loaderviz.loader_settings import PREFETCH_FACTOR, LoaderSettings

PREFETCH: Final = (PREFETCH_FACTOR, 1, 4, 8)
FINE: Final = 8  # up to here every number of workers is tried
LEAST_REACH: Final = 16  # workers that wait for a disk or a network are of use beyond the CPUs


def cost(settings: LoaderSettings) -> tuple[int, bool, bool, int]:
    """Fewest workers first, then plain options, then torch's own prefetch or less."""
    prefetch = settings.prefetch_factor or PREFETCH_FACTOR
    rank = PREFETCH.index(prefetch) if prefetch in PREFETCH else prefetch
    return settings.num_workers, not settings.in_order, settings.persistent_workers, rank


def reach(allowance: float) -> int:
    """How many workers are tried where nobody says it."""
    return max(LEAST_REACH, 2 * math.ceil(allowance))


def grid(most_workers: int, epochs: int, present: LoaderSettings) -> list[LoaderSettings]:
    """Every setting that is tried: what there is now, too.

    Workers live on from epoch to epoch, or not, as they do now where one epoch does not tell.
    """
    pins = present.pin_memory
    found = {LoaderSettings(0, pin_memory=pins): None}
    for workers in _numbers(most_workers):
        for persistent in (present.persistent_workers,) if epochs == 1 else (False, True):
            for prefetch in PREFETCH:
                found[LoaderSettings(workers, prefetch, True, persistent, pins)] = None
            for prefetch in PREFETCH[::2] if workers > 1 else ():
                found[LoaderSettings(workers, prefetch, False, persistent, pins)] = None
    return list(found | {present: None})


def _numbers(most: int) -> Iterator[int]:
    """1, 2, ... 8, 10, 12, 16, 20, 24, 32, ... and the last one."""
    powers = (FINE << n for n in range(most.bit_length()))
    beyond = (power * part // 4 for power in powers for part in (4, 5, 6))
    yield from (number for number in chain(range(1, FINE), beyond) if number < most)
    yield most
