"""Does the loop get what the dataset holds? What was collated against what is read alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._contents.collate_trial import N_BATCHES, CollateTrial
from loaderviz._contents.contents_in_words import (
    BUFFER,
    CHANGED,
    DROPPED,
    NOT_COMPARED,
    RANDOM,
    REPLACED,
    SAME,
    WRONG,
    names_of,
    notes_on,
    on_fewer_rows,
    sentence_on,
)
from loaderviz._contents.deliveries import Collated, delivered_by_key, lacking_rows
from loaderviz._contents.own_orders import in_two_workers
from loaderviz._contents.pristine_copy import PristineCopy
from loaderviz._contents.read_alone import N_CLOSER, READABLE, Reference
from loaderviz._contents.repeated_tail import repeated_tail
from loaderviz.loaders.content_hash import content_number

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

UNSURE = (BUFFER, REPLACED, CHANGED)  # or random: a second reading tells
NOTHING = content_number(None)
N_BESIDE = 512  # keys that are read again where others are about to be said to be changed


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
    names = names_of(collate_fn=loader.collate_fn, worker_init_fn=loader.worker_init_fn)
    columns = [delivered[name].tolist() for name in ("key", "epoch", "batch", "position")]
    rows = list(zip(*columns, strict=True))
    reference = pristine.read_alone(columns[0], max(1, loader.num_workers), budget_s)
    sizes = Counter(zip(columns[1], columns[2], strict=True))
    judge = _Judge(reference, collated, sizes)
    states = _states(judge, rows, partial(pristine.read_again, budget_s=budget_s))
    numbers = [judge.number(*row) for row in rows]
    own_orders = False
    if loader.num_workers > 1 and RANDOM in states:
        of_chance = delivered.assign(number=pd.Series(numbers, dtype=object))
        twice = in_two_workers(of_chance, partial(pristine.read_alone, budget_s=budget_s))
        found = zip(twice, states, strict=True)
        states = [REPLACED if again and state == RANDOM else state for again, state in found]
        own_orders = any(twice) and twice == [state == REPLACED for state in states]
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
    sentence = sentence_on(states, reference, n_left_out, n_unknown, names, trial)
    notes = (
        *notes_on(table, reference, n_left_out, names, trial, own_orders),
        *on_fewer_rows(n_unknown, names),
    )
    return ComparedContents(
        table, reference, n_left_out, sentence, notes, n_unknown, trial, "collate_fn" in names
    )


def _states(
    judge: _Judge,
    rows: Sequence[tuple[Any, int, int, int]],
    read_again: Callable[[list[Any]], Mapping[Any, int | None]],
) -> list[str]:
    """The state of each sample, once what chance may have done was read again."""
    states = [judge.state(*row) for row in rows]
    unsure = [key for (key, *_), state in zip(rows, states, strict=True) if state in UNSURE]
    sure = [key for (key, *_), state in zip(rows, states, strict=True) if state == SAME]
    judge.note_chance(unsure, sure, read_again)
    states = [
        judge.state(*row) if state in UNSURE else state
        for row, state in zip(rows, states, strict=True)
    ]
    if states.count(RANDOM) > states.count(SAME):  # those that are the same are so by chance
        states = [RANDOM if state == SAME else state for state in states]
    return states


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
