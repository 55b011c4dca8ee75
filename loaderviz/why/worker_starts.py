"""The starts of workers, by the times that each of them took: rows of ``Trace.workers``.

A loader starts one worker after another. What it sends to one is written into a pipe that holds
64 KiB: with more, it waits there until that worker has booted and reads, and only then goes on to
the next (CPython, Lib/multiprocessing/popen_spawn_posix.py and popen_forkserver.py, ``_launch``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.trace.columns_of_rows import Table, codes, where

if TYPE_CHECKING:
    import pandas as pd

OWN_PARTS: Final = ["boot_s", "unpickle_s", "init_s"]  # in the worker, one after the other
WHOSE: Final = ["rank", "loader", "worker"]


def first_of_each(workers: Table, rows: Table, moment: str) -> tuple[Any, Any]:
    """The first of these rows at or after the start of each worker process.

    Args:
        workers: of whom those count whose start is known.
        rows: with ``rank``, ``loader``, ``worker`` and the column ``moment``, in seconds.
        moment: when each happened; NaN where it did not.

    Returns:
        Their places in ``rows``, and of each whether that loader has had a worker of that number
        before. What follows two starts is of the later one.
    """
    started = np.flatnonzero(~np.isnan(workers["started_s"]))
    known = np.flatnonzero(~np.isnan(rows[moment]))
    whose = np.concatenate(codes(WHOSE, where(workers, started), where(rows, known)))
    at_s = np.concatenate([workers["started_s"][started], rows[moment][known]])
    is_row = np.arange(len(whose)) >= len(started)
    order = np.lexsort((is_row, at_s, whose))  # one worker's after the other, by time
    whose, is_row = whose[order], is_row[order]
    none = len(order)
    following = np.where(is_row, np.arange(len(order)), none)
    following = np.minimum.accumulate(following[::-1])[::-1]
    starts = np.flatnonzero(~is_row)
    follows = following[starts]
    has_one = follows < none
    has_one[has_one] = whose[follows[has_one]] == whose[starts[has_one]]
    again = np.append(False, whose[starts][1:] == whose[starts][:-1])[: len(starts)]
    is_last = np.append(follows[1:] != follows[:-1], True)[: len(starts)]
    kept = has_one & is_last
    return known[order[follows[kept]] - len(started)], again[kept]


def started_together(workers: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The workers of one start after the other, by number; only those whose parts are known."""
    nth = workers.groupby(["rank", "loader", "worker"], sort=False).cumcount()
    known = workers[workers["boot_s"].notna() & workers["started_s"].notna()]
    for _, group in known.groupby([known["rank"], known["loader"], nth[known.index]], sort=False):
        yield group.sort_values("worker", ignore_index=True)


def began_s(workers: pd.DataFrame) -> pd.Series[float]:
    """When the main process began with each: to pickle, or else to fork."""
    return workers["started_s"] - workers["pickle_s"].fillna(0)


def up_s(workers: pd.DataFrame) -> pd.Series[float]:
    """When each could read."""
    return workers["started_s"] + workers[OWN_PARTS].fillna(0).sum(axis=1)


def took_s(workers: pd.DataFrame) -> float:
    """Seconds from the begin of the first until all of them could read."""
    return float(up_s(workers).max() - began_s(workers).min())


def one_after_another(workers: pd.DataFrame) -> bool:
    """Whether each was begun only when the one before had booted, for what had to be sent to it."""
    booted = (workers["started_s"] + workers["boot_s"]).to_numpy()
    sent = bool(workers["pickle_s"].notna().all())
    return len(workers) > 1 and sent and bool(np.all(began_s(workers)[1:] >= booted[:-1]))
