"""From the tables of a comparison to the ``Audit``: the verdict, and each worker's share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loaderviz._audit import verdict_text
from loaderviz._audit.audit_result import Audit
from loaderviz._audit.count_deliveries import Tables
from loaderviz._audit.verdict_text import Setting

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace


def conclude(found: Tables, setting: Setting, trace: Trace) -> Audit:
    per_worker = _per_worker(found, trace)
    return Audit(
        exactly_once=_exactly_once(found, setting),
        verdict=verdict_text.verdict(found, setting),
        notes=verdict_text.notes(found, setting, per_worker),
        n_samples=setting.n_known if setting.proves_missing and not setting.known_as else None,
        duplicates=found.duplicates,
        missing=found.missing,
        extra=found.extra,
        per_worker=per_worker,
        epochs=found.epochs,
        deliveries=found.deliveries,
    )


def _exactly_once(found: Tables, setting: Setting) -> bool | None:
    epochs = found.epochs
    if epochs["duplicates"].isna().any():
        return None
    if (epochs["duplicates"] > 0).any() or (epochs["extra"] > 0).any():
        return False
    if not setting.proves_missing:
        return None
    return not bool((epochs["missing"] > 0).any())


def _per_worker(found: Tables, trace: Trace) -> pd.DataFrame:
    """Also of workers that delivered nothing."""
    import pandas as pd

    who = ["rank", "worker"]
    lanes = pd.concat([trace.workers[who], found.deliveries[who]]).drop_duplicates()
    rows = found.epochs[["epoch"]].merge(lanes.sort_values(who), how="cross")
    one = ["epoch", *who]
    groups = found.deliveries.groupby(one)
    counts = pd.DataFrame({"samples": groups.size(), "batches": groups["batch"].nunique()})
    rows = rows.merge(counts.reset_index(), how="left", on=one)
    rows[["samples", "batches"]] = rows[["samples", "batches"]].fillna(0).astype("int64")
    everything = rows.groupby("epoch")["samples"].transform("sum")
    rows["share"] = (rows["samples"] / everything.where(everything > 0)).fillna(0.0)
    return rows
