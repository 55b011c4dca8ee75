"""Does the loop get what the dataset holds? What was collated against what is read alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch.utils.data import DataLoader, default_collate, default_convert

from loaderviz._contents.collate_trial import N_BATCHES, CollateTrial
from loaderviz._contents.deliveries import Collated, delivered_by_key, lacking_rows
from loaderviz._contents.pristine_copy import PristineCopy
from loaderviz._contents.read_alone import N_CLOSER, READABLE, Reference
from loaderviz.loaders.content_hash import content_number
from loaderviz.text import count

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

# States of a delivered sample, in the order in which they are told.
SAME, BUFFER, REPLACED, CHANGED, DROPPED = "same", "buffer", "replaced", "changed", "dropped"
RANDOM, NOT_COMPARED = "random", "not compared"
WRONG = (BUFFER, REPLACED, CHANGED, DROPPED)
UNKNOWN = (RANDOM, NOT_COMPARED)
UNSURE = (BUFFER, REPLACED, CHANGED)  # or random: a second reading tells
NOTHING = content_number(None)
N_BESIDE = 512  # keys that are read again where others are about to be said to be changed
MOST_LIKELY = 1e-3  # of what came by chance, to be taken for something else
LEAST_TAIL = 4  # keys that hold what earlier ones hold: fewer may be rows that are there twice

WORDS = {
    BUFFER: "were overwritten when another was read",
    REPLACED: "hold what another key holds",
    CHANGED: "hold something else than the dataset does when it is read alone",
    DROPPED: "were left out of their batch by collate_fn",
}

FILLED = "came in place of what could not be read"
ONE_BUFFER = (
    "A sample changes when a later one is read: the dataset gives the same buffer again and "
    "again. Remedy: give a copy of it, sample.clone() or sample.copy()."
)


@dataclass(frozen=True)
class ComparedContents:
    """Of each delivered sample whether it is the dataset's own.

    Attributes:
        table: a row for each delivered sample: ``epoch, key, worker, batch, position, state``.
        reference: what they were compared with.
        n_left_out: how many samples ``collate_fn`` left out of their batches.
        sentence: what was compared, and what came of it.
        notes: what else was seen, and the ways out.
    """

    table: pd.DataFrame
    reference: Reference
    n_left_out: int
    sentence: str
    notes: tuple[str, ...] = ()
    n_fewer: int = 0  # rows: whether samples were put together or left out is not known
    collate_trial: CollateTrial = field(default_factory=CollateTrial)
    own_collate: bool = False  # what it makes of samples is the reader's, and was not compared

    def of_state(self, *states: str) -> pd.DataFrame:
        """The rows of samples in one of these states."""
        return self.table[self.table["state"].isin(states)]

    @property
    def wrong(self) -> bool:
        """Whether some are not the dataset's own."""
        of_samples = self.n_left_out or self.table["state"].isin(WRONG).any()
        return bool(of_samples or self.collate_trial.faults or self.reference.reads_change)

    @property
    def whole(self) -> bool:
        """Whether all were compared, and are the dataset's own."""
        return (
            not self.wrong
            and not self.n_fewer
            and not self.own_collate
            and repeated_tail(self.reference) is None
            and bool((self.table["state"] == SAME).all())
        )


