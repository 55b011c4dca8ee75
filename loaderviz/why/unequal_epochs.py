"""Ranks with different numbers of batches in an epoch: a step that waits for all would hang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    cut = [each["rank"] for each in recordings(trace.meta) if left_out(each)[1]]
    batches = trace.batches[~trace.batches["rank"].isin(cut)]
    if batches["rank"].nunique() < 2:
        return []
    taken = batches["delivered_s"].notna()
    ways = {"taken": taken, "on_the_way": ~taken & ~batches["state"].isin(["failed", "lost"])}
    by_rank = batches.assign(**ways).groupby(["loader", "epoch", "rank"])
    rows = by_rank.agg({"taken": "sum", "on_the_way": "sum", "worker": "first"}).reset_index()
    last_epoch = rows.groupby(["loader", "rank"])["epoch"].transform("max")
    closed = ~rows["rank"].isin(_running(trace)) | (rows["epoch"] < last_epoch)
    exhausted = rows["on_the_way"] == 0
    ended = closed | ((rows["worker"] >= 0) & exhausted & (rows["taken"] > 0))
    rows["end"] = rows["taken"].where(ended)
    of_epoch = [rows["loader"], rows["epoch"]]
    rows["fewest"] = rows["end"].groupby(of_epoch).transform("min")
    # A loop that was left early says nothing of the batches that were still to come.
    to_its_end = (exhausted & (rows["end"] == rows["fewest"])).groupby(of_epoch).transform("any")
    rows["sure"] = rows["taken"] + rows["on_the_way"].where(~ended & to_its_end, 0)
    rows["most"] = rows["sure"].groupby(of_epoch).transform("max")
    found = []
    for _, own in rows[rows["most"] > rows["fewest"]].groupby(["loader", "epoch"]):
        numbers = own[["loader", "epoch", "fewest", "most"]].iloc[0]
        loader, epoch, fewest, most = map(int, numbers)
        last, first = (
            own.loc[own[name] == n, "rank"] for name, n in (("end", fewest), ("sure", most))
        )
        found.append(Unequal(loader, epoch, fewest, tuple(last), most, tuple(first)))
    return found


def _running(trace: Trace) -> list[int]:
    """Ranks whose recording has not ended."""
    if ranks := recordings(trace.meta):
        return [each["rank"] for each in ranks if not each.get("complete")]
    if trace.meta.get("complete", True):
        return []
    return [int(each) for each in trace.batches["rank"].unique()]


def _who(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} has"
    if len(ranks) <= NAMED:
        return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]} have"
    return f"{len(ranks):,} ranks ({', '.join(map(str, ranks[:NAMED]))}, ...) have"
