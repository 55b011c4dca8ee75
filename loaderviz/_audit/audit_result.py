"""The ``Audit``: what an audit found, in tables and in words. Holds data, draws nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loaderviz._audit.count_deliveries import DROP_LAST, IN_PART
from loaderviz._audit.mixing_result import Mixing, mixing_of
from loaderviz._contents.contents_in_words import UNKNOWN
from loaderviz._upward import ShownResult, ask_above
from loaderviz.errors import LoaderVizError
from loaderviz.text import count, percent, worker_name, wrapped

if TYPE_CHECKING:
    import pandas as pd

MAX_WORKERS_LISTED = 16


@dataclass(frozen=True, eq=False, repr=False)
class Audit(ShownResult):
    """Whether every sample was delivered exactly once; ``print(audit)`` says it in words.

    Attributes:
        exactly_once: the verdict; None where it can be neither proven nor refuted.
        verdict: the same in one sentence.
        notes: further facts and ways out, a sentence or two each.
        n_samples: how many samples the dataset holds, read once by one process; None: not known.
        duplicates: a row for each sample that came more than once in an epoch: ``epoch, sample,
            key, times, ranks, workers`` (two tuples with an entry for each time, in the order of
            delivery).
        missing: a row for each sample that an epoch lacks: ``epoch, sample, key, cause``. The cause
            is ``drop_last`` for a sample that was left over in an incomplete batch, and ``only a
            part of the epoch came`` where a recorded loop broke off.
        extra: a row for each delivered sample that one process does not read: ``epoch, rank,
            worker, batch, position``.
        per_worker: a row for each worker and epoch: ``epoch, rank, worker, samples, batches,
            share`` (of the epoch's samples, 0 to 1).
        epochs: a row for each epoch: ``epoch, delivered, duplicates, missing, dropped, extra,
            in_order, same_order`` (as in the epoch before); NA where it is not known.
        deliveries: a row for each delivered sample, in the order of delivery: ``epoch, rank,
            worker, batch, position, sample`` (-1 where it is extra or not known).
        simulated: whether the audit was worked out and no loader was run.
        keys: what the sample of each delivery is known by, an array of int64 or of objects; None
            where samples are known by their content, or not at all.
        contents: a row for each delivered sample of a map-style dataset: ``epoch, key, worker,
            batch, position, state``. The state is ``same`` where it holds what the dataset does
            when its key is read alone; ``buffer`` where it was overwritten when another was read,
            since the dataset returns one buffer for all; ``replaced`` where it holds what
            another key does; ``changed`` where it holds something else, or arrived otherwise than
            it was collated; ``dropped`` where ``collate_fn`` left it out; ``random`` where each
            read differs, and ``not compared``. None where no loader was run, or by key or content.
        n_left_out: how many samples ``collate_fn`` left out of their batches, at least.
        is_changed: whether some samples are not what the dataset holds, as far as contents were
            compared, or whether its stream overwrites or replaces some.
        as_told: why samples come again by the sampler's own rule, a sentence; empty where not.

    ``sample`` is the place of a sample in the order in which one process reads them, from 0;
    ``key`` is what it is known by, None where that is a tensor or the like. ``worker`` is -1 where
    the main process itself loads.
    """

    exactly_once: bool | None
    verdict: str
    notes: tuple[str, ...]
    n_samples: int | None
    duplicates: pd.DataFrame
    missing: pd.DataFrame
    extra: pd.DataFrame
    per_worker: pd.DataFrame
    epochs: pd.DataFrame
    deliveries: pd.DataFrame
    simulated: bool = False
    keys: Any = None
    contents: pd.DataFrame | None = None
    n_left_out: int = 0
    is_changed: bool = False
    as_told: str = ""

    @property
    def loses(self) -> bool:
        """Whether samples are missing that neither drop_last took nor the loop left."""
        return not bool(self.missing["cause"].isin((DROP_LAST, IN_PART)).all())

    @property
    def numbers(self) -> str:
        """The numbers that the verdict rests on, in one line."""
        delivered = int(self.epochs["delivered"].sum())
        expected = "" if self.n_samples is None else f" for {self.n_samples:,} in the dataset"
        workers = self.per_worker[["rank", "worker"]].drop_duplicates()
        n_ranks = workers["rank"].nunique()
        n_workers = int((workers["worker"] >= 0).sum())
        parts = [
            "simulated" if self.simulated else "",
            f"{count(delivered, 'sample')} {'read' if self.n_left_out else 'delivered'}{expected}",
            f"{self.n_left_out:,} of them left out" if self.n_left_out else "",
            "contents compared" if self._all_compared() else "",
            count(n_workers, "worker") if n_workers else "no workers",
            count(n_ranks, "rank") if n_ranks > 1 else "",
            count(len(self.epochs), "epoch"),
        ]
        return " · ".join(filter(None, parts))

    def _all_compared(self) -> bool:
        if self.contents is None or self.contents.empty:
            return False
        return not self.contents["state"].isin(UNKNOWN).any()

    def figure(
        self, epoch: int | None = None, *, numbers: Any = "batch", theme: Any = "light"
    ) -> Any:
        """Draw who delivered which sample, so that overlap and holes are seen at a glance.

        Args:
            epoch: the one to draw; None: the first in which something is wrong, or else the first.
            numbers: what the number in a box is: its ``batch`` or its ``sample``.
            theme: ``light`` or ``dark``: text and grid for such a page.

        Raises:
            LoaderVizError: for an epoch that was not audited, other numbers, or where it is not
                known which samples came, so that there is nothing to draw.
        """
        if epoch is None:
            wrong = self.epochs[(self.epochs[["duplicates", "missing", "extra"]] > 0).any(axis=1)]
            epoch = int((wrong if len(wrong) else self.epochs)["epoch"].iloc[0])
        if epoch not in set(self.epochs["epoch"]):
            raise LoaderVizError(
                f"epoch={epoch!r}: this audit has epochs 0 to {len(self.epochs) - 1}"
            )
        return ask_above("figure of an audit", self, epoch, theme, numbers)

    def mixing(self, epoch: int = 0) -> Mixing:
        """How well the order of delivery mixes the samples, by the order of their keys.

        The source is taken to hold the samples in the order of their keys: numbers by size, texts
        as we sort them, tuples such as (shard, index) part by part. An iterable-style dataset may
        have shuffled what it yields, so it takes an audit by key:
        ``audit(loader, key=lambda sample: sample["index"]).mixing()``. A label as key shows how
        well the labels are mixed.

        Raises:
            LoaderVizError: for an epoch that was not audited, and where the keys are not known or
                do not sort.
        """
        return mixing_of(self, epoch)

    def __str__(self) -> str:
        shares = _shares(self.per_worker)
        lines = [f"{self.verdict}.", self.numbers, *filter(None, [shares]), *self.notes]
        return "\n".join(map(wrapped, lines))

    @property
    def _has_figure(self) -> bool:
        return bool(len(self.missing) or (self.deliveries["sample"] >= 0).any())


class AuditError(LoaderVizError):
    """Raised where an audit cannot be finished.

    Attributes:
        partial: the ``Audit`` of what was delivered until then.
    """

    def __init__(self, message: str, partial: Audit | None = None) -> None:
        super().__init__(message)
        self.partial = partial


def _shares(per_worker: pd.DataFrame) -> str:
    """How many samples came from each worker, all epochs together; empty for a single worker."""
    totals = per_worker.groupby(["rank", "worker"], as_index=False)["samples"].sum()
    rows: list[tuple[int, int, int]] = [tuple(row) for row in totals.to_numpy().tolist()]
    n_delivered = sum(samples for _, _, samples in rows) or 1
    several_ranks = totals["rank"].nunique() > 1
    if len(rows) < 2:
        return ""
    if len(rows) > MAX_WORKERS_LISTED:
        fewest, most = totals["samples"].min(), totals["samples"].max()
        return f"Each worker delivered {fewest:,} to {most:,} of them."
    return ", ".join(
        (f"rank {rank} " if several_ranks else "")
        + f"{worker_name(worker)}: {samples:,} ({percent(samples / n_delivered)})"
        for rank, worker, samples in rows
    )
