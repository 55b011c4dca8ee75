"""What a map-style dataset holds when nobody disturbs it: each key read alone, in copies of it.

The copies were made before the loader ran, so that nothing that the loader did has reached them:
forks of a fork of this process, or where it cannot be forked what comes of a pickle. Contents are
hashed at once and never kept.
"""

from __future__ import annotations

import math
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from loaderviz._contents.one_sample import (
    OTHER_SEED,
    SEED,
    LatestSamples,
    Swallowed,
    noting_exceptions,
    read_sample,
    seeder,
)
from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.forked_run import ChildProcess
from loaderviz.loaders.random_state import global_states, held_states

READABLE = (int, str, bool, float)  # keys that a recording keeps as they are
N_CLOSER = 64  # keys: so many are read again, and hashed again after later ones
MOST_PARTS = 1000  # keys whose samples' parts are hashed
LARGE = 8  # values: parts that are equal with fewer may be so by chance
LEAST_S = 5.0  # for a fork to start, and for the sample that was begun when its time was up


@dataclass
class Reference:
    """What keys hold when each is read alone.

    Attributes:
        numbers: by key, the hash of its content; None where it has none, or could not be read.
        raised: by key, the error of one that cannot be read alone.
        swallowed: by key, what its ``__getitem__`` met and did not raise.
        filled: of these keys, those that hold the same filler in place of what could not be read.
        reused: keys whose sample changed when the next one was read.
        drawn: keys for which a random generator was drawn from, where that was looked at.
        reads_change: keys that hold something else after keys were read.
        n_reread: how many keys were read again to know that; 0 where there was no time for it.
        not_read: why nothing was read at all; empty where something was.
    """

    numbers: dict[Any, int | None] = field(default_factory=dict)
    raised: dict[Any, str] = field(default_factory=dict)
    swallowed: dict[Any, Swallowed] = field(default_factory=dict)
    filled: set[Any] = field(default_factory=set)
    reused: list[Any] = field(default_factory=list)
    drawn: set[Any] = field(default_factory=set)
    reads_change: list[Any] = field(default_factory=list)
    n_reread: int = 0
    not_read: str = ""
    parts: dict[Any, dict[str, int | None]] = field(default_factory=dict)  # of some keys

    def add(self, other: Reference) -> None:
        """Take in what another process has read."""
        self.numbers |= other.numbers
        self.raised |= other.raised
        self.swallowed |= other.swallowed
        self.reused += other.reused
        self.parts |= other.parts

    def note_fillers(self) -> None:
        """Tell from their large parts which samples are fillers, where an error was swallowed.

        They have a part in common, all of them, that no sample has that met no error. What comes
        for a word that no table has is no filler.
        """
        failed = {key for key, error in self.swallowed.items() if not error.of_lookup}
        met = [self.parts[key] for key in self.parts if key in failed]
        others = [self.parts[key] for key in self.parts if key not in self.swallowed]
        names = set.intersection(*map(set, met)) if len(met) > 1 and others else set()
        for name in names:
            held = {part[name] for part in met}
            if len(held) == 1 and not held & {part.get(name) for part in others}:
                self.filled = set(self.parts) & failed


def read_in_copies(dataset: Any, keys: list[Any], n_processes: int, budget_s: float) -> Reference:
    """What these keys hold, read by so many forks of this process for at most ``budget_s``.

    Each fork reads some keys once more, under other random numbers, and a fresh one reads these
    from the last to the first: where all that agrees, no read changes another.
    """
    parts = [keys[first::n_processes] for first in range(min(n_processes, len(keys)))]
    whole, again = Reference(), Reference()
    for one, once_more in _in_copies(dataset, parts, budget_s, (SEED, OTHER_SEED)):
        whole.add(one)
        again.add(once_more)
    whole.note_fillers()
    backwards = list(again.numbers)[::-1]
    ((fresh,),) = _in_copies(dataset, [backwards], budget_s / 4, (OTHER_SEED,))
    whole.n_reread = len(fresh.numbers)
    if fresh.numbers != {key: again.numbers[key] for key in fresh.numbers}:
        closer = list(whole.numbers)[:N_CLOSER]
        whole.reads_change, whole.n_reread = _changed_by_reading(dataset, closer, budget_s / 4)
    return whole


def _changed_by_reading(dataset: Any, keys: list[Any], time_s: float) -> tuple[list[Any], int]:
    """Which keys hold something else in a copy in which keys were read before than in a fresh one.

    Under the same seed, under which two fresh copies agree. Else those that hold something else
    where all are read from the last to the first: a cache that takes two keys for one gives both
    what it has read first. Not by chance: these hold the same under another seed, and draw from no
    generator, which in this order gives them other numbers. And how many keys there was time for.
    """
    ((forwards, after),) = _in_copies(dataset, [keys], time_s, (SEED, OTHER_SEED))

    def of_fresh_copies(keys: list[Any], *seeds: int, looks: bool = False) -> list[Reference]:
        return [_in_copies(dataset, [keys], time_s, (seed,), looks=looks)[0][0] for seed in seeds]

    first, second = of_fresh_copies(list(after.numbers), OTHER_SEED, OTHER_SEED)
    if changed := _otherwise(after, first, second):
        return changed, len(second.numbers)
    first, second = of_fresh_copies(list(forwards.numbers)[::-1], SEED, OTHER_SEED, looks=True)
    drawn = first.drawn | second.drawn
    changed = [key for key in _otherwise(forwards, first, second) if key not in drawn]
    return changed, len(second.numbers)


