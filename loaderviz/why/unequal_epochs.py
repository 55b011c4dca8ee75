"""Ranks with different numbers of batches in an epoch: a step that waits for all would hang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.described_loaders import left_out, recordings

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

NAMED = 3  # ranks; more are counted


@dataclass(frozen=True)
class Unequal:
    """One epoch of one loader in which ranks have different numbers of batches."""

    loader: int
    epoch: int
    fewest: int  # batches
    fewest_ranks: tuple[int, ...]
    most: int  # batches; of ranks that had not ended the epoch, as far as was seen
    most_ranks: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"Batches differ in epoch {self.epoch}"
            + (f" of loader {self.loader}" if self.loader else "")
            + f": {_who(self.fewest_ranks)} {self.fewest:,}, {_who(self.most_ranks)} {self.most:,}"
            + ". Where each step waits for all ranks, the last one hangs"
        )


def unequal(trace: Trace) -> list[Unequal]:
    """The epochs in which ranks have different numbers of batches, as far as it is certain.

    Also of a run that hangs or was killed: a rank whose epoch has ended with fewer batches than
    another one has been given, or has on the way. An epoch has ended where a later one has begun,
    where the recording has ended, and where workers have nothing more to make. A rank whose
    recording left batches out tells nothing.
    """
    columns = ("loader", "epoch", "rank")
    cut = [each["rank"] for each in recordings(trace.meta) if left_out(each)[1]]
    whole = ~np.isin(trace.batches["rank"].to_numpy(), cut)
    batches = {
        column: trace.batches[column].to_numpy()[whole]
        for column in (*columns, "worker", "delivered_s", "state")
    }
    if len(batches["rank"]) == 0:
        return []
    delivered = ~np.isnan(batches["delivered_s"])
    failed = np.isin(batches["state"].astype(str), ["failed", "lost"])
    order = np.lexsort(tuple(batches[column] for column in reversed(columns)))
    keys = np.stack([batches[column][order] for column in columns])
    begins = np.flatnonzero(np.append(True, (np.diff(keys) != 0).any(axis=0)))
    loader, epoch, rank = keys[:, begins]
    taken = np.add.reduceat(delivered[order].astype(np.int64), begins)
    on_the_way = np.add.reduceat((~delivered & ~failed)[order].astype(np.int64), begins)
    by_workers = batches["worker"][order][begins] >= 0
    closed = ~np.isin(rank, _running(trace)) | _has_later(loader, epoch, rank)
    exhausted = on_the_way == 0
    ended = closed | (by_workers & exhausted & (taken > 0))
    found = []
    epochs = np.flatnonzero(np.append(True, (np.diff(loader) != 0) | (np.diff(epoch) != 0)))
    for first, end in zip(epochs, np.append(epochs[1:], len(rank)), strict=True):
        own = slice(first, end)
        ends = np.where(ended[own], taken[own], np.iinfo(np.int64).max)
        fewest = int(ends.min())
        # A loop that was left early says nothing of the batches that were still to come.
        to_its_end = bool(exhausted[own][ends == fewest].any())
        sure = taken[own] + np.where(~ended[own] & to_its_end, on_the_way[own], 0)
        most = int(sure.max())
        if most > fewest:
            found.append(
                Unequal(
                    int(loader[first]),
                    int(epoch[first]),
                    fewest,
                    tuple(map(int, rank[own][ends == fewest])),
                    most,
                    tuple(map(int, rank[own][sure == most])),
                )
            )
    return found


def _running(trace: Trace) -> list[int]:
    """Ranks whose recording has not ended."""
    if ranks := recordings(trace.meta):
        return [each["rank"] for each in ranks if not each.get("complete")]
    if trace.meta.get("complete", True):
        return []
    return [int(each) for each in trace.batches["rank"].unique()]


def _has_later(loader: Any, epoch: Any, rank: Any) -> Any:
    """Whether a later epoch of the same rank and loader is there; rows are sorted by epoch."""
    order = np.lexsort((epoch, rank, loader))
    same = (np.diff(loader[order]) == 0) & (np.diff(rank[order]) == 0)
    later = np.empty(len(order), bool)
    later[order] = np.append(same, False)
    return later


def _who(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} has"
    if len(ranks) <= NAMED:
        return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]} have"
    return f"{len(ranks):,} ranks ({', '.join(map(str, ranks[:NAMED]))}, ...) have"
