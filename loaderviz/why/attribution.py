"""Where the consumer's waiting went: each waited second, by its cause. Arithmetic on a trace alone.

A wait is looked at from its end. From the moment when the batch was ready to its delivery it was
handed over. Before that the consumer depended on the batch's worker, and each moment of the wait
belongs to what that worker did then: it was not up yet, it read samples (of this batch, or of one
that it had been given before), it collated, or it had not been asked. What the consumer did by
itself while it waited, to draw keys from its sampler, belongs to the sampler. So causes add up to
the wait. While a worker reads, the batch that it reads says more: ``reading_time.py``.

Nothing is filled in: where a recording does not show what the worker did, the cause is ``unknown``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.array_types import Floats
from loaderviz.trace.around_epochs import drawn_ahead, endings, startups, still_making
from loaderviz.trace.columns_of_rows import codes, where
from loaderviz.trace.steps import NS, groups, seconds_within
from loaderviz.why.reading_time import Reading
from loaderviz.why.worker_starts import WHOSE, first_of_each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loaderviz.trace.trace import Trace

PHRASES: Final = {  # of causes, after "the model waits 43 % of the time: "
    "start": "workers start up",
    "restart": "workers start anew in each epoch",
    "workers": "samples are being read: more workers would overlap",
    "cpu": "the CPUs are full",
    "throttled": "a CPU quota stops the workers",
    "slow_samples": "a few samples take far longer than the others",
    "drift": "samples take longer and longer",
    "uneven": "some workers have nothing left to read",
    "collate": "batches are being collated",
    "handover": "batches are being handed over",
    "pin": "batches are being pinned",
    "copy": "batches are being copied to the device",
    "sampler": "the sampler is drawing keys",
    "prefetch": "too few batches are asked for in advance",
    "main_process": "one process loads and steps in turn",
    "unknown": "why cannot be told from this recording",
}
CAUSES: Final = tuple(PHRASES)
_COLUMN: Final = {cause: column for column, cause in enumerate(CAUSES)}

# Of a batch of a few MB with a CPU to spare, twice what it takes to hand it over: 0.6 to 1.5 ms
# (torch 2.13 on Linux 6.18, measured).
USUAL_HANDOVER_S: Final = 0.002
QUICKEST: Final = 0.1  # of the handovers: these had a CPU, even where others had to wait for one
FEWEST_HANDOVERS: Final = 10  # that show it
AT_ONCE_S: Final = 1e-4  # less than it takes to receive a batch: that one was in the buffer
EARLY_S: Final = 1e5  # before its first task: longer than a worker takes to come up


@dataclass(frozen=True)
class Attribution:
    """The waits of a trace, one row each, and what each is due to.

    Attributes:
        rank, loader: whose wait it was, of n waits.
        start_s, end_s: of each wait, in seconds of the trace.
        row: of each wait, that of its batch in ``trace.batches``; -1 in ``iter()``.
        seconds: float64, (n, len(CAUSES)): what of each wait is due to which cause. A row adds up
            to ``end_s - start_s``.
    """

    rank: Any
    loader: Any
    start_s: Floats
    end_s: Floats
    row: Any
    seconds: Floats

    def of_loader(self, loader: int) -> Attribution:
        """The waits for one loader's batches."""
        return self._where(self.loader == loader)

    def of_rank(self, rank: int) -> Attribution:
        """The waits of one rank."""
        return self._where(self.rank == rank)

    def _where(self, own: Any) -> Attribution:
        fields = (self.rank, self.loader, self.start_s, self.end_s, self.row, self.seconds)
        return Attribution(*(values[own] for values in fields))

    def of_cause(self, cause: str) -> Floats:
        """Seconds of each wait that are due to this cause."""
        return self.seconds[:, _COLUMN[cause]]

    def totals(self) -> dict[str, float]:
        """Seconds by cause, of all waits; causes without any are left out."""
        sums = self.seconds.sum(axis=0)
        return {cause: float(total) for cause, total in zip(CAUSES, sums, strict=True) if total > 0}


