"""An exercise of notebook 05: seeds that all differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.figures.lane_figures import draws

RANKS, WORKERS, EPOCHS = 8, 16, 10
apart_hint = Hints(
    "worker 1 of rank 0 and worker 0 of rank 1 must differ: rank + worker is 1 for both.",
    "give each of them its own digits, as hours, minutes and seconds have.",
    "base + worker + 100 * rank leaves room for 100 workers; where does the epoch go?",
)


@explains_errors
def apart(seed: Callable[[int, int, int, int], Any]) -> Check:
    """Whether ``seed(base, rank, worker, epoch)`` differs for each rank, worker and epoch.

    Tried with 8 ranks of 16 workers and 10 epochs. The figure shows two ranks and two workers.
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
    if len({seed(0, *place) for place in places}) < len(places):
        return Check(False, "With base 0, which is a seed like any other, some seeds are the same.")
    if _hashes_text(seed):
        return Check(
            False,
            "Python hashes text anew in each process: in the next run the seeds are others. Hash "
            "the numbers themselves.",
        )
    return Check(
        True, f"{len(seeds):,} different seeds, and the same again in the next run.", figure
    )


def _hashes_text(seed: Callable[[int, int, int, int], Any]) -> bool:
    """Whether it calls ``hash`` with text in it, whose hash is salted (object.__hash__)."""
    asked: list[str] = []

    def noted(value: Any) -> int:
        asked.append(repr(value))
        return hash(value)

    with patch.dict(getattr(seed, "__globals__", {}), {"hash": noted}):
        seed(7, 0, 0, 0)
    return any(quote in each for each in asked for quote in "'\"")


def _drawn_numbers(seed: Callable[[int, int, int, int], Any]) -> Any:
    """The figure of what generators with these seeds draw: two ranks, two workers, one epoch."""
    rows = []
    for rank, worker in itertools.product(range(2), repeat=2):
        rng = np.random.default_rng(seed(7, rank, worker, 0))
        rows += [(rank, worker, int(number)) for number in rng.integers(100, size=6)]
    figure = draws(pd.DataFrame(rows, columns=["rank", "worker", "number"]))
    # All seeds are checked, and not only those that are drawn: no verdict on these.
    figure.layout.title.text = "<b>The first two workers of two ranks, in epoch 0</b>"
    return figure
