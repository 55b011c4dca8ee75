"""What is compared: each measure as one value a batch and a weight, from the tables of a trace.

A measure of a run is ``sum(values) / sum(weights)``, so that seconds over samples, or waiting over
all time, are true for batches of any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.analysis.steps import groups, step_ends

if TYPE_CHECKING:
    from loaderviz.trace import Trace

_COLUMNS = (
    *("rank", "loader", "epoch", "worker", "n_samples", "started_s", "collate_s", "ready_s"),
    *("requested_s", "delivered_s", "released_s", "cpu_s"),
)


@dataclass(frozen=True)
class Measure:
    """One quantity of a run, batch for batch in the order of delivery.

    Attributes:
        name: what it is.
        unit: ``1/s``, ``s`` or a ``share`` of 0 to 1.
        more_is_better: which way is an improvement.
        values: of each batch.
        weights: of each batch.
    """

    name: str
    unit: str
    more_is_better: bool
    values: Any
    weights: Any

    @property
    def value(self) -> float:
        total = float(self.weights.sum())
        return float(self.values.sum()) / total if total > 0 else np.nan


def measures(trace: Trace) -> list[Measure]:
    """The measures of what was delivered, the first batch of each epoch left out.

    That one waits for workers to start and for the pipeline to fill: how much of a run it is
    depends on the length of the run.
    """
    batches = {column: trace.batches[column].to_numpy() for column in _COLUMNS}
    taken = np.flatnonzero(~np.isnan(batches["delivered_s"]))
    order = taken[np.lexsort((batches["delivered_s"][taken], batches["rank"][taken]))]
    batches = {column: values[order] for column, values in batches.items()}
    epoch = groups(*(batches[column] for column in ("rank", "loader", "epoch")))
    first = np.zeros(len(order), bool)
    first[np.unique(epoch, return_index=True)[1]] = True
    released = step_ends(batches)
    later = {column: values[~first] for column, values in batches.items()}
    wait = np.nan_to_num(later["delivered_s"] - later["requested_s"])
    step = released[~first] - later["delivered_s"]
    n = later["n_samples"].astype(float)
    one = np.ones(len(n))
    made = ~np.isnan(later["started_s"]) & ~np.isnan(later["ready_s"])
    collate = np.where(np.isnan(later["collate_s"]), later["ready_s"], later["collate_s"])
    return [
        Measure("samples a second", "1/s", True, n, wait + step),
        Measure("time spent waiting", "share", False, wait, wait + step),
        Measure("wait for a batch", "s", False, wait, one),
        Measure("step", "s", False, step, one),
        Measure("reading a sample", "s", False, *_of(made, collate - later["started_s"], n)),
        Measure("collating a batch", "s", False, *_of(made, later["ready_s"] - collate, one)),
        Measure("CPU time of a batch", "s", False, *_of(made, later["cpu_s"], one)),
    ]


def _of(known: Any, values: Any, weights: Any) -> tuple[Any, Any]:
    known = known & ~np.isnan(values)
    return np.where(known, values, 0.0), np.where(known, weights, 0.0)