def attribute(trace: Trace, reading: Reading | None = None) -> Attribution:
    """Of each wait in ``next()``, and of what ``iter()`` took, the causes.

    ``reading`` is ``Reading.of(trace)``, where that is known already.
    """
    waits = _Waits.of(trace)
    of_batches = waits.by_cause(reading or Reading.of(trace))
    spans, columns = _around(trace)
    around = np.array(spans, np.float64).reshape(-1, 4).T
    of_spans = np.zeros((len(spans), len(CAUSES)))
    of_spans[np.arange(len(spans)), np.array(columns, np.int64)] = around[3] - around[2]
    rank, loader, start_s, end_s = (
        np.concatenate([of_waits, of_them.astype(of_waits.dtype)])
        for of_waits, of_them in zip(
            (waits.rank, waits.loader, waits.start_s, waits.end_s), around, strict=True
        )
    )
    seconds = np.concatenate([of_batches, of_spans])
    _to_the_sampler(trace, rank, start_s, end_s, seconds)
    row = np.concatenate([waits.row, np.full(len(spans), -1)])
    return Attribution(rank, loader, start_s, end_s, row, seconds)


def _around(trace: Trace) -> tuple[list[tuple[int, int, float, float]], list[int]]:
    """When the consumer waited for no batch: see ``around_epochs``; and the column of each cause.

    It started workers, and that loader had or had not had some before; it drew keys; or it ended
    workers, and had or had not to start others later. Before that they may still read.
    """
    spans = startups(trace)
    names = ("rank", "loader", "ready_s")
    batches = {name: trace.batches[name].to_numpy() for name in names}
    seen: set[tuple[int, int]] = set()
    columns = []
    for rank, loader, _, _ in spans:
        columns.append(_COLUMN["restart" if (rank, loader) in seen else "start"])
        seen.add((rank, loader))
    ahead = drawn_ahead(trace)
    columns += [_COLUMN["sampler"]] * len(ahead)
    # Workers that the next epoch's are started after end because they are not kept.
    last = {(rank, loader): start for rank, loader, start, _ in spans}
    spans += ahead
    ends = endings(trace)
    for (rank, loader, start, end), until in zip(ends, still_making(batches, ends), strict=True):
        cause = "restart" if last.get((rank, loader), start) > start else "start"
        for part, since, to in (("workers", start, until), (cause, until, end)):
            columns.append(_COLUMN[part])
            spans.append((rank, loader, since, to))
    return spans, columns


def _to_the_sampler(
    trace: Trace, rank: Any, start_s: Floats, end_s: Floats, seconds: Floats
) -> None:
    """Move from the causes of each wait to the sampler what was drawn from that meanwhile.

    ``seconds`` is changed. One thread draws keys at a time.
    """
    names = ("rank", "drawing_s", "dispatched_s")
    ranks, begin_s, until_s = (trace.batches[name].to_numpy() for name in names)
    known = until_s > begin_s  # False for NaN
    for number in np.unique(ranks[known]):
        of_rank, own = known & (ranks == number), np.flatnonzero(rank == number)
        drawing = seconds_within(begin_s[of_rank], until_s[of_rank], as_one=True)
        drawn_s = drawing(start_s[own], end_s[own])
        rows = own[drawn_s > 0]
        drawn_s = np.minimum(drawn_s[drawn_s > 0], seconds[rows].sum(axis=1))
        # It is the end of a wait in which the consumer draws: when it has the batch.
        left_s = drawn_s
        for cause in ("handover", "pin", "main_process"):
            part_s = np.minimum(left_s, seconds[rows, _COLUMN[cause]])
            seconds[rows, _COLUMN[cause]] -= part_s
            left_s = left_s - part_s
        rest_s = seconds[rows].sum(axis=1)
        kept = np.divide(rest_s - left_s, rest_s, out=np.zeros_like(rest_s), where=rest_s > 0)
        seconds[rows] *= kept[:, None]
        seconds[rows, _COLUMN["sampler"]] += drawn_s


