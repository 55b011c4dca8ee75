"""From the tables of a comparison to the ``Audit``: the verdict, and each worker's share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loaderviz._audit import verdict_text
from loaderviz._audit.audit_result import Audit
from loaderviz._audit.count_deliveries import Tables
from loaderviz._audit.verdict_text import Evidence

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace


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

    lane_columns = ["rank", "worker"]
    lanes = pd.concat([trace.workers[lane_columns], tables.deliveries[lane_columns]])
    lanes = lanes.drop_duplicates().sort_values(lane_columns)
    rows = tables.epochs[["epoch"]].merge(lanes, how="cross")
    row_columns = ["epoch", *lane_columns]
    groups = tables.deliveries.groupby(row_columns)
    counts = pd.DataFrame({"samples": groups.size(), "batches": groups["batch"].nunique()})
    rows = rows.merge(counts.reset_index(), how="left", on=row_columns)
    rows[["samples", "batches"]] = rows[["samples", "batches"]].fillna(0).astype("int64")
    n_in_epoch = rows.groupby("epoch")["samples"].transform("sum")
    rows["share"] = (rows["samples"] / n_in_epoch.where(n_in_epoch > 0)).fillna(0.0)
    return rows
