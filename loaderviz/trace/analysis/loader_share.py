"""Loader by loader: what each delivered and was waited for, under a name that tells them apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.text import count, duration
from loaderviz.trace.analysis.steps import groups, startups
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.merge.run_meta import loader_description

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from loaderviz.trace.trace import Trace

MOST_CHARACTERS = 60  # of a dataset's class


@dataclass(frozen=True)
class LoaderShare:
    """One loader of a trace, in all ranks.

    Attributes:
        loader: its number in the tables.
        name: its dataset's class, how many samples an epoch delivered at most, whether shuffled.
        n_batches, n_samples: delivered.
        n_workers: of all ranks; 0 where the main process loads.
        waited_s: seconds in ``next()``, and in ``iter()`` while workers started.
        seen: whether any of its batches was seen where it was made. Those of a foreign loader, one
            that is none of torch's, never are.
    """

    loader: int
    name: str
    n_batches: int
    n_samples: int
    n_workers: int
    waited_s: float
    seen: bool = True

    def __str__(self) -> str:
        batches = count(self.n_batches, "batch", "batches")
        workers = count(self.n_workers, "worker") if self.seen else "its own work not seen"
        return f"{self.name}: {batches}, {workers}, {duration(self.waited_s)} waited for"


def loader_shares(trace: Trace) -> tuple[LoaderShare, ...]:
    """Of each loader that delivered something or had workers, by number."""
    names = ["rank", "loader", "epoch", "worker", "n_samples"]
    names += ["started_s", "requested_s", "delivered_s"]
    rows = arrays(trace.batches[names])
    rows = where(rows, ~np.isnan(rows["delivered_s"]))
    wait_s = np.nan_to_num(rows["delivered_s"] - rows["requested_s"])
    workers = arrays(trace.workers[["rank", "loader", "worker"]])
    if not len(workers["rank"]):
        workers = where(rows, rows["worker"] >= 0)
    first = np.unique(groups(*(workers[name] for name in ("rank", "loader", "worker"))), True)[1]
    starting = startups(trace)
    shares = []
    for loader in np.union1d(rows["loader"], workers["loader"]).tolist():
        own = where(rows, rows["loader"] == loader)
        starting_s = sum(end - start for _, whose, start, end in starting if whose == loader)
        shares.append(
            LoaderShare(
                loader=loader,
                name=_name(trace, loader, own),
                n_batches=len(own["rank"]),
                n_samples=int(own["n_samples"].sum()),
                n_workers=int((workers["loader"][first] == loader).sum()),
                waited_s=float(wait_s[rows["loader"] == loader].sum()) + starting_s,
                seen=not len(own["rank"]) or not is_unseen(own),
            )
        )
    uses = Counter(share.name for share in shares)
    return tuple(
        share
        if uses[share.name] == 1
        else replace(share, name=f"{share.name}, loader {share.loader}")
        for share in shares
    )


def is_unseen(batches: Mapping[str, Any] | pd.DataFrame) -> bool:
    """Whether no worker is known of any of these batches, nor when it was made."""
    return bool(np.all((batches["worker"] < 0) & np.isnan(batches["started_s"])))


def _name(trace: Trace, loader: int, delivered: Table) -> str:
    """As in "Images (1,000 samples, shuffled)": what of it the trace tells."""
    about = loader_description(trace.meta, loader)
    dataset = (about.get("dataset") or f"loader {loader}")[:MOST_CHARACTERS]
    if not len(delivered["rank"]):
        return dataset
    epoch = groups(delivered["rank"], delivered["epoch"])
    most = int(np.bincount(epoch, delivered["n_samples"]).max())
    if not most:  # nobody knows how many: a foreign loader's batches
        return dataset
    shuffled = ", shuffled" if about.get("shuffled") is True else ""
    return f"{dataset} ({count(most, 'sample')}{shuffled})"
