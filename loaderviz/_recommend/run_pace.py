"""The pace of a run that is shorter than its epoch, from when each of its steps ended."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from loaderviz.loader_settings import LoaderSettings

MOST_ENDS = 64  # that are looked at for a part to begin or to end with


class Step(NamedTuple):
    """A batch that the loop took, and what it did with it."""

    end_s: float
    n_ahead: int | None  # batches that lay ready for it by then; None: not looked at


def pace_of_run(steps: Sequence[Step], setting: LoaderSettings) -> tuple[float, int]:
    """Seconds a batch once the workers are under way, and after which step that begins to hold.

    A short run may take batches that lay ready, faster than they are made, or see workers make some
    that it does not take any more: what lies ready may be as many as half of all that it takes. So
    that part of the run counts, not less than half of it, at whose ends about as many lie ready;
    and of the difference that is left one half, as it is not known which of both was at work.
    """
    workers = max(1, setting.num_workers)
    # Batches come in rounds of one from each worker: in order, all are up after the first.
    first = workers if len(steps) >= 2 * workers else 1
    ends = [n for n in range(first, len(steps) + 1, workers) if steps[n - 1].n_ahead is not None]
    if len(ends) < 2:
        return (steps[-1].end_s - steps[first - 1].end_s) / (len(steps) - first), first
    middle = (ends[0] + ends[-1]) / 2
    starts = [n for n in ends if n <= middle][:MOST_ENDS]
    stops = [n for n in ends if n >= middle][-MOST_ENDS:]

    def more_ahead(start: int, stop: int) -> int:
        return (steps[stop - 1].n_ahead or 0) - (steps[start - 1].n_ahead or 0)

    def error(part: tuple[int, int]) -> float:
        start, stop = part
        return (abs(more_ahead(start, stop)) + workers) / (stop - start)

    parts = (part for part in itertools.product(starts, stops) if part[0] < part[1])
    start, stop = min(parts, key=error)
    n = max(stop - start + more_ahead(start, stop) / 2, 1.0)
    return (steps[stop - 1].end_s - steps[start - 1].end_s) / n, start
