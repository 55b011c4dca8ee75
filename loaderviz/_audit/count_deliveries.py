"""What was delivered against what the dataset holds: arithmetic on columns of millions of rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._contents.deliveries import Delivered
from loaderviz._contents.read_stream import StreamRead
from loaderviz.array_types import Ints

if TYPE_CHECKING:
    import pandas as pd

# Why a sample is missing.
NOT_READ, DROP_LAST, NOT_IN_TRACE = "not read", "drop_last", "not in the trace"
IN_PART = "only a part of the epoch came"

_EPOCH_DTYPES = {
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

    A sample's place in this order, from 0, is not its number: samples of the same number are equal.

    Attributes:
        numbers: int64, one for each sample.
        keys: an array as long: what to call each sample; None where it has only its place.
        n_judged: how many samples, from the first on, can be called missing if they do not come.
        missing_cause: why they are missing, where ``drop_last`` did not take them.
        has_more: whether the dataset holds more samples than these, so that none is extra.
        stream: what was seen as the first of them were read.
    """

    numbers: Ints
    keys: Any
    n_judged: int
    missing_cause: str = NOT_READ
    has_more: bool = False
    stream: StreamRead = field(default_factory=StreamRead)

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Tables:
    """What the comparison found; the columns are those of ``Audit``."""

    deliveries: pd.DataFrame
    epochs: pd.DataFrame
    duplicates: pd.DataFrame
    missing: pd.DataFrame
    extra: pd.DataFrame


def compare_with_expected(
    delivered: Delivered,
    expected: Expected | None,
    n_epochs: int,
    dropped: dict[int, Ints],
    in_part: Collection[int] = (),
) -> Tables:
    """Find what was delivered more than once, never, or without being expected, epoch by epoch.

    Args:
        delivered: the samples of all epochs.
        expected: what each epoch should deliver; None where that is not known.
        n_epochs: how many there are; one may have delivered nothing.
        dropped: for each epoch the numbers of the samples that ``drop_last`` took.
        in_part: the epochs of which only a part came.
    """
    import pandas as pd

    place = np.full(len(delivered), -1, np.int64)
    facts: list[dict[str, Any]] = []
    parts: list[tuple[pd.DataFrame, pd.DataFrame]] = []
    number = delivered.number
    if expected is not None and number is not None:
        index = PlaceIndex(expected.numbers)
        numbers_before: Ints | None = None
        for epoch in range(n_epochs):
            rows = np.flatnonzero(delivered.epoch == epoch)
            rows = rows[np.argsort(delivered.rank[rows], kind="stable")]
            # The dropped ones after the delivered ones: of equal samples they take the last places.
            places = index.places(np.concatenate([number[rows], dropped.get(epoch, number[:0])]))
            place[rows], dropped_places = np.split(places, [len(rows)])
            duplicates, missing = _judge(
                epoch, delivered, rows, place[rows], expected, dropped_places
            )
            if epoch in in_part:
                missing["cause"] = missing["cause"].where(missing["cause"] == DROP_LAST, IN_PART)
            parts.append((duplicates, missing))
            facts.append(
                {
                    "duplicates": int((duplicates["times"] - 1).sum()),
                    "missing": len(missing),
                    "dropped": int((missing["cause"] == DROP_LAST).sum()),
                    "extra": 0 if expected.has_more else int((place[rows] < 0).sum()),
                    "in_order": _rises(place[rows], delivered.rank[rows]),
                    "same_order": pd.NA
                    if numbers_before is None
                    else np.array_equal(number[rows], numbers_before),
                }
            )
            numbers_before = number[rows]
    columns = ("epoch", "rank", "worker", "batch", "position")
    deliveries = pd.DataFrame({name: getattr(delivered, name) for name in columns}, copy=False)
    judges_extra = expected is not None and bool(parts) and not expected.has_more
    extra = deliveries[(place < 0) & judges_extra].reset_index(drop=True)
    deliveries["sample"] = place
    counts = np.bincount(delivered.epoch, minlength=n_epochs)[:n_epochs]
    of_epochs: dict[str, Any] = {"epoch": np.arange(n_epochs), "delivered": counts}
    for name, dtype in _EPOCH_DTYPES.items():
        values: Any = [fact[name] for fact in facts] or [pd.NA] * n_epochs
        of_epochs[name] = pd.array(values, dtype=dtype)
    epochs = pd.DataFrame(of_epochs)
    none = place[:0]
    parts = parts or [_judge(0, delivered, none, none, Expected(none, none, 0), none)]
    duplicates, missing = (
        pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True)
    )
    return Tables(deliveries, epochs, duplicates, missing, extra)


def keys_of_deliveries(delivered: Delivered, expected: Expected, tables: Tables) -> Any:
    """What the sample of each delivery is known by; None where it is not among the expected ones.

    Samples that are known by integers have these as their numbers.
    """
    if expected.keys.dtype == np.int64:
        return delivered.number
    place = tables.deliveries["sample"].to_numpy()
    keys = np.full(len(place), None, object)
    keys[place >= 0] = expected.keys[place[place >= 0]]
    return keys


