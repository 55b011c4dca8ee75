"""What an audit would find for a stream that is split in a given way; no loader runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from loaderviz._audit.audit_result import Audit
from loaderviz._audit.conclude_audit import conclude
from loaderviz._audit.count_deliveries import Delivered, Expected, compare_with_expected
from loaderviz._audit.verdict_text import Evidence
from loaderviz.argument_checks import whole_number
from loaderviz.trace import Trace

Split = Callable[[range, int, int], Iterable[int]]


def simulate_audit(
    split: Split | None,
    n_samples: int,
    *,
    num_workers: int,
    batch_size: int,
    drop_last: bool = False,
) -> Audit:
    """Work out the audit of an iterable-style dataset of samples 0 to ``n_samples - 1``.

    Each worker cuts its own stream into batches, and the loop gets one from each in turn, as long
    as it has any (torch/utils/data/dataloader.py, ``_try_put_index``; _utils/fetch.py,
    ``_IterableDatasetFetcher.fetch``).

    Args:
        split: takes ``range(n_samples)``, a worker's number and the number of workers, and returns
            the samples that this worker yields, in order; None: every worker yields all of them.
        n_samples: how many the dataset holds, 0 or more.
        num_workers: 1 or more.
        batch_size: 1 or more.
        drop_last: whether each worker drops its last batch where that is not full.

    Raises:
        LoaderVizError: for a number that is lower.
        Exception: whatever ``split`` raises, unchanged.
    """
    whole_number("n_samples", n_samples, at_least=0)
    whole_number("num_workers", num_workers, at_least=1)
    whole_number("batch_size", batch_size, at_least=1)
    batches_by_worker: list[list[list[int]]] = []
    dropped: list[int] = []
    for worker in range(num_workers):
        dataset = range(n_samples)
        shard = list(dataset if split is None else split(dataset, worker, num_workers))
        end = len(shard) - len(shard) % batch_size if drop_last else len(shard)
        batches_by_worker.append([shard[i : i + batch_size] for i in range(0, end, batch_size)])
        dropped += shard[end:]
    samples = np.arange(n_samples)
    delivered = _deliver(batches_by_worker)
    tables = compare_with_expected(
        delivered,
        Expected(samples, samples, n_samples),
        1,
        {0: np.array(dropped, np.int64)},
    )
    evidence = Evidence("iterable", n_samples, proves_missing=True, n_workers=num_workers)
    trace = Trace.from_columns(workers={"worker": range(num_workers)})
    return replace(conclude(tables, evidence, trace, delivered.number), simulated=True)


def _deliver(batches_by_worker: list[list[list[int]]]) -> Delivered:
    """The samples as the loop gets them: a batch from each worker in turn."""
    rows = [
        (worker, batch, position, sample)
        for batch, (worker, samples) in enumerate(_in_turn(batches_by_worker))
        for position, sample in enumerate(samples)
    ]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    one_epoch_of_one_rank = np.zeros((2, len(rows)), np.int64)
    return Delivered(*one_epoch_of_one_rank, *columns)


def _in_turn(batches_by_worker: list[list[Any]]) -> Iterator[tuple[int, Any]]:
    """Worker and batch, a batch from each worker in turn as long as it has any."""
    for turn in itertools.zip_longest(*batches_by_worker):
        yield from ((worker, batch) for worker, batch in enumerate(turn) if batch is not None)
