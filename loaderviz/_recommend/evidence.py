"""What is known of a loader before anything is predicted: what a recording of it shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz import machine
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.simulator import Costs
from loaderviz.trace import Trace
from loaderviz.trace.analysis.rank_summary import ranks_beside

if TYPE_CHECKING:
    import pandas as pd

FEW = 8  # batches: fewer do not tell how much they differ
UNKNOWN_ERROR = 0.5  # of what a batch takes, where only one was seen


@dataclass(frozen=True)
class Evidence:
    """What there is to predict from. Bytes are None where nothing was seen of them."""

    trace: Trace
    costs: Costs
    about: dict[str, Any]  # the loader, as the recorder describes it
    present: LoaderSettings
    batch_size: int  # samples of a usual batch
    n_recorded: int  # batches
    error: float  # of what a batch takes on average, as a part of it: two standard errors
    alone: Costs | None = None  # of the main process without workers, where they were seen
    n_batches: int | None = None  # of an epoch
    steps_known: bool = True
    worker_bytes: int | None = None  # resident memory of a worker
    worker_bytes_shared: bool = True  # what it shares with the main process is in it
    batch_bytes: int | None = None  # of its tensors
    has_device: bool = False  # that batches could be copied to
    n_ranks: int = 1  # that share the machine
    naive: bool = False  # an iterable-style dataset that every worker goes through as a whole

    @property
    def iterable(self) -> bool:
        return self.about.get("kind") == "iterable"

    def costs_of(self, setting: LoaderSettings) -> Costs:
        """What the work costs where these settings have it done."""
        return self.costs if setting.num_workers or self.alone is None else self.alone

    def times(self, setting: LoaderSettings) -> int:
        """How often each sample is delivered."""
        return max(1, setting.num_workers) if self.naive else 1

    @property
    def cores(self) -> float:
        assert self.costs.cores is not None
        return self.costs.cores


def of_trace(
    trace: Trace,
    *,
    loader: int | None = None,
    step_s: float | None = None,
    step_cpu_share: float = 0.0,
    n_batches: int | None = None,
) -> Evidence:
    """Raises LoaderVizError for a trace that shows nothing to predict from."""
    which = _which(trace, loader)
    allowed = trace.meta.get("cpu_allowance")
    own = trace.batches[trace.batches["loader"] == which]
    taken = own[own["delivered_s"].notna()]
    first = int((own if taken.empty else taken)["rank"].min())
    ranks = max(machine.local_world_size() or 1, ranks_beside(trace, first))
    if trace.batches["rank"].nunique() > 1:  # the others' settings are the same
        trace = trace.of_ranks([first])
    costs = Costs.from_trace(
        trace,
        loader=which,
        step_cpu_share=step_cpu_share,
        cores=allowed / ranks if allowed else None,
    )
    if step_s is not None:
        costs = replace(costs, step_s=step_s)
    batches = trace.batches[trace.batches["loader"] == which]
    delivered = batches[batches["delivered_s"].notna()]
    about = dict((trace.meta.get("loaders") or [{}] * (which + 1))[which])
    if "num_workers" not in about:
        about["num_workers"] = int(delivered.loc[delivered["worker"] >= 0, "worker"].nunique())
    made_s = (batches["ready_s"] - batches["started_s"]).dropna().to_numpy()
    rss = batches.loc[batches["worker"] >= 0, "rss_bytes"]
    return Evidence(
        trace=trace,
        costs=costs,
        about=about,
        present=LoaderSettings.of(about),
        batch_size=max(1, round(float(delivered["n_samples"].mean()))),
        n_recorded=len(delivered),
        error=_error(made_s),
        n_batches=n_batches if n_batches is not None else _first_of_many(delivered),
        has_device=bool(batches["device_start_s"].notna().any()),
        batch_bytes=_batch_bytes(batches),
        worker_bytes=max(map(int, rss), default=0) or None,
        n_ranks=ranks,
    )


def _which(trace: Trace, loader: int | None) -> int:
    there = sorted({int(each) for each in trace.batches["loader"]})
    if not there:
        raise LoaderVizError(
            "this trace holds no batch: iterate the loader while it is recorded, for some seconds"
        )
    if loader is None:
        if len(there) > 1:
            raise LoaderVizError(
                f"this trace holds the loaders {there}: say which one, as in "
                f"recommend(trace, loader={there[0]}) or loaderviz recommend --loader {there[0]}"
            )
        return there[0]
    if loader not in there:
        raise LoaderVizError(f"loader={loader!r}: this trace holds the loaders {there}")
    return loader


def _first_of_many(delivered: pd.DataFrame) -> int | None:
    """How long an epoch is: the first one was gone through where there is a second one."""
    epochs = delivered["epoch"]
    return int((epochs == epochs.min()).sum()) if epochs.nunique() > 1 else None


def _batch_bytes(batches: pd.DataFrame) -> int | None:
    """Of the largest; None where they were not seen."""
    n_bytes = batches["n_bytes"].dropna()
    return int(n_bytes.max()) if len(n_bytes) else None


def _error(made_s: Any) -> float:
    if len(made_s) < 2 or not np.mean(made_s) > 0:
        return UNKNOWN_ERROR
    return float(2 * np.std(made_s, ddof=1) / np.sqrt(len(made_s)) / np.mean(made_s))