@dataclass(frozen=True)
class _Waits:
    """The waits in ``next()``, and the worker's day that each depends on."""

    rank: Any
    loader: Any
    start_s: Floats
    end_s: Floats
    ready_s: Floats
    pinned_s: Floats
    in_main: Any  # no worker is known
    lane: Any  # the number of the worker's epoch
    row: Any  # among all batches
    columns: dict[str, Any]  # of all batches
    by_lane: Any  # the rows of all batches, lane after lane

    @classmethod
    def of(cls, trace: Trace) -> _Waits:
        names = (
            *("rank", "loader", "epoch", "worker", "dispatched_s", "started_s", "collate_s"),
            *("ready_s", "pinned_s", "requested_s", "delivered_s"),
        )
        every = {name: trace.batches[name].to_numpy() for name in names}
        lanes = groups(*(every[name] for name in ("rank", "loader", "epoch", "worker")))
        rows = np.flatnonzero(every["delivered_s"] >= every["requested_s"])
        return cls(
            rank=every["rank"][rows],
            loader=every["loader"][rows],
            start_s=every["requested_s"][rows],
            end_s=every["delivered_s"][rows],
            ready_s=every["ready_s"][rows],
            pinned_s=every["pinned_s"][rows],
            in_main=every["worker"][rows] < 0,
            lane=lanes[rows],
            row=rows,
            columns={**every, "lane": lanes, "before": _before_first_task(trace, every)},
            by_lane=np.argsort(lanes, kind="stable"),
        )

    def by_cause(self, reading: Reading) -> Floats:
        """Seconds of each wait by cause: (n, len(CAUSES))."""
        seconds = np.zeros((len(self.row), len(CAUSES)))
        wait_s = self.end_s - self.start_s
        ready_s = np.clip(self.ready_s, self.start_s, self.end_s)  # NaN stays
        made = ~np.isnan(ready_s)
        made_here = self.in_main & made  # else by a loader whose work is not seen
        seconds[made_here, _COLUMN["main_process"]] = wait_s[made_here]
        by_worker = made & ~self.in_main
        seconds[:, _COLUMN["handover"]] = np.where(by_worker, self.end_s - ready_s, 0.0)
        self._take_out_pinning(seconds, ready_s)
        handover_s = seconds[:, _COLUMN["handover"]]
        late_s = np.maximum(handover_s - self._usual_handover_s(handover_s, by_worker), 0.0)
        late_s[~reading.cpus_full[self.row]] = 0.0  # else who was to take it had no CPU
        seconds[:, _COLUMN["handover"]] -= late_s
        seconds[:, _COLUMN["cpu"]] += late_s
        order = np.argsort(self.lane, kind="stable")
        order = order[by_worker[order] & (ready_s > self.start_s)[order]]
        lanes = self.columns["lane"][self.by_lane]
        for rows in _runs(self.lane[order]):
            own = order[rows]
            lane = self.lane[own[0]]
            tasks = self.by_lane[slice(*np.searchsorted(lanes, [lane, lane + 1]))]
            day = _Day.of(self.columns, tasks, reading)
            seconds[own] += day.between(self.start_s[own], ready_s[own])
        missing_s = wait_s - seconds.sum(axis=1)
        seconds[:, _COLUMN["unknown"]] += np.where(missing_s > NS / 10, missing_s, 0.0)
        return seconds

    def _usual_handover_s(self, handover_s: Floats, by_worker: Any) -> Floats:
        """For each wait, how long a batch of that loader is handed over with a CPU to spare."""
        usual_s = np.full(len(handover_s), USUAL_HANDOVER_S)
        for loader in np.unique(self.loader):
            # Others may have been received while one before was waited for.
            own = by_worker & (self.loader == loader) & (handover_s >= AT_ONCE_S)
            if own.sum() >= FEWEST_HANDOVERS:
                usual_s[own] = max(USUAL_HANDOVER_S, float(np.quantile(handover_s[own], QUICKEST)))
        return usual_s

    def _take_out_pinning(self, seconds: Floats, ready_s: Floats) -> None:
        """A batch that came from its worker is pinned when the one before it has been."""
        pinned_s = np.clip(self.pinned_s, ready_s, self.end_s)
        pinned_s = np.where(np.isnan(pinned_s), ready_s, pinned_s)
        pinning_s = np.where(self.in_main, 0.0, np.nan_to_num(pinned_s - ready_s))
        seconds[:, _COLUMN["pin"]] += pinning_s
        seconds[:, _COLUMN["handover"]] -= pinning_s


