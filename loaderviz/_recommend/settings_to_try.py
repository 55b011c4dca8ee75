"""Which settings a search begins with, what it tries beside them, and which of two is cheaper."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from loaderviz.loader_settings import PREFETCH_FACTOR, LoaderSettings
from loaderviz.why.causes.savings import DEEP

# Of what is needed. Queues are short where their server is busy 4/5 of the time at most, the usual
# rule of capacity planning (Gunther, Guerrilla Capacity Planning, 2007).
MARGIN: Final = 1.25
DEEPER_PREFETCH: Final = DEEP * PREFETCH_FACTOR  # batches a worker, of a queue that evens out more


def cheapness(settings: LoaderSettings) -> tuple[int, bool, int]:
    """A sort key, cheapest first: fewest workers, then in order, then the least prefetch."""
    prefetch = settings.prefetch_factor or PREFETCH_FACTOR
    return settings.num_workers, not settings.in_order, prefetch


def needed_workers(read_s: float, step_s: float, cpu_s: float, cpus: float, most: int) -> int:
    """How many workers keep up with a step, with a margin; or all that the CPUs have work for.

    Args:
        read_s: that one worker takes for a batch.
        step_s: that the loop takes for it; 0: as fast as batches come.
        cpu_s: of a CPU in ``read_s``.
        cpus: that may be used.
        most: workers; returned where nothing else limits them.
    """
    by_cpu = cpus * read_s / cpu_s if cpu_s > 0 else math.inf
    by_step = read_s / step_s if step_s > 0 else math.inf
    wanted = MARGIN * min(by_cpu, by_step)
    return max(1, math.ceil(wanted)) if wanted < most else most


def first_settings(needed: int, most: int, present: LoaderSettings) -> list[LoaderSettings]:
    """No workers, powers of two up to twice what is needed, what is needed, and today's.

    Those that are not ``in_order`` or prefetch more come later, where batches are uneven.
    """
    powers = (1 << n for n in range(most.bit_length()))
    counts = {n for n in powers if n < 2 * needed} | {needed, round(needed / MARGIN)}
    return in_this_order([present, *(plain(n, present) for n in {0, *counts} if n <= most)], needed)


def in_this_order(settings: Iterable[LoaderSettings], needed: int) -> list[LoaderSettings]:
    """Each once; today's first, none, then by how near the number of workers is to what is needed.

    To run without workers starts no process, and says what they are for.
    """
    first, *others = dict.fromkeys(settings)

    def distance(each: LoaderSettings) -> float:
        return abs(math.log(each.num_workers / needed)) if each.num_workers else -1.0

    return [first, *sorted(others, key=distance)]


def plain(workers: int, present: LoaderSettings) -> LoaderSettings:
    """So many workers with torch's defaults; pinned where today's are."""
    return LoaderSettings(workers, pin_memory=present.pin_memory)


def beside(best: int, tried: Iterable[int], most: int) -> list[int]:
    """Numbers of workers between the best and those tried below and above it, or twice the best.

    Empty where the best is 0: there is no number between none and one.
    """
    below = max((n for n in tried if n < best), default=0)
    above = min((n for n in tried if n > best), default=min(2 * best, most))
    middles = [round((below + best) / 2), round((best + above) / 2)]
    if best and not any(n > best for n in tried):
        middles[1] = above
    return [n for n in dict.fromkeys(middles) if 0 < n <= most and n not in {*tried}]


def for_uneven_batches(settings: LoaderSettings) -> list[LoaderSettings]:
    """The same with a deeper prefetch, and with batches as they come."""
    if not settings.num_workers:
        return []
    deeper = replace(settings, prefetch_factor=DEEPER_PREFETCH)
    return [deeper, replace(settings, in_order=False)] if settings.num_workers > 1 else [deeper]