def _otherwise(read: Reference, first: Reference, second: Reference) -> list[Any]:
    """Keys that hold something else in ``read`` than in two others, which agree.

    None where these do not agree of each key: chance is at work that no seed rules.
    """
    if any(first.numbers.get(key) != held for key, held in second.numbers.items()):
        return []
    return [key for key, held in second.numbers.items() if read.numbers[key] != held]


def read_twice(dataset: Any, keys: list[Any], budget_s: float) -> dict[Any, int | None]:
    """What these keys hold whatever the seed; None for one that is by chance."""
    ((first,),) = _in_copies(dataset, [keys], budget_s / 2, (SEED,), looks=True)
    ((second,),) = _in_copies(dataset, [list(first.numbers)], budget_s / 2, (OTHER_SEED,))
    return {
        key: number if number == first.numbers[key] and key not in first.drawn else None
        for key, number in second.numbers.items()
    }


def _in_copies(
    dataset: Any,
    parts: list[list[Any]],
    time_s: float,
    seeds: tuple[int, ...],
    *,
    looks: bool = False,
) -> list[list[Reference]]:
    """Read each part of the keys in a copy of its own, all at once; once for each of the seeds.

    ``dataset``: it, for forks of this process; or its pickle, to be read here. ``looks``: whether
    to note for which keys generators are drawn from, which takes time.
    """
    if isinstance(dataset, bytes):
        return [
            list(_readings(pickle.loads(dataset), part, time_s, seeds, looks)) for part in parts
        ]
    children = [
        ChildProcess(_read_in_fork, dataset, part, time_s, seeds, looks, method="fork")
        for part in parts
    ]
    end = time.monotonic() + len(seeds) * time_s + LEAST_S
    try:
        for child in children:
            if child.receive(end):
                child.join(LEAST_S)
        missing = [Reference() for _ in seeds]
        return [[*child.sent, *missing[len(child.sent) :]] for child in children]
    finally:
        for child in children:
            child.end()


def _read_in_fork(
    dataset: Any,
    keys: list[Any],
    time_s: float,
    seeds: tuple[int, ...],
    looks: bool,
    send: Callable[[Reference], None],
) -> None:
    for done in _readings(dataset, keys, time_s, seeds, looks):
        send(done)


def _readings(
    dataset: Any,
    keys: list[Any],
    time_s: float,
    seeds: tuple[int, ...],
    looks: bool,
) -> Iterator[Reference]:
    for seed in seeds:
        seeder(dataset)(seed)
        done = _read(dataset, keys, time_s, looks)
        yield done
        keys = list(done.numbers)[:N_CLOSER]


def _read(dataset: Any, keys: Sequence[Any], time_s: float, looks: bool) -> Reference:
    done = Reference()
    latest = LatestSamples()
    met: list[Swallowed] = []
    end = time.monotonic() + time_s
    debugger = sys.gettrace()
    watch = noting_exceptions(dataset, met)
    for place, key in enumerate(keys):
        if time.monotonic() > end:
            break
        met.clear()
        states = _states(dataset) if looks else None
        try:
            sys.settrace(watch)
            sample = read_sample(dataset, key)
        except Exception as error:  # the reader's own
            done.raised[key] = f"{type(error).__name__}: {error}"
            done.numbers[key] = None
            continue
        finally:
            sys.settrace(debugger)
        if looks and _states(dataset) != states:
            done.drawn.add(key)
        if met:
            done.swallowed[key] = met[-1]
        if (met and len(done.swallowed) <= MOST_PARTS) or place < N_CLOSER:
            done.parts[key] = _large_parts(sample)
        done.numbers[key] = content_number(sample)
        if place < N_CLOSER:
            done.reused += latest.changed_by(key, sample, done.numbers[key])
        elif place == N_CLOSER:
            done.reused += latest.changed()
    done.reused += latest.changed()
    return done


def _states(dataset: Any) -> list[int | None]:
    """Where each generator stands that is known, as hashes."""
    states = (*global_states(), *held_states(dataset=dataset))
    return [content_number(state.value) for state in states]


def _large_parts(sample: Any) -> dict[str, int | None]:
    """The hashes of its tensors, arrays, and what else is large, by where they are."""
    parts = (
        sample.items()
        if isinstance(sample, Mapping)
        else enumerate(sample if isinstance(sample, tuple | list) else (sample,))
    )
    return {
        str(name): content_number(part)
        for name, part in islice(parts, 16)
        if not isinstance(part, int | float | bool) and _size(part) >= LARGE
    }


def _size(part: Any) -> int:
    """How many values it has, as far as it says so."""
    numel = getattr(part, "numel", None)
    size = numel() if callable(numel) else getattr(part, "size", None)
    if isinstance(size, tuple):  # of a picture, width and height
        return math.prod(size)
    return size if isinstance(size, int) else len(part) if isinstance(part, str | bytes) else 0
