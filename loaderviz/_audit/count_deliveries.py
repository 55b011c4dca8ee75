"""What was delivered against what the dataset holds: arithmetic on columns of millions of rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Words = np.ndarray[Any, np.dtype[np.int64]]

# Why a sample is missing.
NOT_READ, DROP_LAST, NOT_IN_TRACE = "not read", "drop_last", "not in the trace"

_FACTS = {
    "duplicates": "Int64",
    "missing": "Int64",
    "dropped": "Int64",
    "extra": "Int64",
    "in_order": "boolean",
    "same_order": "boolean",
}


@dataclass(frozen=True)
class Expected:
    """The samples of a dataset, in the order in which one process reads them.

    Each has a number by which it is known: samples of the same number are equal.
    """

    numbers: Words
    keys: Any  # what to call them: an array as long, None for a sample that has only its place
    judged: int  # of the first so many it can be said that they are missing
    why: str = NOT_READ  # ... and why, where it was not drop_last
    goes_on: bool = False  # the dataset holds more: a sample that is not among these is none extra

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Delivered:
    """Samples in the order of delivery: int64 columns, one row a sample."""

    epoch: Words
    rank: Words
    worker: Words
    batch: Words
    position: Words
    number: Words | None  # None where it is not known what they were

    def __len__(self) -> int:
        return len(self.epoch)

    def first(self, n: int | None) -> Delivered:
        columns: Any = [getattr(self, each.name) for each in fields(self)]
        cut: list[Any] = [None if column is None else column[:n] for column in columns]
        return Delivered(*cut)


@dataclass(frozen=True)
class Tables:
    """What the comparison found; the columns are those of ``Audit``."""

    deliveries: pd.DataFrame
    epochs: pd.DataFrame
    duplicates: pd.DataFrame
    missing: pd.DataFrame
    extra: pd.DataFrame


def compare(
    delivered: Delivered, expected: Expected | None, n_epochs: int, dropped: dict[int, Words]
) -> Tables:
    """``dropped``: for each epoch the numbers of the samples that ``drop_last`` took."""
    import pandas as pd

    place = np.full(len(delivered), -1, np.int64)
    facts: list[dict[str, Any]] = []
    parts: list[tuple[pd.DataFrame, pd.DataFrame]] = []
    number = delivered.number
    if expected is not None and number is not None:
        index = Index(expected.numbers)
        before: Words | None = None
        for epoch in range(n_epochs):
            here = np.flatnonzero(delivered.epoch == epoch)
            here = here[np.argsort(delivered.rank[here], kind="stable")]
            # The dropped ones after the delivered ones: of equal samples they take the last places.
            places = index.places(np.concatenate([number[here], dropped.get(epoch, number[:0])]))
            place[here], taken = np.split(places, [len(here)])
            parts.append(_judge(epoch, delivered, here, place[here], expected, taken))
            twice, lost = parts[-1]
            facts.append(
                {
                    "duplicates": int((twice["times"] - 1).sum()),
                    "missing": len(lost),
                    "dropped": int((lost["cause"] == DROP_LAST).sum()),
                    "extra": 0 if expected.goes_on else int((place[here] < 0).sum()),
                    "in_order": _rises(place[here], delivered.rank[here]),
                    "same_order": pd.NA if before is None else np.array_equal(number[here], before),
                }
            )
            before = number[here]
    columns = ("epoch", "rank", "worker", "batch", "position")
    deliveries = pd.DataFrame({name: getattr(delivered, name) for name in columns}, copy=False)
    judges_extra = expected is not None and bool(parts) and not expected.goes_on
    unknown = deliveries[(place < 0) & judges_extra].reset_index(drop=True)
    deliveries["sample"] = place
    counts = np.bincount(delivered.epoch, minlength=n_epochs)[:n_epochs]
    epochs = pd.DataFrame({"epoch": np.arange(n_epochs), "delivered": counts})
    for name, kind in _FACTS.items():
        values: Any = [fact[name] for fact in facts] or [pd.NA] * n_epochs
        epochs[name] = pd.Series(values, dtype=kind)
    none = place[:0]
    parts = parts or [_judge(0, delivered, none, none, Expected(none, none, 0), none)]
    twice, lost = (pd.concat(each, ignore_index=True) for each in zip(*parts, strict=True))
    return Tables(deliveries, epochs, twice, lost, unknown)


def frontier(delivered: Delivered, expected: Expected, n_workers: int) -> int:
    """So many samples, the first ones, every worker has passed: one not there by now will not come.

    0 where some worker does not go through them in their order.
    """
    assert delivered.number is not None
    place = Index(expected.numbers).places(delivered.number)
    reached = []
    for worker in np.unique(delivered.worker):
        own = place[(delivered.worker == worker) & (place >= 0)]
        if not len(own) or (np.diff(own) <= 0).any():
            return 0
        reached.append(int(own[-1]) + 1)
    return min(reached) if len(reached) == max(n_workers, 1) else 0


class Index:
    """From a sample's number to its place in the order of one process."""

    def __init__(self, numbers: Words) -> None:
        self._order = np.argsort(numbers, kind="stable")
        in_order = numbers[self._order]
        self._numbers, self._first = np.unique(in_order, return_index=True)
        self._counts = np.diff(np.append(self._first, len(numbers)))

    def places(self, numbers: Words) -> Words:
        """Of samples as they come; -1 for one that the dataset does not hold.

        Where k samples are equal, the first one that comes takes the first of their places, and so
        on; past the last it begins again. So each place is taken once if k of them come.
        """
        if not len(self._numbers):
            return np.full(len(numbers), -1, np.int64)
        which = self._nearest(numbers)
        held = self._numbers[which] == numbers
        nth = np.zeros(len(numbers), np.int64)
        if (self._counts[which] > 1).any():
            nth = _nth_of_its_kind(np.where(held, which, -1)) % self._counts[which]
        return np.where(held, self._order[self._first[which] + nth], -1)

    def _nearest(self, numbers: Words) -> Words:
        first, n = int(self._numbers[0]), len(self._numbers)
        if int(self._numbers[-1]) - first == n - 1:  # all in between: nothing to search for
            return (numbers - first).clip(0, n - 1)
        return np.minimum(np.searchsorted(self._numbers, numbers), n - 1)


