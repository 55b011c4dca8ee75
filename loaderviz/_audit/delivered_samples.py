"""From a trace to the samples that were delivered, in the order of delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._audit.count_deliveries import Delivered, IntArray
from loaderviz.trace.columns_of_rows import arrays, batch_rows

if TYPE_CHECKING:
    from loaderviz.trace import Trace


_EMPTY = np.zeros(0, np.int64)


def delivered_by_key(trace: Trace) -> tuple[Delivered, Any]:
    """Samples as the trace lists them, and their keys: what a map-style dataset was asked for.

    A key that is a list stands for as many samples: with ``batch_size=None`` a sampler may ask for
    a whole batch at once. ``Delivered.number`` stays None, because which numbers the keys get
    depends on what is expected. The keys are an array or a list, one for each sample.
    """
    batches = trace.batches[trace.batches["delivered_s"].notna()].sort_values("delivered_s")
    samples = arrays(trace.samples)
    batch_of_sample = batch_rows(samples, arrays(batches))
    order = np.lexsort((samples["position"], batch_of_sample))
    order = order[batch_of_sample[order] >= 0]
    keys: Any = samples["key"][order]
    columns = {
        name: np.asarray(batches[name], np.int64)[batch_of_sample[order]]
        for name in ("epoch", "rank", "worker", "batch")
    }
    position = samples["position"][order]
    if keys.dtype == object and any(isinstance(key, list) for key in keys):
        sizes = np.array([len(key) if isinstance(key, list) else 1 for key in keys], np.int64)
        columns = {name: np.repeat(values, sizes) for name, values in columns.items()}
        position = _positions(sizes)
        keys = [part for key in keys for part in (key if isinstance(key, list) else [key])]
    return Delivered(**columns, position=np.asarray(position, np.int64), number=None), keys


def delivered_by_number(
    trace: Trace, notes: list[dict[int, list[IntArray]]], full_size: int | None
) -> tuple[Delivered, dict[int, IntArray]]:
    """Samples as their workers noted them; and the numbers that ``drop_last`` took, by epoch.

    ``notes`` holds for each epoch and worker the sample numbers of each batch. A worker's k-th note
    belongs to the k-th batch that it collated. A batch that was never delivered and has fewer
    samples than ``full_size`` was dropped; None: ``drop_last`` is not set.
    """
    batches = trace.batches[trace.batches["collate_s"].notna()]
    batch_epoch, batch_worker = (
        np.asarray(batches[name], np.int64) for name in ("epoch", "worker")
    )
    delivered_s = np.asarray(batches["delivered_s"])
    numbers: list[IntArray] = []
    row_parts: list[IntArray] = []
    dropped: dict[int, IntArray] = {}
    for epoch, notes_of_epoch in enumerate(notes):
        for worker, notes_of_worker in notes_of_epoch.items():
            collated = np.flatnonzero((batch_epoch == epoch) & (batch_worker == worker))
            collated = collated[: len(notes_of_worker)]
            numbers += notes_of_worker[: len(collated)]
            row_parts.append(collated)
            undelivered = np.flatnonzero(np.isnan(delivered_s[collated]))
            partial = [
                notes_of_worker[k]
                for k in undelivered
                if len(notes_of_worker[k]) < (full_size or 0)
            ]
            dropped[epoch] = np.concatenate([dropped.get(epoch, _EMPTY), *partial])
    rows = np.concatenate([_EMPTY, *row_parts])
    order = np.argsort(delivered_s[rows], kind="stable")
    order = order[~np.isnan(delivered_s[rows[order]])]
    sizes = np.array([len(numbers[k]) for k in order], np.int64)
    columns = {
        name: np.repeat(np.asarray(batches[name], np.int64)[rows[order]], sizes)
        for name in ("epoch", "rank", "worker", "batch")
    }
    number = np.concatenate([_EMPTY, *(numbers[k] for k in order)])
    return Delivered(**columns, position=_positions(sizes), number=number), dropped


def _positions(sizes: IntArray) -> IntArray:
    """0 to size - 1 for each size, one after another."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