def compare_contents(
    loader: DataLoader[Any],
    trace: Trace,
    noted: Sequence[Sequence[Collated]],
    pristine: PristineCopy,
    budget_s: float,
    n_samples: int | None = None,
) -> ComparedContents:
    """Compare what a map-style loader delivered with its dataset, read alone.

    Args:
        loader: the reader's own.
        trace: of the run of a copy of it, and of nothing else.
        noted: what the batches of the first epochs held, in the order of delivery.
        pristine: a copy of the dataset from before the run.
        budget_s: seconds to read keys for.
        n_samples: how many samples are compared; None: all.
    """
    import pandas as pd

    samples, keys = delivered_by_key(trace)
    n_noted = int(np.count_nonzero(samples.epoch < len(noted)))
    n_samples = n_noted if n_samples is None else min(n_noted, n_samples)
    samples = samples.first(n_samples)
    keys = (keys if isinstance(keys, list) else keys.tolist())[:n_samples]
    delivered = pd.DataFrame(
        {
            "epoch": samples.epoch,
            "key": np.fromiter(keys, object, len(keys)),
            "worker": samples.worker,
            "batch": samples.batch,
            "position": samples.position,
        }
    )
    collated = _by_batch(trace, noted)
    functions = {"collate_fn": loader.collate_fn, "worker_init_fn": loader.worker_init_fn}
    n_processes = max(1, loader.num_workers)
    names = names_of(**functions)
    columns = [delivered[name].tolist() for name in ("key", "epoch", "batch", "position")]
    rows = list(zip(*columns, strict=True))
    reference = pristine.read_alone(columns[0], n_processes, budget_s)
    sizes = Counter(zip(columns[1], columns[2], strict=True))
    judge = _Judge(reference, collated, sizes)
    states = [judge.state(*row) for row in rows]
    unsure = [key for (key, *_), state in zip(rows, states, strict=True) if state in UNSURE]
    sure = [key for (key, *_), state in zip(rows, states, strict=True) if state == SAME]
    judge.note_chance(unsure, sure, partial(pristine.read_again, budget_s=budget_s))
    states = [
        judge.state(*row) if state in UNSURE else state
        for row, state in zip(rows, states, strict=True)
    ]
    if states.count(RANDOM) > states.count(SAME):  # those that are the same are so by chance
        states = [RANDOM if state == SAME else state for state in states]
    numbers = [judge.number(*row) for row in rows]
    twice = [False] * len(rows)
    if loader.num_workers > 1 and RANDOM in states:
        of_chance = delivered.assign(number=pd.Series(numbers, dtype=object))
        twice = _in_two_workers(of_chance)
        if any(twice) and not _are_unlike(of_chance, twice, pristine, budget_s):
            twice = [False] * len(rows)
        found = zip(twice, states, strict=True)
        states = [REPLACED if again and state == RANDOM else state for again, state in found]
    known = [each for of, each in collated.items() if len(each.numbers) == sizes[of]]
    n_left_out, n_unknown = lacking_rows(known)
    gaps = [number == NOTHING for number in numbers]
    trial = CollateTrial()
    if "collate_fn" in names:
        trial = pristine.try_collate(_some_batches(rows, gaps, collated), budget_s / 2)
    if trial.fills_gaps:
        states = [DROPPED if is_gap else state for is_gap, state in zip(gaps, states, strict=True)]
        n_left_out = states.count(DROPPED)
    if trial.leaves_out:
        n_left_out, n_unknown = n_left_out + n_unknown, 0
    table = delivered.assign(state=states)
    faults = trial.faults
    sentence = _sentence(states, reference, n_left_out)
    if faults:
        fault = faults[0].replace("collate_fn", f"collate_fn={names['collate_fn']}", 1)
        of_samples = n_left_out or reference.reads_change or {*WRONG} & {*states}
        sentence = f"{sentence}; {fault}" if of_samples else fault
    elif n_unknown and not n_left_out:
        sentence += ", before collate_fn made fewer rows of them"
    elif "collate_fn" in names and SAME in states and not n_left_out:
        sentence += f", before collate_fn={names['collate_fn']} made batches of them"
    own_orders = REPLACED in states and [state == REPLACED for state in states] == twice
    notes = (
        *_notes(table, reference, n_left_out, names, trial, own_orders),
        *on_fewer_rows(n_unknown, names),
    )
    return ComparedContents(
        table, reference, n_left_out, sentence, notes, n_unknown, trial, "collate_fn" in names
    )


def _by_batch(trace: Trace, noted: Sequence[Sequence[Collated]]) -> dict[tuple[int, int], Collated]:
    """What was noted, by epoch and batch."""
    batches = trace.batches[trace.batches["delivered_s"].notna()].sort_values("delivered_s")
    numbers = [batches.loc[batches["epoch"] == epoch, "batch"] for epoch in range(len(noted))]
    return {
        (epoch, number): each
        for epoch, of_epoch in enumerate(noted)
        for number, each in zip(numbers[epoch].tolist(), of_epoch, strict=False)
    }


