"""Loaders that are one to a person: made anew, again and again, at the same line of code.

The tables of a trace number each loader that was made. What tells of a run, in words or in a
picture, takes the trace through ``as_one`` first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from loaderviz.trace.columns_of_rows import Table, arrays
from loaderviz.trace.described_loaders import (
    UNDERLYING,
    as_the_loop_sees_it,
    kind_of_life,
    loader_description,
)
from loaderviz.trace.lines_of_code import of_these
from loaderviz.trace.underlying_keys import names_by_rank
from loaderviz.trace.unread_samples import UnreadSamples

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

Numbers = dict[int, tuple[int, int]]  # of a loader's life: of the first one, and its epochs before
Span = tuple[float, float]  # seconds


def as_one(trace: Trace) -> Trace:
    """The trace as the loop sees it, with one number for all lives of a loader: that of the first.

    Lives of one loader are iterated at one line of code, which has to be known; they have the same
    settings and a dataset of the same type; and in each rank the loop is done with one before it
    asks for a batch of the next. Loaders that it takes in turns, as with ``zip``, stay apart.

    Returns:
        ``trace`` itself where no loader has several lives and none is read ahead by a thread, whose
        waits and steps are not the loop's (``described_loaders.py``). Of several lives epochs are
        counted on from life to life, and the description of such a loader in ``meta`` says how
        often it was ``made``; those of its later lives are empty.
    """
    trace = as_the_loop_sees_it(trace)
    alike = _alike(trace.meta)
    if not alike:
        return trace
    numbers = _numbers(trace, alike)
    if not numbers:
        return trace
    made = {first: 1 for first, _ in numbers.values()}
    loaders = [dict(about) for about in trace.meta["loaders"]]
    for number, (first, _) in numbers.items():
        made[first] += 1
        loaders[number] = {}
        if names_by_rank(trace.meta, number) != names_by_rank(trace.meta, first):
            loaders[first][UNDERLYING] = None
    for first, n in made.items():
        loaders[first]["made"] = n
    meta = {**trace.meta, "loaders": loaders}
    if meta.get("windows"):
        rows = windows_as_one(trace)
        renumbered = {name: rows[name].tolist() for name in ("loader", "epoch")}
        meta["windows"] = {**meta["windows"], **renumbered}
    return trace._part(
        batches=_renumbered(trace.batches, numbers),
        samples=_SamplesAsOne(trace, numbers),
        workers=_renumbered(trace.workers, numbers),
        spans=trace.spans,
        meta=of_these(
            meta,
            loaders={number: first for number, (first, _) in numbers.items()},
        ),
    )


def windows_as_one(trace: Trace) -> Table:
    """The columns of ``trace.windows``, with one number for loaders that are described alike.

    The epochs of each rank are counted on. Whether such loaders were asked in turns, as with
    ``zip``, a ring no longer tells: then they come as one here, too.
    """
    rows = arrays(trace.windows)
    first = {life: numbers[0] for numbers in _alike(trace.meta) for life in numbers}
    if not first:
        return rows
    one = np.array([first.get(number, number) for number in rows["loader"].tolist()], np.int64)
    n = int(rows["loader"].max(initial=0)) + 1
    lives_, life = np.unique((rows["rank"] * n + one) * n + rows["loader"], return_inverse=True)
    n_epochs = np.zeros(len(lives_), np.int64)
    np.maximum.at(n_epochs, life, rows["epoch"] + 1)
    before = np.cumsum(n_epochs) - n_epochs
    _, begins, whose = np.unique(lives_ // n, return_index=True, return_inverse=True)
    before -= before[begins[whose]]
    return {**rows, "loader": one, "epoch": rows["epoch"] + before[life]}


def lives(meta: Mapping[str, Any], loader: int) -> int:
    """How often the loader of this number was made, in the ``meta`` of a trace from ``as_one``."""
    return loader_description(meta, loader).get("made") or 1


def _alike(meta: Mapping[str, Any]) -> list[list[int]]:
    """The numbers of loaders that are described alike, two or more each.

    They may read other samples, as of a dataset that is split anew for each epoch.
    """
    by_description: dict[str, list[int]] = defaultdict(list)
    for number, about in enumerate(meta.get("loaders") or ()):
        kind = kind_of_life(about)
        if kind is not None:
            by_description[kind].append(number)
    return [numbers for numbers in by_description.values() if len(numbers) > 1]


def _numbers(trace: Trace, alike: list[list[int]]) -> Numbers:
    """For each later life of a loader the number of the first, and how many epochs were before."""
    spans = _spans(trace)
    batches = trace.batches
    last_epoch = batches.groupby("loader")["epoch"].max().to_dict()
    numbers: Numbers = {}
    for candidates in alike:
        known = [number for number in candidates if number in spans]
        known.sort(key=lambda number: (min(begin for begin, _ in spans[number].values()), number))
        chains: list[_Chain] = []
        for number in known:
            n_epochs = int(last_epoch.get(number, -1)) + 1
            chain = next((each for each in chains if each.is_over(spans[number])), None)
            if chain is None:
                chains.append(_Chain(number, n_epochs, dict(spans[number])))
                continue
            numbers[number] = chain.first, chain.n_epochs
            chain.n_epochs += n_epochs
            chain.spans |= spans[number]
    return numbers


@dataclass
class _Chain:
    """The lives of one loader so far; ``spans``: of its last one in each rank."""

    first: int
    n_epochs: int
    spans: dict[int, Span]

    def is_over(self, following: Mapping[int, Span]) -> bool:
        """Whether in each rank the loop was done with it before it began with the following."""
        return all(
            self.spans[rank][1] <= begin
            for rank, (begin, _) in following.items()
            if rank in self.spans
        )


def _spans(trace: Trace) -> dict[int, dict[int, Span]]:
    """By loader and rank, from when to when the loop took its batches.

    Where it took none, it is over as it begins.
    """
    keys = ["loader", "rank"]
    of_batches = trace.batches.groupby(keys)
    begins = of_batches[["requested_s", "dispatched_s"]].min()
    begin = begins["requested_s"].fillna(begins["dispatched_s"])
    end = of_batches[["delivered_s", "released_s"]].max().max(axis=1).fillna(begin)
    started = trace.workers.groupby(keys)["started_s"].min()
    spans: dict[int, dict[int, Span]] = defaultdict(dict)
    for first, last in ((started, started), (begin, end)):
        known = first.notna()
        for (loader, rank), since, until in zip(
            first.index[known], first[known], last[known], strict=True
        ):
            spans[int(loader)][int(rank)] = float(since), max(float(since), float(until))
    return spans


def _renumbered(table: pd.DataFrame, numbers: Numbers) -> pd.DataFrame:
    """The table with the loaders' new numbers and epochs, in the order of both, as it was."""
    loader = table["loader"].to_numpy()
    size = max(int(loader.max(initial=0)), *numbers) + 1
    first, before = np.arange(size), np.zeros(size, np.int64)
    for number, (its_first, n_epochs) in numbers.items():
        first[number], before[number] = its_first, n_epochs
    changed = {"loader": first[loader]}
    if "epoch" in table:
        changed["epoch"] = table["epoch"].to_numpy() + before[loader]
    keys = [*reversed(changed.values()), table["rank"].to_numpy()]
    return table.assign(**changed).iloc[np.lexsort(keys)].reset_index(drop=True)


@dataclass(frozen=True)
class _SamplesAsOne(UnreadSamples):
    """The samples of ``trace``, which are read and renumbered when somebody asks for them."""

    trace: Trace
    numbers: Numbers

    def __len__(self) -> int:
        return self.trace.n_sample_rows

    def read(self, batches: pd.DataFrame) -> pd.DataFrame:
        """All of them, as one table."""
        return _renumbered(self.trace.samples, self.numbers)

    def parts(self, batches: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """All of them, as one table or more."""
        return (_renumbered(part, self.numbers) for part in self.trace.sample_parts())

    def of_ranks(self, ranks: Collection[int]) -> Self:
        """The samples of these ranks, unread."""
        return type(self)(self.trace.of_ranks(ranks), self.numbers)