def _nth_of_its_kind(kinds: Words) -> Words:
    order = np.argsort(kinds, kind="stable")
    _, first, counts = np.unique(kinds[order], return_index=True, return_counts=True)
    nth = np.empty(len(kinds), np.int64)
    nth[order] = np.arange(len(kinds)) - np.repeat(first, counts)
    return nth


def _judge(
    epoch: int,
    delivered: Delivered,
    rows: Words,
    place: Words,
    expected: Expected,
    taken: Words,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """An epoch's duplicates and what it lacks; ``taken`` are the places that drop_last took."""
    import pandas as pd

    n = len(expected)
    times = np.bincount(place[place >= 0], minlength=n)
    twice = np.flatnonzero(times > 1)
    who = np.flatnonzero((place >= 0) & (times[place] > 1)) if len(twice) else place[:0]
    who = who[np.argsort(place[who], kind="stable")]
    duplicates = {
        "epoch": np.full(len(twice), epoch),
        "sample": twice,
        "key": expected.keys[twice],
        "times": times[twice],
        "ranks": _tuples(delivered.rank[rows[who]], times[twice]),
        "workers": _tuples(delivered.worker[rows[who]], times[twice]),
    }
    by_drop = np.bincount(taken[taken >= 0], minlength=n) > 0
    never = np.flatnonzero((times == 0) & (by_drop | (np.arange(n) < expected.judged)))
    missing = {
        "epoch": np.full(len(never), epoch),
        "sample": never,
        "key": expected.keys[never],
        "cause": np.where(by_drop[never], DROP_LAST, expected.why).astype(object),
    }
    return pd.DataFrame(duplicates), pd.DataFrame(missing)


def _tuples(values: Words, sizes: Words) -> Any:
    """``values`` cut into tuples of these sizes; rows with the same values share one tuple."""
    found = np.empty(len(sizes), object)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        own = np.flatnonzero(sizes == size)
        table = values[starts[own][:, None] + np.arange(size)]
        kinds, which = np.unique(table, axis=0, return_inverse=True)
        shared = np.empty(len(kinds), object)
        shared[:] = [tuple(kind) for kind in kinds.tolist()]
        found[own] = shared[which.reshape(-1)]
    return found


def _rises(place: Words, rank: Words) -> bool:
    """Whether each sample comes after the one before it, in every rank."""
    later = np.diff(place) > 0
    return bool((later | (np.diff(rank) != 0)).all())
