"""How the batches of a resumed run differ from those of the run that went on. It runs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loaderviz.text import count

Kind = Literal["draws", "anew", "skips", "repeats", "order", "length"]


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

    kind: Kind  # "draws": same samples, other contents; "length": it ends too early or too late
    at: int  # the first batch that differs, counted from 0 where it resumed
    n_batches: int  # that differ, of those that were compared
    n_compared: int
    text: str  # the same in words


def comparable(batches: Sequence[SeenBatch]) -> bool:
    """Whether all of them have contents, or keys, to be told apart by."""
    return all(batch.identity is not None for batch in batches)


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
        before, expected, resumed = map(_without_keys, (before, expected, resumed))
    ids, resumed_ids = _ids(expected), _ids(resumed)
    if ids == resumed_ids:
        return _other_draws(expected, resumed)
    at = _first_difference(ids, resumed_ids)
    n_same = sum(one == other for one, other in zip(ids, resumed_ids, strict=False))
    n_compared = max(len(ids), len(resumed_ids))
    kind, text = _how(_ids(before), ids, resumed_ids)
    if kind == "order":
        text = _twice_and_never(before, expected, resumed, complete=complete) or text
    return Difference(kind, at, n_compared - n_same, n_compared, text)


def _without_keys(batches: Sequence[SeenBatch]) -> list[SeenBatch]:
    return [SeenBatch(batch.digest) for batch in batches]


def _ids(batches: Sequence[SeenBatch]) -> list[Hashable]:
    return [batch.identity for batch in batches]


def _first_difference(ones: Sequence[Any], others: Sequence[Any]) -> int:
    pairs = zip(ones, others, strict=False)
    differing = (i for i, (one, other) in enumerate(pairs) if one != other)
    return next(differing, min(len(ones), len(others)))


def _other_draws(expected: Sequence[SeenBatch], resumed: Sequence[SeenBatch]) -> Difference | None:
    digests = [batch.digest for batch in expected], [batch.digest for batch in resumed]
    n = sum(one != other for one, other in zip(*digests, strict=True))
    if not n:
        return None
    text = "the same samples in the same order, with other random draws"
    return Difference("draws", _first_difference(*digests), n, len(expected), text)


def _how(
    before: list[Hashable], expected: list[Hashable], resumed: list[Hashable]
) -> tuple[Kind, str]:
    """The kind of difference between batches of a run, and what happened, in words."""
    n = len(expected)
    if before and resumed[: len(before)] == before:
        first = "its first batch comes" if len(before) == 1 else f"its first {len(before)} come"
        return "anew", f"the epoch begins anew: {first} a second time"
    for shift in range(1, len(before)):
        if resumed and resumed[: n + shift] == (before[-shift:] + expected)[: len(resumed)]:
            again = "comes" if shift == 1 else "come"
            return "repeats", f"{count(shift, 'batch', 'batches')} from before {again} again"
    for shift in range(1, n):
        if resumed and resumed[: n - shift] == expected[shift:][: len(resumed)]:
            return "skips", f"{count(shift, 'batch', 'batches')} never {_come(shift)}"
    if resumed == expected[: len(resumed)]:
        missing = n - len(resumed)
        return "length", f"it ends {count(missing, 'batch', 'batches')} too early"
    if resumed[:n] == expected:
        return "length", f"it goes on for {count(len(resumed) - n, 'batch', 'batches')} too many"
    return "order", "the batches are others"


def _come(n: int) -> str:
    return "comes" if n == 1 else "come"


def _twice_and_never(
    before: Sequence[SeenBatch],
    expected: Sequence[SeenBatch],
    resumed: Sequence[SeenBatch],
    *,
    complete: bool,
) -> str:
    """How many samples of the epoch come again, and how many never; empty if it cannot be told."""
    if not complete or not all(batch.keys for batch in (*before, *expected, *resumed)):
        return ""
    right = Counter(key for batch in (*before, *expected) for key in batch.keys)
    came = Counter(key for batch in (*before, *resumed) for key in batch.keys)
    again, never = (came - right).total(), (right - came).total()
    if not again and not never:
        return "the same samples in another order"
    return f"of {right.total()} samples of the epoch, {again} come again and {never} never"
