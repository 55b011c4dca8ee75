"""How the batches of a resumed run differ from those of the run that went on. It runs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loaderviz.trace import Trace

# "draws": the same samples in the same order with other contents; "anew": from the beginning;
# "counts": some come again or never; "others": contents that neither run had before.
Kind = Literal["draws", "anew", "counts", "order", "others"]


@dataclass(frozen=True)
class SeenBatch:
    """A batch, as far as two runs can be compared by it."""

    digest: int | None  # of its contents; None if it has none
    keys: tuple[Any, ...] = ()  # that it was made from; empty for a stream

    @property
    def identity(self) -> Hashable:
        """What tells it from other batches: its keys, or its contents where it has none."""
        return self.keys or self.digest


@dataclass(frozen=True)
class Difference:
    """Where a resumed run leaves the run that went on, and how."""

    kind: Kind
    at: int  # the first batch that differs, counted from 0 where it resumed
    n_batches: int  # that differ, of those that were compared
    n_compared: int
    text: str  # the same in words


def compare(
    before: Sequence[SeenBatch],
    expected: Sequence[SeenBatch],
    resumed: Sequence[SeenBatch],
    *,
    complete: bool,
) -> Difference | None:
    """The difference between what came after an interruption and what should have come.

    Args:
        before: the batches until the interruption.
        expected: those with which the uninterrupted run went on.
        resumed: those that the new process delivered.
        complete: whether ``expected`` and ``resumed`` reach to the end of the epoch.

    Returns:
        None where all batches are the same.
    """
    if not complete:
        n = min(len(expected), len(resumed))
        expected, resumed = expected[:n], resumed[:n]
    if not all(batch.keys for batch in (*before, *expected, *resumed)):  # not of all known
        before, expected, resumed = (
            [SeenBatch(batch.digest) for batch in part] for part in (before, expected, resumed)
        )
    ids, resumed_ids = _identities(expected), _identities(resumed)
    kind: Kind = "draws"
    text = "the same samples in the same order, with other random draws"
    if ids == resumed_ids:
        ids, resumed_ids = ([each.digest for each in part] for part in (expected, resumed))
    else:
        kind, text = _how(before, expected, resumed, complete=complete)
    same = [one == other for one, other in zip(ids, resumed_ids, strict=False)]
    n_compared = max(len(ids), len(resumed_ids))
    if sum(same) == n_compared:
        return None
    at = same.index(False) if False in same else len(same)
    return Difference(kind, at, n_compared - sum(same), n_compared, text)


def _identities(batches: Sequence[SeenBatch]) -> Sequence[Hashable]:
    return [batch.identity for batch in batches]


def _how(
    before: Sequence[SeenBatch],
    expected: Sequence[SeenBatch],
    resumed: Sequence[SeenBatch],
    *,
    complete: bool,
) -> tuple[Kind, str]:
    """The kind of difference between the batches of two runs, and what happened, in words."""
    was, due, came = map(_identities, (before, expected, resumed))
    if was and came[: len(was)] == was:
        return "anew", "the epoch begins anew: what came before comes a second time"
    if {*came} - {*was, *due} and not any(batch.keys for batch in resumed):
        return "others", "the batches have other contents"
    if not complete:
        return "order", "the batches are others"
    right, found = _units([*before, *expected]), _units([*before, *resumed])
    again, never = (found - right).total(), (right - found).total()
    unit = "samples" if any(batch.keys for batch in expected) else "batches"
    if not again and not never:
        return "order", f"the same {unit} in another order"
    n = right.total()
    return "counts", f"of {n} {unit} of the epoch, {again} come again and {never} never"


def _units(batches: Sequence[SeenBatch]) -> Counter[Hashable]:
    """What is counted: samples by their keys, or whole batches of a stream."""
    return Counter(unit for batch in batches for unit in (batch.keys or (batch.digest,)))


def keys_of_last_batches(trace: Trace, n: int) -> list[tuple[Any, ...]]:
    """The keys of the last ``n`` batches that the last epoch delivered, in order of delivery.

    Empty ones where they are not known of each batch, and of a stream.
    """
    unknown: list[tuple[Any, ...]] = [()] * n
    if not n or not trace.meta["loaders"] or trace.meta["loaders"][-1]["kind"] != "map":
        return unknown
    epoch = trace.batches["epoch"].max()
    batches = trace.batches[trace.batches["epoch"] == epoch].dropna(subset="delivered_s")
    numbers = batches.sort_values("delivered_s")["batch"].tolist()[-n:]
    samples = trace.samples[trace.samples["epoch"] == epoch].sort_values(["batch", "position"])
    by_batch = {number: tuple(group["key"]) for number, group in samples.groupby("batch")}
    keys = [by_batch.get(number, ()) for number in numbers]
    return keys if len(keys) == n and all(keys) else unknown
