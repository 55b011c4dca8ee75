"""From a trace to the samples that were delivered, in the order of delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._audit.count_deliveries import Delivered, Words

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace


_NONE = np.zeros(0, np.int64)


def by_key(trace: Trace) -> tuple[Delivered, Any]:
    """Samples as the trace lists them, and their keys: what a map-style dataset was asked for.

    A key that is a list stands for as many samples: what a sampler of batches asks for where
    ``batch_size=None``. The numbers are left open, since they depend on what is expected.
    """
    batches = delivered_batches(trace)
    rows, turn = _rows_of(trace.samples, batches)
    samples = trace.samples
    keys: Any = samples["key"].to_numpy()[rows]
    columns = {
        name: np.asarray(batches[name], np.int64)[turn]
        for name in ("epoch", "rank", "worker", "batch")
    }
    position = samples["position"].to_numpy()[rows]
    if keys.dtype == object and any(isinstance(key, list) for key in keys):
        sizes = np.array([len(key) if isinstance(key, list) else 1 for key in keys], np.int64)
        columns = {name: np.repeat(values, sizes) for name, values in columns.items()}
        position = counted(sizes)
        keys = [each for key in keys for each in (key if isinstance(key, list) else [key])]
    return Delivered(**columns, position=np.asarray(position, np.int64), number=None), keys


def by_number(
    trace: Trace, blocks: list[dict[int, list[Words]]], full: int | None
) -> tuple[Delivered, dict[int, Words]]:
    """Samples as their workers wrote them down, epoch by epoch; and what ``drop_last`` took.

    The k-th block of a worker is that of the k-th batch that it came to collate. One of fewer
    samples than ``full`` was dropped.
    """
    batches = trace.batches[trace.batches["collate_s"].notna()]
    epoch, worker = (np.asarray(batches[name], np.int64) for name in ("epoch", "worker"))
    taken = np.asarray(batches["delivered_s"])
    numbers: list[Words] = []
    rows: list[Words] = []
    dropped: dict[int, Words] = {}
    for number, of_workers in enumerate(blocks):
        for each, own in of_workers.items():
            made = np.flatnonzero((epoch == number) & (worker == each))[: len(own)]
            numbers += own[: len(made)]
            rows.append(made)
            left = [
                own[k] for k in np.flatnonzero(np.isnan(taken[made])) if len(own[k]) < (full or 0)
            ]
            dropped[number] = np.concatenate([dropped.get(number, _NONE), *left])
    row = np.concatenate([_NONE, *rows])
    order = np.argsort(taken[row], kind="stable")
    order = order[~np.isnan(taken[row[order]])]
    sizes = np.array([len(numbers[k]) for k in order], np.int64)
    columns = {
        name: np.repeat(np.asarray(batches[name], np.int64)[row[order]], sizes)
        for name in ("epoch", "rank", "worker", "batch")
    }
    known = np.concatenate([_NONE, *(numbers[k] for k in order)])
    return Delivered(**columns, position=counted(sizes), number=known), dropped


def delivered_batches(trace: Trace) -> pd.DataFrame:
    return trace.batches[trace.batches["delivered_s"].notna()].sort_values("delivered_s")


def counted(sizes: Words) -> Words:
    """0 to size - 1 for each size, one after another."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _rows_of(samples: pd.DataFrame, batches: pd.DataFrame) -> tuple[Words, Words]:
    """The rows of ``samples`` that lie in ``batches``, in their order, and each one's batch."""
    names = ("rank", "epoch", "batch")
    tables = [[np.asarray(each[name], np.int64) for name in names] for each in (samples, batches)]
    sizes = [
        max((int(column.max()) for column in each if len(column)), default=0) + 1
        for each in zip(*tables, strict=True)
    ]
    own, sought = (np.ravel_multi_index(tuple(table), tuple(sizes)) for table in tables)
    order = np.argsort(sought)
    at = np.minimum(np.searchsorted(sought[order], own), max(len(order) - 1, 0))
    inside = (sought[order][at] == own) if len(order) else np.zeros(len(own), bool)
    rows = np.flatnonzero(inside)
    turn = order[at[rows]]
    position = np.asarray(samples["position"], np.int64)[rows]
    sort = np.lexsort((position, turn))
    return rows[sort], turn[sort]
