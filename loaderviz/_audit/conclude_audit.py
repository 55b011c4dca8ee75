"""From the tables of a comparison to the ``Audit``: the verdict, and each worker's share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._audit import verdict_text
from loaderviz._audit.audit_result import Audit
from loaderviz._audit.count_deliveries import Tables
from loaderviz._audit.verdict_text import Evidence

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

RANK = 1 << 13  # more than a rank has workers (check_trace.MOST_WORKERS), and its main process


def conclude(tables: Tables, evidence: Evidence, trace: Trace, keys: Any = None) -> Audit:
    """The ``Audit`` of these tables; ``trace`` tells which workers there were.

    ``keys`` holds what the sample of each delivery is known by.
    """
    per_worker = _per_worker(tables, trace)
    return Audit(
        exactly_once=_exactly_once(tables, evidence),
        verdict=verdict_text.verdict(tables, evidence),
        notes=verdict_text.notes(tables, evidence, per_worker),
        n_samples=(
            evidence.n_known if evidence.proves_missing and not evidence.which_samples else None
        ),
        duplicates=tables.duplicates,
        missing=tables.missing,
        extra=tables.extra,
        per_worker=per_worker,
        epochs=tables.epochs,
        deliveries=tables.deliveries,
        keys=keys,
    )


def _exactly_once(tables: Tables, evidence: Evidence) -> bool | None:
    """None where it can be neither proven nor refuted."""
    epochs = tables.epochs
    if epochs["duplicates"].isna().any():
        return None
    if (epochs["duplicates"] > 0).any() or (epochs["extra"] > 0).any():
        return False
    if not evidence.proves_missing:
        return None
    return not bool((epochs["missing"] > 0).any())


def _per_worker(tables: Tables, trace: Trace) -> pd.DataFrame:
    """The table ``Audit.per_worker``, also for workers that delivered nothing."""
    import pandas as pd

    deliveries, n_epochs = tables.deliveries, len(tables.epochs)
    epoch, batch = deliveries["epoch"].to_numpy(), deliveries["batch"].to_numpy()
    # As one number each: to sort pairs takes many times as long, of millions of samples.
    codes = [
        table["rank"].to_numpy() * RANK + table["worker"].to_numpy() + 1
        for table in (trace.workers, deliveries)
    ]
    lanes, lane = np.unique(np.concatenate(codes), return_inverse=True)
    n_lanes = len(lanes)
    row = epoch * n_lanes + lane[len(trace.workers) :]
    n_batches = int(batch.max(initial=0)) + 1
    row_of_batch = np.unique(row * n_batches + batch) // n_batches
    samples = np.bincount(row, minlength=n_epochs * n_lanes)
    in_epoch = samples.reshape(n_epochs, n_lanes).sum(axis=1).repeat(n_lanes)
    return pd.DataFrame(
        {
            "epoch": tables.epochs["epoch"].to_numpy().repeat(n_lanes),
            "rank": np.tile(lanes // RANK, n_epochs),
            "worker": np.tile(lanes % RANK - 1, n_epochs),
            "samples": samples,
            "batches": np.bincount(row_of_batch, minlength=n_epochs * n_lanes),
            "share": samples / np.maximum(in_epoch, 1),
        }
    )
