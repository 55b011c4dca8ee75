"""The audit of numbered samples: written down as they came, or worked out without a run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from loaderviz._audit.audit_result import Audit
from loaderviz._audit.conclude_audit import Evidence, conclude
from loaderviz._audit.count_deliveries import Expected, compare_with_expected
from loaderviz._contents.deliveries import Delivered
from loaderviz.argument_checks import whole_number
from loaderviz.trace import Trace

Split = Callable[[range, int, int], Iterable[int]]


class DeliveredBatch(NamedTuple):
    """A batch that was delivered: to which rank, by which of its workers, and what was in it."""

    rank: int
    worker: int  # -1 where the main process itself loads
    batch: int  # counted by its rank, from 0 in each epoch
    numbers: Sequence[int]
    epoch: int = 0


def audit_batches(
    batches: Iterable[DeliveredBatch],
    n_samples: int,
    *,
    kind: str = "map",
    idle: Iterable[tuple[int, int]] = (),
    dropped: Sequence[int] = (),
    simulated: bool = False,
) -> Audit:
    """The audit of a dataset of samples 0 to ``n_samples - 1``, all ranks as one.

    Args:
        batches: of each rank in the order of delivery.
        n_samples: how many samples the dataset holds.
        kind: of the dataset, ``map`` or ``iterable``.
        idle: rank and number of workers that delivered nothing.
        dropped: the samples of epoch 0 that ``drop_last`` took.
        simulated: whether the batches were worked out instead of run.
    """
    batches = list(batches)
    rows = [
        (batch.epoch, batch.rank, batch.worker, batch.batch, position, number)
        for batch in batches
        for position, number in enumerate(batch.numbers)
    ]
    delivered = Delivered(*np.array(rows, np.int64).reshape(-1, 6).T)
    samples = np.arange(n_samples)
    n_epochs = 1 + max((batch.epoch for batch in batches), default=0)
    tables = compare_with_expected(
        delivered,
        Expected(samples, samples, n_samples),
        n_epochs,
        {0: np.array(dropped, np.int64)},
    )
    lanes = sorted({*idle, *((batch.rank, batch.worker) for batch in batches)})
    workers = [worker for _, worker in lanes]
    evidence = Evidence(
        kind, n_samples, proves_missing=True, n_workers=sum(worker >= 0 for worker in workers)
    )
    trace = Trace.from_columns(workers={"rank": [rank for rank, _ in lanes], "worker": workers})
    audit = conclude(tables, evidence, trace, delivered.number)
    return replace(audit, simulated=simulated)


def batches_in_turn(
    shards: Iterable[Sequence[int]], batch_size: int, rank: int = 0
) -> Iterator[DeliveredBatch]:
    """The batches of one rank: each worker cuts its own shard, and the loop gets one from each."""
    of_workers = (
        [(worker, shard[at : at + batch_size]) for at in range(0, len(shard), batch_size)]
        for worker, shard in enumerate(shards)
    )
    in_turn = filter(None, itertools.chain(*itertools.zip_longest(*of_workers)))
    for batch, (worker, numbers) in enumerate(in_turn):
        yield DeliveredBatch(rank, worker, batch, numbers)


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
    shards: list[list[int]] = []
    dropped: list[int] = []
    for worker in range(num_workers):
        dataset = range(n_samples)
        shard = list(dataset if split is None else split(dataset, worker, num_workers))
        end = len(shard) - len(shard) % batch_size if drop_last else len(shard)
        shards.append(shard[:end])
        dropped += shard[end:]
    return audit_batches(
        batches_in_turn(shards, batch_size),
        n_samples,
        kind="iterable",
        idle=[(0, worker) for worker in range(num_workers)],
        dropped=dropped,
        simulated=True,
    )