def count_passed_by_all(delivered: Delivered, expected: Expected, n_workers: int) -> int:
    """How many samples, from the first on, every worker has passed: what has not come never will.

    0 where a worker has delivered nothing, or does not go through the samples in their order.
    """
    assert delivered.number is not None
    place = PlaceIndex(expected.numbers).places(delivered.number)
    n_passed = []
    for worker in np.unique(delivered.worker):
        places_of_worker = place[(delivered.worker == worker) & (place >= 0)]
        if not len(places_of_worker) or (np.diff(places_of_worker) <= 0).any():
            return 0
        n_passed.append(int(places_of_worker[-1]) + 1)
    return min(n_passed) if len(n_passed) == max(n_workers, 1) else 0


def lanes_of(*tables: pd.DataFrame) -> tuple[Ints, Ints, Ints]:
    """Rank and number of each worker in these tables, sorted; and which of them each row is of."""
    # As one number each: to sort pairs takes many times as long, of millions of rows.
    ranks, workers = (
        np.concatenate([table[name].to_numpy() for table in tables]).astype(np.int64)
        for name in ("rank", "worker")
    )
    n = int(workers.max(initial=-1)) + 2  # workers of a rank, and its main process
    codes, lane = np.unique(ranks * n + workers + 1, return_inverse=True)
    return codes // n, codes % n - 1, lane


class PlaceIndex:
    """From a sample's number to its place in the order in which one process reads the dataset."""

    def __init__(self, numbers: Ints) -> None:
        self._order = np.argsort(numbers, kind="stable")
        in_order = numbers[self._order]
        self._numbers, self._first = np.unique(in_order, return_index=True)
        self._counts = np.diff(np.append(self._first, len(numbers)))

    def places(self, numbers: Ints) -> Ints:
        """The place of each sample, in the order of delivery; -1 where the dataset lacks it.

        Where k samples are equal, the first one that comes takes the first of their places, and so
        on; past the last it begins again. So each place is taken once if k of them come.
        """
        if not len(self._numbers):
            return np.full(len(numbers), -1, np.int64)
        kind = self._nearest(numbers)
        is_held = self._numbers[kind] == numbers
        nth = np.zeros(len(numbers), np.int64)
        if (self._counts[kind] > 1).any():
            nth = _nth_of_its_kind(np.where(is_held, kind, -1)) % self._counts[kind]
        return np.where(is_held, self._order[self._first[kind] + nth], -1)

    def _nearest(self, numbers: Ints) -> Ints:
        """Where in ``_numbers`` each number is, if it is there at all."""
        first, n = int(self._numbers[0]), len(self._numbers)
        if int(self._numbers[-1]) - first == n - 1:  # consecutive integers need no search
            return (numbers - first).clip(0, n - 1)
        return np.minimum(np.searchsorted(self._numbers, numbers), n - 1)


def _nth_of_its_kind(kinds: Ints) -> Ints:
    """For each entry, how many equal ones come before it."""
    order = np.argsort(kinds, kind="stable")
    _, first, counts = np.unique(kinds[order], return_index=True, return_counts=True)
    nth = np.empty(len(kinds), np.int64)
    nth[order] = np.arange(len(kinds)) - np.repeat(first, counts)
    return nth


def _judge(
    epoch: int,
    delivered: Delivered,
    rows: Ints,
    place: Ints,
    expected: Expected,
    dropped_places: Ints,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of an epoch's duplicates and of its missing samples.

    ``rows`` are the epoch's rows of ``delivered``, and ``place`` holds the place of each.
    """
    import pandas as pd

    n = len(expected)
    times = np.bincount(place[place >= 0], minlength=n)
    repeated = np.flatnonzero(times > 1)
    copies = np.flatnonzero((place >= 0) & (times[place] > 1)) if len(repeated) else place[:0]
    copies = copies[np.argsort(place[copies], kind="stable")]
    duplicates = {
        "epoch": np.full(len(repeated), epoch),
        "sample": repeated,
        "key": expected.keys[repeated],
        "times": times[repeated],
        "ranks": _tuples(delivered.rank[rows[copies]], times[repeated]),
        "workers": _tuples(delivered.worker[rows[copies]], times[repeated]),
    }
    was_dropped = np.bincount(dropped_places[dropped_places >= 0], minlength=n) > 0
    never = np.flatnonzero((times == 0) & (was_dropped | (np.arange(n) < expected.n_judged)))
    missing = {
        "epoch": np.full(len(never), epoch),
        "sample": never,
        "key": expected.keys[never],
        "cause": np.where(was_dropped[never], DROP_LAST, expected.missing_cause).astype(object),
    }
    return pd.DataFrame(duplicates), pd.DataFrame(missing)


def _tuples(values: Ints, sizes: Ints) -> Any:
    """``values`` cut into tuples of these sizes; equal ones are one tuple."""
    each, known = iter(values.tolist()), dict[tuple[int, ...], tuple[int, ...]]()
    tuples = (tuple(islice(each, size)) for size in sizes.tolist())
    return np.fromiter((known.setdefault(cut, cut) for cut in tuples), object, len(sizes))


def _rises(place: Ints, rank: Ints) -> bool:
    """Whether each sample comes after the one before it, in every rank."""
    is_later = np.diff(place) > 0
    return bool((is_later | (np.diff(rank) != 0)).all())