def _some_batches(
    rows: Sequence[tuple[Any, ...]],
    gaps: Sequence[bool],
    collated: Mapping[tuple[int, int], Collated],
) -> list[list[Any]]:
    """The keys of the first batches of the first epoch, and of the first with gaps or fewer rows.

    Where there are gaps, these come first.
    """
    batches: dict[Any, list[Any]] = {}
    with_gaps: dict[Any, list[Any]] = {}
    for (key, epoch, batch, _), is_gap in zip(rows, gaps, strict=True):
        if epoch == rows[0][1]:
            batches.setdefault(batch, []).append(key)
            if is_gap:
                with_gaps.setdefault(batch, []).append(key)
    chosen = list(batches.values())[:N_BATCHES]
    for batch, keys in list(with_gaps.items())[:1]:
        chosen.append([*keys, *(key for key in batches[batch] if key not in keys)])
    lacking = (n for n in batches if (held := collated.get((rows[0][1], n))) and held.n_left_out)
    chosen += [batches[batch] for batch in islice(lacking, 1)]
    return chosen


def _in_two_workers(delivered: pd.DataFrame) -> list[bool]:
    """Which samples another worker has given before in this epoch, under another key.

    All False unless the workers have the data in orders of their own: then none gives a sample
    twice itself. Where they draw the same random numbers, they give the same at the same place.
    """
    place = delivered.groupby(["epoch", "worker"]).cumcount()
    known = delivered.assign(place=place).dropna(subset=["number"])
    again = known[known.duplicated(["epoch", "number"])]
    pairs = again.merge(known, on=["epoch", "number"], suffixes=("", "_before"))
    pairs = pairs[pairs["key"] != pairs["key_before"]]
    in_one = (pairs["worker"] == pairs["worker_before"]).any()
    shares = known["worker"].value_counts(normalize=True)
    by_chance = (1 - (shares**2).sum()) ** len(again)
    alike = (pairs["place"] == pairs["place_before"]).mean() > 1 / 2
    if pairs.empty or in_one or alike or by_chance > MOST_LIKELY:
        again = again.iloc[:0]
    return delivered.index.isin(again.index).tolist()


def _are_unlike(
    delivered: pd.DataFrame, twice: Sequence[bool], pristine: PristineCopy, budget_s: float
) -> bool:
    """Whether no two of these keys hold the same where one process reads them.

    Else the data has rows twice, and random augmentation left some of them as they are.
    """
    numbers = delivered["number"][np.array(twice)]
    keys = delivered.loc[delivered["number"].isin(numbers), "key"].drop_duplicates().tolist()
    held = [each for each in pristine.read_alone(keys, 1, budget_s).numbers.values() if each]
    return len(held) > 1 and len({*held}) == len(held)


def names_of(**functions: Any) -> dict[str, str]:
    """What to call the reader's own functions, by what they are to the loader."""
    return {
        name: str(getattr(function, "__qualname__", type(function).__name__))
        for name, function in functions.items()
        if function not in (None, default_collate, default_convert)
    }


