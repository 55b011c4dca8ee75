"""One loader's batches as its loop took them, in order: steps, waits, reading times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.around_epochs import drawn_ahead, endings, startups
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.described_loaders import loader_description
from loaderviz.trace.steps import groups, seconds_within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loaderviz.trace.trace import Trace

_NAMES = (
    *("rank", "loader", "epoch", "batch", "worker", "n_samples", "dispatched_s", "started_s"),
    *("ready_s", "requested_s", "delivered_s", "released_s", "cpu_s", "process_cpu_s"),
)


@dataclass(frozen=True, eq=False)
class LoopSeries:
    """The delivered batches of one loader in one rank, in order of delivery, of all its epochs.

    Attributes:
        rows: the columns of ``Trace.batches`` that are needed here, by name, and ``row``, the
            position there; shape (n,) each.
        step_s: what the loop did with each batch: from its delivery until the loop asks for the
            next one, without what it waited meanwhile for other loaders. NaN where the loop has it
            still, as the last one of a recording that was stopped.
        until_s: when the next batch of the epoch was delivered; of an epoch's last batch, when the
            loop was done with it.
        first: whether each is the first of its epoch.
        begun_s: of each epoch's first batch, when the loop began to wait for it, in ``iter()`` or
            in ``next()``; NaN for all others.
        anew: whether the workers of its epoch were started for it.
        endings_s: how long the loop waited for workers to end, each time that it did.
        workers: that made batches; 0 where the main process did, or nobody knows.
        about: how the loader was configured, as ``meta`` has it.
    """

    rank: int
    loader: int
    rows: Table
    step_s: Any
    until_s: Any
    first: Any
    begun_s: Any
    anew: Any
    endings_s: tuple[float, ...]
    workers: int
    about: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.step_s)

    @property
    def wait_s(self) -> Any:
        """What the loop waited in ``next()`` for each batch."""
        return self.rows["delivered_s"] - self.rows["requested_s"]

    @property
    def read_s(self) -> Any:
        """How long it took to make each batch; NaN where nobody saw it."""
        return self.rows["ready_s"] - self.rows["started_s"]

    @property
    def usual_period_s(self) -> float:
        """What usually passes from one delivery to the next, in the later half of the batches.

        Batches come in rounds, one of each worker: so it is the median of rounds, not of batches.
        NaN where no epoch has two batches.
        """
        n = max(1, self.workers)
        n = n if len(self) >= 4 * n else 1
        later = slice(len(self) // 2, None)
        epoch = np.cumsum(self.first)[later]
        delivered_s = self.rows["delivered_s"][later]
        whole = epoch[n:] == epoch[:-n]
        rounds_s = (delivered_s[n:] - delivered_s[:-n])[whole]
        return float(np.median(rounds_s)) / n if len(rounds_s) else np.nan


def loop_series(trace: Trace) -> Iterator[LoopSeries]:
    """One for each loader of each rank that delivered something, in that order."""
    rows = arrays(trace.batches[list(_NAMES)])
    rows["row"] = np.arange(len(rows["rank"]))
    rows = where(rows, ~np.isnan(rows["delivered_s"] - rows["requested_s"]))
    rows = where(rows, np.lexsort((rows["delivered_s"], rows["rank"])))
    begins: dict[tuple[int, int], list[tuple[float, bool]]] = {}  # and whether workers start
    for spans, starts in ((startups(trace), True), (drawn_ahead(trace), False)):
        for rank, loader, start_s, _ in spans:
            begins.setdefault((rank, loader), []).append((start_s, starts))
    ended_s: dict[tuple[int, int], list[float]] = {}
    for rank, loader, start_s, end_s in endings(trace):
        ended_s.setdefault((rank, loader), []).append(end_s - start_s)
    for rank in np.unique(rows["rank"]).tolist():
        of_rank = where(rows, rows["rank"] == rank)
        for loader in np.unique(of_rank["loader"]).tolist():
            own = of_rank["loader"] == loader
            about = loader_description(trace.meta, loader)
            began = begins.get((rank, loader), [])
            ends_s = tuple(ended_s.get((rank, loader), ()))
            yield _series(where(of_rank, own), where(of_rank, ~own), began, ends_s, about)


def _series(
    rows: Table,
    others: Table,
    begun_at: list[tuple[float, bool]],
    endings_s: tuple[float, ...],
    about: Mapping[str, Any],
) -> LoopSeries:
    rows = where(rows, np.lexsort((rows["delivered_s"], groups(rows["epoch"]))))
    n = len(rows["epoch"])
    first = np.append(True, np.diff(rows["epoch"]) != 0)
    asked, delivered = rows["requested_s"], rows["delivered_s"]
    released = rows["released_s"]
    waited = seconds_within(others["requested_s"], others["delivered_s"], as_one=True)
    step_s = np.maximum(released - delivered - waited(delivered, released), 0.0)
    followed = ~np.append(first[1:], True)
    until: Any = np.where(np.isnan(released), delivered, np.fmax(released, delivered))
    until[followed] = np.append(delivered[1:], np.nan)[followed]
    begun, anew = np.where(first, asked, np.nan), np.zeros(n, bool)
    begins = np.flatnonzero(first)
    for start_s, starts in begun_at:
        later = begins[asked[begins] >= start_s]
        if len(later):
            begun[later[0]] = min(begun[later[0]], start_s)
            anew[later[0]] |= starts
    workers = len(np.unique(rows["worker"][rows["worker"] >= 0]))
    return LoopSeries(
        rank=int(rows["rank"][0]),
        loader=int(rows["loader"][0]),
        rows=rows,
        step_s=step_s,
        until_s=until,
        first=first,
        begun_s=begun,
        anew=anew,
        endings_s=endings_s,
        workers=max(workers, int(about.get("num_workers") or 0)) if workers else 0,
        about=about,
    )
