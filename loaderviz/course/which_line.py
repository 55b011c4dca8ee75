"""Exercise of notebook 18: the same samples, from a quicker line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.text import duration

if TYPE_CHECKING:
    import pandas as pd

DAYS, HOURS, COLUMNS = 100, 24, 30
TIMES: Final = 3  # as quick, at least
ROUNDS: Final = 5

quicker_hint = Hints(
    "the recording above names the line: each self.table.iloc[...] makes a Series.",
    "self.table.to_numpy() makes one array of the whole table. When would you do that?",
    "in __init__: self.hours = self.table.to_numpy(). A day is a slice of 24 of its rows.",
)


def hourly_table() -> pd.DataFrame:
    """30 numbers for each of 24 hours of 100 days, a row for each hour."""
    import pandas as pd

    return pd.DataFrame(np.random.default_rng(0).random((HOURS * DAYS, COLUMNS)))


@explains_errors
def quicker(dataset_class: Callable[[], Any]) -> Check:
    """Whether a dataset of this class has the same days, at least three times as quick as before.

    ``dataset_class`` is called without arguments; sample ``day`` is a tensor of shape (24, 30).
    """
    table, dataset = hourly_table(), dataset_class()

    def before(day: int) -> Any:
        return np.array([table.iloc[HOURS * day + i] for i in range(HOURS)])

    for day in range(DAYS):
        given, asked = np.asarray(dataset[day]), before(day)
        if given.shape == asked.shape and np.allclose(given, asked) and (given != asked).any():
            return Check(False, f"Day {day} is rounded to {given.dtype}: give {asked.dtype}.")
        if not np.array_equal(given, asked):
            return Check(False, f"Day {day} is another one: give rows {HOURS * day} and on.")
    # In turn, and of each day the quickest time: a busy machine is slow now and then. Each day once
    # a round, as an epoch reads it: what is kept of the first reading is of no use.
    rounds = np.full((ROUNDS, 2, DAYS), np.nan)
    for times_s in rounds:
        dataset = dataset_class()
        for day in range(DAYS):
            times_s[:, day] = _seconds(dataset.__getitem__, day), _seconds(before, day)
    took_s, was_s = rounds.min(axis=0).mean(axis=1).tolist()
    text = f"A day takes {duration(took_s)}; row by row it takes {duration(was_s)}"
    if TIMES * took_s > was_s:
        return Check(False, f"{text}: make it at least {TIMES} times as quick.")
    return Check(True, f"{text}: the same days, {was_s / took_s:.0f} times as quick.")


def _seconds(read: Callable[[int], Any], day: int) -> float:
    begun = time.perf_counter()
    read(day)
    return time.perf_counter() - begun