class _Judge:
    """Says of one sample after another whether it is the dataset's own."""

    def __init__(
        self,
        reference: Reference,
        collated: Mapping[tuple[int, int], Collated],
        sizes: Mapping[tuple[int, int], int],
    ) -> None:
        self._own = reference.numbers
        self._swallowed, self._filled = reference.swallowed, reference.filled
        self._reused = bool(reference.reused)
        self._collated, self._sizes = collated, sizes
        self._by_chance: set[Any] = set()
        # What a key holds that met no error: another key that holds it was given its sample.
        self._owners: dict[int, Any] = {}
        for key, number in reference.numbers.items():
            if number is not None and key not in reference.swallowed:
                self._owners.setdefault(number, key)

    def state(self, key: Any, epoch: int, batch_number: int, position: int) -> str:
        """The state of the sample at this position of a batch, which was asked for by this key."""
        batch = self._collated.get((epoch, batch_number))
        if batch is None or len(batch.numbers) != self._sizes[epoch, batch_number]:
            return NOT_COMPARED  # a dataset that makes the batches returns one for many keys
        number = batch.numbers[position]
        n_nothing = batch.numbers.count(NOTHING)
        if number == NOTHING and batch.n_rows == len(batch.numbers) - n_nothing:
            return DROPPED
        own = self._own.get(key) if isinstance(key, READABLE) else None
        if number is None or (own is None and key not in self._by_chance):
            return NOT_COMPARED
        is_of_other = self._owners.get(number, key) != key
        if key in self._filled or (is_of_other and key in self._swallowed):
            return REPLACED
        if number == own and batch.arrived is not False:
            return SAME
        is_last = position == len(batch.numbers) - 1  # it may be, and still be by chance
        if self._reused and not (is_last and key in self._by_chance):
            return BUFFER
        if key in self._by_chance:
            return RANDOM
        return REPLACED if is_of_other else CHANGED

    def number(self, key: Any, epoch: int, batch_number: int, position: int) -> int | None:
        """The hash of what came, where that is known."""
        batch = self._collated.get((epoch, batch_number))
        if batch is None or len(batch.numbers) != self._sizes[epoch, batch_number]:
            return None
        return batch.numbers[position]

    def note_chance(
        self,
        keys: list[Any],
        sure: list[Any],
        read_again: Callable[[list[Any]], Mapping[Any, int | None]],
    ) -> None:
        """Find out which of these keys hold something else each time they are read.

        A few first: where most of them do, so do all, and those that hold the same twice do so by
        chance, as a small number that is drawn may. So they may where it is one of the keys that
        one was sure of: augmentation may change a sample seldom. What is not known is not held
        against a loader.
        """
        keys = list(dict.fromkeys(keys))
        some, others = keys[:N_CLOSER], keys[N_CLOSER:]
        again = dict(read_again(some))
        if sum(number is None for number in again.values()) > len(again) / 2:
            again = {}
        elif keys:
            beside = [key for key in dict.fromkeys(sure) if key not in again][:N_BESIDE]
            if None in read_again(beside).values():
                again = {}
            else:
                again |= read_again(others)
        self._by_chance = {key for key in keys if again.get(key) is None}
        self._own = {**self._own, **again}


def _sentence(states: Sequence[str], reference: Reference, n_left_out: int) -> str:
    counts, n = Counter(states), len(states)
    counts[DROPPED] = n_left_out
    n_compared = n - sum(counts[state] for state in UNKNOWN)
    if any(counts[state] for state in WRONG):
        words = {**WORDS, REPLACED: FILLED} if reference.filled else WORDS
        return "; ".join(
            f"{counts[state]:,} of {count(n, 'sample')} {words[state]}"
            for state in WRONG
            if counts[state]
        )
    if reference.reads_change:
        key = reference.reads_change[0]
        return f"what key {key!r} holds depends on what was read before it"
    if n_compared:
        are = "are" if n_compared == n else "were compared, and are"
        own = f"{n_compared:,} of {count(n, 'sample')} {are} the dataset's own"
        tail = repeated_tail(reference)
        return own if tail is None else f"{own}, and from key {tail.first:,} on they repeat"
    return f"contents were not compared: {_why_not(counts, reference)}"


def _why_not(counts: Counter[str], reference: Reference) -> str:
    if reference.not_read:
        return reference.not_read
    if counts[RANDOM]:
        return "each read differs, as random augmentation makes it"
    if reference.raised:
        return f"read alone, the dataset raises {next(iter(reference.raised.values()))}"
    if any(number is not None for number in reference.numbers.values()):
        return "the dataset makes batches of its own"
    return "they have no content that can be told from others"