def _before_first_task(trace: Trace, every: dict[str, Any]) -> Any:
    """What a worker's time before each batch is due to, if it is the worker's first in its epoch.

    Its process starts up, for the first time or anew; or it is up, and the task is on its way.
    Returns the column of that cause, of each batch.
    """
    columns = np.full(len(every["rank"]), _COLUMN["unknown"])
    workers = {name: trace.workers[name].to_numpy() for name in (*WHOSE, "started_s")}
    started = where(workers, ~np.isnan(workers["started_s"]))
    of_batch, of_process = codes(WHOSE, every, started)
    columns[np.isin(of_batch, of_process)] = _COLUMN["handover"]
    first, again = first_of_each(workers, every, "started_s")
    columns[first] = np.where(again, _COLUMN["restart"], _COLUMN["start"])
    return columns


@dataclass(frozen=True)
class _Day:
    """One worker, one epoch: how many seconds until each moment went into which cause."""

    moments: Floats
    so_far: Floats  # (len(moments), len(CAUSES))

    @classmethod
    def of(cls, columns: dict[str, Any], rows: Any, reading: Reading) -> _Day:
        started_s = columns["started_s"][rows]
        rows = rows[~np.isnan(started_s)]
        rows = rows[np.argsort(columns["started_s"][rows], kind="stable")]
        n = len(rows)
        if not n:  # nobody knows what it did
            return cls(np.zeros(1), np.zeros((1, len(CAUSES))))
        started_s = columns["started_s"][rows]
        ready_s = np.maximum(columns["ready_s"][rows], started_s)
        collate_s = np.clip(columns["collate_s"][rows], started_s, ready_s)
        collate_s = np.where(np.isnan(collate_s), ready_s, collate_s)
        before_s = np.append(started_s[:1], np.maximum.accumulate(ready_s[:-1]))[:n]
        before_s = np.where(np.isnan(before_s), started_s, np.minimum(before_s, started_s))
        asked_s = np.clip(columns["dispatched_s"][rows], before_s, started_s)
        asked_s = np.where(np.isnan(asked_s), before_s, asked_s)
        # Before each task, in turn: it is not asked for; it is on its way; it is read; collated.
        moments = np.stack([before_s, asked_s, started_s, collate_s, ready_s], axis=1)
        moments = np.maximum.accumulate(np.nan_to_num(moments, nan=-np.inf).ravel())
        rates = np.zeros((n, 5, len(CAUSES)))  # of each stretch that begins at a moment
        rates[:, 0, _COLUMN["prefetch"]] = 1
        rates[:, 1, _COLUMN["handover"]] = 1
        rates[:, 2] = _reading_rates(reading, rows)
        rates[:, 3, _COLUMN["collate"]] = 1
        rates = rates.reshape(-1, len(CAUSES))[:-1]
        spent = np.diff(moments)[:, None] * rates
        so_far = np.concatenate([np.zeros((1, len(CAUSES))), np.cumsum(spent, axis=0)])
        early = np.zeros((1, len(CAUSES)))
        early[0, columns["before"][rows[0]]] = -EARLY_S
        return cls(
            np.append(moments[:1] - EARLY_S, moments), np.concatenate([so_far[:1] + early, so_far])
        )

    def between(self, start_s: Floats, end_s: Floats) -> Floats:
        """Seconds by cause of each stretch."""
        return np.maximum(self._until(end_s) - self._until(start_s), 0.0)

    def _until(self, at_s: Floats) -> Floats:
        place = np.clip(np.searchsorted(self.moments, at_s, "right") - 1, 0, len(self.moments) - 1)
        following = np.minimum(place + 1, len(self.moments) - 1)
        length_s = self.moments[following] - self.moments[place]
        part = np.divide(
            at_s - self.moments[place], length_s, out=np.zeros_like(at_s), where=length_s > 0
        )
        part = np.clip(part, 0.0, 1.0)[:, None]
        return np.asarray(self.so_far[place] * (1 - part) + self.so_far[following] * part)


def _reading_rates(reading: Reading, rows: Any) -> Floats:
    """What reading the samples of these batches is due to: (len(rows), len(CAUSES)), 1 a row."""
    rates = np.zeros((len(rows), len(CAUSES)))
    for cause, parts in reading.by_cause.items():
        rates[:, _COLUMN[cause]] = parts[rows]
    rates[:, _COLUMN["workers"]] = np.maximum(1 - rates.sum(axis=1), 0.0)
    return rates


def _runs(numbers: Any) -> Iterator[slice]:
    """The stretches of equal numbers that follow one another."""
    if len(numbers):
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        yield from itertools.starmap(slice, itertools.pairwise(bounds))
