"""Does ``collate_fn`` keep batches apart, and the parts of a sample together? Tried on a few.

It changes what it is given, so it is only called in a copy of the reader's process.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence, unpack_sequence

from loaderviz._contents.deliveries import most_rows
from loaderviz._contents.one_sample import OTHER_SEED, SEED, read_sample, seeder
from loaderviz.loaders.content_hash import content_number

N_BATCHES = 4
MOST_LEFT_OUT = 64  # samples of a batch of which each is left out once
MOST_ROWS = 8  # of a batch: what collate_fn does to more it does to these
MOST_PAIRS = 6  # of samples that are exchanged
LARGE = 8  # values: rows with fewer may be equal by chance
LEAST_ROWS = 3  # fewer rows may be something else than the samples

OVERWRITTEN = "a batch changes when the next one is collated: collate_fn fills one buffer for all"
LEFT_OVER = (
    "collate_fn makes another batch of the same samples once it has collated others: something of "
    "a batch is left in the next, such as padding that is not cleared"
)
DATA_CHANGED = (
    "collate_fn changes the dataset's own data in place: key {key!r} holds something else after it"
)
CUT = (
    "collate_fn makes rows of another size of the same samples once {one} and {two} change places: "
    "what is longer than one of them is cut"
)
PARTED = (
    "collate_fn puts rows of {one} and {two} together that are of different samples: which, "
    "depends on the order of the samples"
)


@dataclass(frozen=True)
class CollateTrial:
    """What calling ``collate_fn`` has shown, a sentence each without its full stop.

    Attributes:
        faults: what is wrong with it.
        fills_gaps: whether it puts other samples in the place of those that are None.
        leaves_out: whether it makes the same batch without some of the samples.
        not_tried: why it could not be called often enough to tell; empty where it could.
    """

    faults: tuple[str, ...] = ()
    not_tried: str = ""
    fills_gaps: bool = False
    leaves_out: bool = False


def try_collate(
    dataset: Any, collate_fn: Any, batches: Sequence[Sequence[Any]], until: float
) -> CollateTrial:
    """Call ``collate_fn`` on a few batches of a map-style dataset, given by their keys.

    What it makes has to depend on its samples alone, apart from chance. Where the same samples give
    another batch each time, nothing is concluded.

    Raises:
        TimeoutError: past ``until``, on the monotonic clock.
        Exception: what the reader's code raises.
    """
    trial = _Trial(dataset, collate_fn, until)
    first, *others = few = [list(keys)[:MOST_ROWS] for keys in batches]
    if any(map(trial.fills_gaps, few)):
        return CollateTrial(fills_gaps=True)
    samples = trial.read(first)
    if samples is None:
        return CollateTrial(not_tried="samples differ each time they are read")
    before = [content_number(sample) for sample in samples]
    made, number = trial.collate(samples)
    after = trial.numbers(first)
    if after != before:
        key = next(key for key, one, two in zip(first, before, after, strict=True) if one != two)
        return CollateTrial((DATA_CHANGED.format(key=key),))
    if number is None or trial.collate(trial.again(first))[1] != number:
        return CollateTrial(not_tried="it makes another batch of the same samples each time")
    made, number = trial.collate(trial.again(first))
    for keys in others:
        trial.collate(trial.again(keys))
    faults = []
    if content_number(made) != number:
        faults.append(OVERWRITTEN)
    elif trial.collate(trial.again(first))[1] != number:
        faults.append(LEFT_OVER)
    faults += trial.parted(first)
    few_enough = [list(keys) for keys in batches if len(keys) <= MOST_LEFT_OUT]
    leaves_out = not faults and trial.leaves_out(few_enough)
    return CollateTrial(tuple(faults), leaves_out=leaves_out)


class _Trial:
    """Reads and collates, each time under the same random numbers."""

    def __init__(self, dataset: Any, collate_fn: Callable[[list[Any]], Any], until: float) -> None:
        self._dataset, self._collate_fn, self._until = dataset, collate_fn, until
        self._seed_all = seeder(dataset, collate_fn)

    def read(self, keys: list[Any]) -> list[Any] | None:
        """The samples of these keys; None where they differ when they are read again."""
        before = self.numbers(keys)
        samples = self.again(keys)
        known = None not in before
        return samples if known and before == [*map(content_number, samples)] else None

    def numbers(self, keys: list[Any]) -> list[int | None]:
        return [content_number(self._read(key)) for key in keys]

    def again(self, keys: list[Any]) -> list[Any]:
        return [self._read(key) for key in keys]

    def _read(self, key: Any) -> Any:
        if time.monotonic() > self._until:
            raise TimeoutError
        self._seed_all(SEED)
        return read_sample(self._dataset, key)

    def collate(self, samples: list[Any], seed: int = SEED) -> tuple[Any, int | None]:
        """The batch, and the hash of its content."""
        self._seed_all(seed)
        batch = self._collate_fn(samples)
        return batch, content_number(batch)

    def fills_gaps(self, keys: list[Any]) -> bool:
        """Whether other samples come in place of those that are None.

        What comes beside a sample and a None is then chance, or another beside another sample.
        Something that is always the same only keeps the place.
        """
        samples = self.again(keys)
        gaps = [key for key, sample in zip(keys, samples, strict=True) if sample is None]
        held = [key for key in keys if key not in gaps]
        if not gaps or not held:
            return False

        def added(key: Any, seed: int) -> dict[str, Counter[int | None]]:
            """To the rows of this sample, in parts that are too large to be equal by chance."""
            alone = _large_rows(self.collate(self.again([key]), seed)[0], 1)
            both = _large_rows(self.collate(self.again([gaps[0], key]), seed)[0], 2)
            return {
                name: rows - alone[name]
                for name, rows in both.items()
                if alone.get(name, rows) < rows
            }

        first = added(held[0], SEED)
        others = added(held[-1], SEED), added(held[0], OTHER_SEED)
        return any(
            rows != other.get(name, rows) for name, rows in first.items() for other in others
        )

    def leaves_out(self, batches: Sequence[list[Any]]) -> bool:
        """Whether each batch has as many rows too few as samples that make no difference to it.

        Where samples are packed, an empty one makes none either, but others have no row as well.
        """
        found = False
        for keys in batches:
            batch, number = self.collate(self.again(keys))
            if number is None or self.collate(self.again(keys))[1] != number:
                return False
            missing = len(keys) - most_rows(batch)
            if missing <= 0 or len(keys) < 2:
                continue
            others = (keys[:place] + keys[place + 1 :] for place in range(len(keys)))
            idle = sum(self.collate(self.again(some))[1] == number for some in others)
            if idle != missing:
                return False
            found = True
        return found

    def parted(self, keys: list[Any]) -> Iterator[str]:
        """Whether rows go together otherwise, or are cut, once two samples are exchanged.

        Of parts with a row for each sample, whose rows stay the same ones. A part that tells the
        order of the others keeps them together. What is put together by chance is meant so.
        """
        batch, number = self.collate(self.again(keys))
        if self.collate(self.again(keys), OTHER_SEED)[1] != number:
            return
        made = parts_of(batch, len(keys))
        if len(keys) < LEAST_ROWS or any(map(_is_order, made.values())):
            return
        before = {name: _rows(part) for name, part in made.items()}
        for i, j in list(combinations(range(len(keys)), 2))[:MOST_PAIRS]:
            exchanged = self.again(keys)
            exchanged[i], exchanged[j] = exchanged[j], exchanged[i]
            now = parts_of(self.collate(exchanged)[0], len(keys))
            if any(_size_of(made[name]) != _size_of(now[name]) for name in made if name in now):
                yield CUT.format(one=f"key {keys[i]!r}", two=f"key {keys[j]!r}")
                return
            after = {name: _rows(part) for name, part in now.items()}
            kept = [name for name in before if Counter(before[name]) == Counter(after.get(name))]
            for one, two in combinations(kept, 2):
                were, are = (Counter(zip(of[one], of[two], strict=True)) for of in (before, after))
                if were != are:
                    yield PARTED.format(one=one, two=two)
                    return


def _size_of(part: Any) -> Any:
    """How large its rows are together: its shape, or the sum of theirs."""
    if isinstance(part, torch.Tensor | np.ndarray):
        return tuple(part.shape)
    return sum(len(row) for row in part if isinstance(row, Sequence | torch.Tensor | np.ndarray))


def _large_rows(batch: Any, n_rows: int) -> dict[str, Counter[int | None]]:
    """The hashes of the rows of its parts that are too large to be equal by chance."""
    return {
        name: Counter(_rows(part))
        for name, part in parts_of(batch, n_rows).items()
        if np.prod(_size_of(part)) >= LARGE * n_rows
    }


def _rows(part: Any) -> list[int | None]:
    return [content_number(row) for row in part]


def parts_of(batch: Any, n_rows: int, name: str = "") -> dict[str, Any]:
    """The tensors, arrays and lists of a batch with a row for each sample, by where they are."""
    if isinstance(batch, PackedSequence):
        rows = unpack_sequence(batch)  # as they were before pack_padded_sequence sorted them
        return {name or "the batch": rows} if len(rows) == n_rows else {}
    if isinstance(batch, torch.Tensor | np.ndarray):
        return {name or "the batch": batch} if batch.ndim and len(batch) == n_rows else {}
    inner: Iterable[tuple[Any, Any]]
    if isinstance(batch, Mapping):
        inner = batch.items()
    elif isinstance(batch, tuple | list) and any(
        isinstance(part, torch.Tensor | np.ndarray | Mapping | tuple | list) for part in batch
    ):
        inner = enumerate(batch)
    elif isinstance(batch, tuple | list):
        return {name or "the batch": batch} if len(batch) == n_rows else {}
    else:
        return {}
    found: dict[str, Any] = {}
    for key, part in inner:
        found |= parts_of(part, n_rows, f"{name}[{key!r}]")
    return found


def _is_order(part: Any) -> bool:
    """Whether it may say which row was which sample."""
    values = np.asarray(part) if isinstance(part, torch.Tensor | np.ndarray) else None
    if values is None or values.ndim != 1 or values.dtype.kind not in "iu":
        return False
    return bool(np.array_equal(np.sort(values), np.arange(len(values))))