def _notes(
    table: pd.DataFrame,
    reference: Reference,
    n_left_out: int,
    names: Mapping[str, str],
    trial: CollateTrial,
    own_orders: bool,
) -> Iterator[str]:
    states = set(table["state"])
    yield from (f"{fault[:1].upper()}{fault[1:]}." for fault in trial.faults[1:])
    if BUFFER in states or reference.reused:
        yield ONE_BUFFER
    if reference.reads_change and not own_orders:
        yield (
            f"Reading changes what is read later: key {reference.reads_change[0]!r} holds "
            "something else once others were read, with the same random numbers. Remedy: copy what "
            "is changed in place, before that; and let a cache tell all keys apart."
        )
    if REPLACED in states and reference.swallowed:
        yield _note_on_swallowed(table, reference)
    elif own_orders:
        yield (
            "Each worker has the data in an order of its own, by chance: a key stands for one "
            "sample in one worker and for another in the next. Remedy: one order for all, such as "
            "ORDER BY a key, a sorted list of files, or a shuffle with a seed."
        )
    elif reference.reads_change:
        pass  # which says it all
    elif {REPLACED, CHANGED} & states and not (table["worker"] >= 0).any():
        yield (
            "The data has changed while the loader ran: something works in place on what the "
            "dataset keeps, be it a transform, collate_fn or the loop. Remedy: copy it before."
        )
    elif {REPLACED, CHANGED} & states and not trial.faults:
        init = names.get("worker_init_fn")
        blamed = f"worker_init_fn={init} changes" if init else "something changes"
        yield (
            "In the workers these keys hold something else than here. Either "
            f"{blamed} a worker's copy of the dataset, or all workers read from one file, "
            "connection or other handle that was opened before the fork: open it in the worker."
        )
    if n_left_out:
        leaves_out = "leaves out samples"
        if trial.fills_gaps:
            leaves_out = "puts other samples in the place of those that are None"
        yield (
            f"collate_fn={names.get('collate_fn', '')} {leaves_out}. Leave such keys out of the "
            "dataset, so that batches have their size, and no evaluation lacks them unseen."
        )
    silent = [
        error
        for key, error in reference.swallowed.items()
        if table.loc[table["key"] == key, "state"].isin(UNKNOWN).any()
    ]
    if silent:
        yield (
            f"For {count(len(silent), 'key')} {silent[0].line} met {silent[0].name} "
            f"({silent[0].message}, say), and went on: whether what it gives then is theirs is "
            "not known."
        )
    n_random = int((table["state"] == RANDOM).sum())
    if n_random and n_random < len(table):
        differ = count(n_random, "sample differs", "samples differ")
        yield f"{differ} with each read (random), and not compared."
    if (tail := repeated_tail(reference)) is not None:
        yield (
            f"Key {tail.first:,} and those after it hold {tail.held}: the dataset is longer than "
            "its data, unless that is meant."
        )
    n_read, n_keys = len(reference.numbers), table["key"].nunique()
    if 0 < n_read < n_keys:
        yield (
            f"{n_read:,} of {count(n_keys, 'key')}, drawn at random, were read to compare with: "
            "budget_s= gives it more time."
        )


def on_fewer_rows(n: int, names: Mapping[str, str]) -> Iterator[str]:
    """What is said where ``collate_fn`` makes so many rows fewer than it gets samples."""
    if n:
        yield (
            f"collate_fn={names.get('collate_fn', '')} makes {count(n, 'row')} fewer than there "
            "are samples: whether it puts them together or leaves some out is not known."
        )


def _note_on_swallowed(table: pd.DataFrame, reference: Reference) -> str:
    replaced = set(table.loc[table["state"] == REPLACED, "key"])
    met = [error for key, error in reference.swallowed.items() if key in replaced]
    error = (met or list(reference.swallowed.values()))[0]
    return (
        f"For {count(len(met), 'key')} {error.line} met {error.name} ({error.message}, say), and "
        "something else was returned in place of the sample that was asked for. Let it raise, or "
        "leave such keys out of the dataset."
    )


class Tail(NamedTuple):
    """The last keys, where they hold nothing of their own.

    Attributes:
        first: of these keys.
        held: what they hold.
        is_one: whether that is one sample, as of an index that is clamped; else those from 0 on.
    """

    first: int
    held: str
    is_one: bool


def repeated_tail(reference: Reference) -> Tail | None:
    """The keys from one on that hold what the keys from 0 on do, or the last one before them."""
    held = reference.numbers
    n = len(held)
    if None in held.values() or set(held) != set(range(n)):
        return None
    numbers = [held[key] for key in range(n)]
    first = len(set(numbers))
    if n - first < LEAST_TAIL or first == 1 or len(set(numbers[:first])) < first:
        return None
    if {*numbers[first:]} == {numbers[first - 1]}:
        return Tail(first, f"what key {first - 1:,} holds", is_one=True)
    repeats = all(numbers[k] == numbers[k - first] for k in range(first, n))
    return Tail(first, "what the keys from 0 on hold", is_one=False) if repeats else None
