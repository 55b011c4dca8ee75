"""The audit of numbered samples that were written down as they came, of any number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from loaderviz._audit.audit_result import Audit
from loaderviz._audit.conclude_audit import conclude
from loaderviz._audit.count_deliveries import Delivered, Expected, compare_with_expected
from loaderviz._audit.verdict_text import Evidence
from loaderviz.trace import Trace


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
    simulated: bool = False,
) -> Audit:
    """The audit of a dataset of samples 0 to ``n_samples - 1``, all ranks as one.

    Args:
        batches: of each rank in the order of delivery.
        n_samples: how many samples the dataset holds.
        kind: of the dataset, ``map`` or ``iterable``.
        idle: rank and number of workers that delivered nothing.
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
    tables = compare_with_expected(delivered, Expected(samples, samples, n_samples), n_epochs, {})
    lanes = sorted({*idle, *((batch.rank, batch.worker) for batch in batches)})
    workers = [worker for _, worker in lanes]
    evidence = Evidence(
        kind, n_samples, proves_missing=True, n_workers=sum(worker >= 0 for worker in workers)
    )
    trace = Trace.from_columns(workers={"rank": [rank for rank, _ in lanes], "worker": workers})
    return replace(conclude(tables, evidence, trace), simulated=simulated)
