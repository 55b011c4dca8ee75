"""What a loop would save without a cause: replayed with it and without it.

Of the recorded loop, and of a whole epoch at its pace; nothing is simulated by a model of costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.why.attribution import CAUSES
from loaderviz.why.recorded_loop import epoch_at_pace, recorded_loop
from loaderviz.why.replay import Epoch, Event, Loop
from loaderviz.why.unlike_workers import slow_worker
from loaderviz.why.verdict import NEVER_WAITS

if TYPE_CHECKING:
    from loaderviz.array_types import Floats
    from loaderviz.trace import Trace
    from loaderviz.why.attribution import Attribution
    from loaderviz.why.pace import Pace
    from loaderviz.why.reading_time import Reading

# Of the run: where a replay of it as it was is as far off, nothing is said of what a cut saves.
OFF: Final = 0.1
DEEP: Final = 4  # times the batches that are asked for ahead
LEAST_MOST: Final = 16  # workers: those that wait for a disk or a network may outnumber the CPUs
AFTER: Final = ("handover", "pin", "sampler")  # once a batch is made
MAKING: Final = ("cpu", "throttled", "slow_samples", "drift", "start", "restart", "collate")
UNKNOWN: Final = ("unknown", "copy")
MORE: Final = 1.25  # times as many workers are tried next
# To hand over a small batch that lies ready, where a loop without workers does not tell: measured
# with torch 2.13 on Linux 6.18 (``TYPICAL_HANDOVER`` of the simulator).
HANDED_S: Final = 9e-4
SELDOM: Final = 0.5  # of the batches: where more is not known nothing follows


@dataclass(frozen=True)
class Replays:
    """The loop of a recording, to be replayed without one cause of one of its loaders.

    Attributes:
        trace: the recording.
        attribution: of all its waits.
        reading: of its batches.
        recorded: its loop, of the first rank.
        is_alike: whether a replay of it takes as long as it did.
    """

    trace: Trace
    attribution: Attribution
    reading: Reading
    recorded: Loop
    recorded_s: float
    is_alike: bool

    @classmethod
    def of(cls, trace: Trace, attribution: Attribution, reading: Reading) -> Replays:
        """Of what a recording holds, with the causes that its waiting has."""
        loop = recorded_loop(trace, attribution)
        replayed_s = loop.elapsed_s()
        alike = abs(replayed_s - loop.recorded_s) <= OFF * loop.recorded_s
        return cls(trace, attribution, reading, loop, replayed_s, alike)

    def scale(self, own: Attribution, cause: str) -> float:
        """How many times the seconds of a cause are those of the loop that is replayed.

        ``own``: of one loader's waits. A long recording is not replayed to its end.
        """
        of_cause, replayed = own.of_cause(cause), own.end_s <= self.recorded.until_s
        first = own.rank == own.rank.min(initial=0)
        seen_s = of_cause[replayed & first].sum()
        return float(of_cause[first].sum() / seen_s) if seen_s > 0 else 1.0

    def saves(self, loader: int, cause: str, advised: int | None, scale: float) -> float:
        """Seconds by which the recorded loop would be shorter; NaN where nobody can tell."""
        if not self.is_alike:
            return math.nan
        return scale * self._saves(self.recorded, self.recorded_s, loader, cause, advised)

    def epoch(self, pace: Pace) -> tuple[Loop, float] | None:
        """A whole epoch of a loader at pace, and how long it takes."""
        loop = epoch_at_pace(self.recorded, pace) if self.is_alike else None
        return None if loop is None else (loop, loop.elapsed_s())

    def epoch_saves(
        self, epoch: tuple[Loop, float] | None, pace: Pace | None, cause: str, advised: int | None
    ) -> float:
        """Seconds by which a whole epoch at pace would be shorter; NaN where nobody can tell."""
        if epoch is None or pace is None or pace.epoch is None:
            return math.nan
        loop, elapsed_s = epoch
        n = len(loop.epochs[pace.loader, 0].rows)
        scale = 1.0 if cause in ("start", "restart") else pace.epoch.n_batches / n
        return scale * self._saves(loop, elapsed_s, pace.loader, cause, advised)

    def shorter(self, epoch: tuple[Loop, float] | None, loader: int, parts: Floats) -> float:
        """The part of a whole epoch, else of the recorded loop, that less making would save.

        ``parts``: of the time that making a batch takes, for each of the trace. NaN where nobody
        can tell.
        """
        if not self.is_alike:
            return math.nan
        loop, as_is_s = epoch or (self.recorded, self.recorded_s)
        if as_is_s <= 0:
            return math.nan
        epochs = {
            key: replace(each, making_s=each.making_s * (1 - parts[each.rows]))
            if key[0] == loader
            else each
            for key, each in loop.epochs.items()
        }
        return max(0.0, 1 - replace(loop, epochs=epochs).elapsed_s() / as_is_s)

    def _saves(
        self, loop: Loop, as_is_s: float, loader: int, cause: str, advised: int | None
    ) -> float:
        if loader not in loop.workers or cause in UNKNOWN:
            return math.nan
        if cause in ("workers", "main_process"):
            if self._has_slow_worker(loader):
                return math.nan  # whether others would be as slow, nobody knows
            # As many workers: a stream in equal shares, which they may not have been.
            if cause == "workers":
                as_is_s = _with_workers(loop, loader, loop.workers[loader].n).elapsed_s()
            saved_s = as_is_s - self._with_workers_s(loop, loader, advised or 1)
            if cause == "main_process" and saved_s < NEVER_WAITS * as_is_s:
                return math.nan  # workers are not the cure: what is, no replay finds
            return max(0.0, saved_s)
        if cause == "uneven":
            cut = _with_workers(loop, loader, loop.workers[loader].n)
        elif cause == "prefetch":
            how = loop.workers[loader]
            deep = replace(how, prefetch_factor=DEEP * how.prefetch_factor)
            cut = replace(loop, workers={**loop.workers, loader: deep})
        elif (without := self._without(loop, loader, cause)) is not None:
            cut = without
        else:
            return math.nan
        return max(0.0, as_is_s - cut.elapsed_s())

    def _without(self, loop: Loop, loader: int, cause: str) -> Loop | None:
        making_s, handed_s = self._parts(cause)
        own = [key for key in loop.epochs if key[0] == loader]
        parts = np.concatenate([making_s[loop.epochs[key].rows] for key in own])
        if cause in MAKING and np.isnan(parts).mean() > SELDOM:
            return None
        events = [_shorter(event, loader, cause) for event in loop.events]
        due_s = {
            event.epoch: event.due_s[cause]
            for event in loop.events
            if event.begins and event.loader == loader and event.due_s.get(cause, 0.0) > 0
        }
        epochs = dict(loop.epochs)
        for key in own:
            epoch = epochs[key]
            boot_s: Mapping[int, float] = epoch.boot_s
            if cause == "restart" and key[1] in due_s:
                boot_s = {}
            elif cause == "start" and key[1] in due_s:
                boot_s = dict.fromkeys(boot_s, 0.0)
            elif cause == "sampler":  # keys are drawn before the first batches are asked for
                less_s = due_s.get(key[1], 0.0)
                boot_s = {each: max(0.0, up_s - less_s) for each, up_s in boot_s.items()}
            epochs[key] = replace(
                epoch,
                making_s=np.maximum(epoch.making_s - np.nan_to_num(making_s[epoch.rows]), 0.0),
                handed_s=np.maximum(epoch.handed_s - handed_s[epoch.rows], 0.0),
                lag_s=epoch.lag_s * (cause != "handover"),
                boot_s=boot_s,
            )
        return Loop(loop.workers, epochs, tuple(events))

    def _parts(self, cause: str) -> tuple[Any, Any]:
        """Of each batch, what the cause took its worker, and the loop when it was made."""
        batches = self.trace.batches
        making_s = np.zeros(len(batches))
        if cause == "collate":
            making_s = (batches["ready_s"] - batches["collate_s"]).to_numpy()
        elif cause in MAKING:
            read_s = (batches["collate_s"] - batches["started_s"]).to_numpy()
            making_s = self.reading.by_cause.get(cause, making_s) * read_s
        handed_s = np.zeros(len(batches))
        if cause in AFTER:
            of_batch = self.attribution.row >= 0
            handed_s[self.attribution.row[of_batch]] = self.attribution.of_cause(cause)[of_batch]
        return making_s, handed_s

    def _has_slow_worker(self, loader: int) -> bool:
        batches = self.trace.batches
        first = batches["rank"] == batches["rank"].min()
        return slow_worker(batches[first & (batches["loader"] == loader)]) is not None

    def _of_cpus_s(self, loop: Loop, loader: int) -> float:
        """Seconds that all CPUs need for what the workers compute; 0 where that is not known."""
        cpus = float(self.trace.meta.get("cpu_allowance") or math.inf)
        n_ranks = max(1, self.trace.batches["rank"].nunique())
        rows = np.concatenate([each.rows for key, each in loop.epochs.items() if key[0] == loader])
        batches = self.trace.batches.iloc[rows]
        return float(np.fmax(batches["cpu_s"], batches["process_cpu_s"]).sum()) * n_ranks / cpus

    def advised_workers(self, loader: int, pace: Pace | None) -> int | None:
        """The fewest workers of which no more would shorten an epoch, or the recorded loop, by 2 %.

        At least those that the pace asks for, as ``recommend`` does of a recording: one number.
        None where nobody can tell.
        """
        epoch = self.epoch(pace) if pace is not None else None
        loop = epoch[0] if epoch else self.recorded
        if loader not in loop.workers or not self.is_alike:
            return None
        now = loop.workers[loader].n
        most = self._most_workers(loop, loader, now)
        asked = pace.fewest_workers if pace is not None and pace.is_enough else 0
        tried = [max(now + 1, min(asked, most))]
        while tried[-1] < most:
            tried.append(math.ceil(tried[-1] * MORE))
        took_s = [self._with_workers_s(loop, loader, n) for n in tried]
        enough_s = min(took_s) * (1 + NEVER_WAITS)
        first = next(i for i, took in enumerate(took_s) if took <= enough_s)
        too_few = tried[first - 1] if first else tried[0] - 1
        between = range(too_few + 1, tried[first])
        does = (n for n in between if self._with_workers_s(loop, loader, n) <= enough_s)
        return next(does, tried[first])

    def _most_workers(self, loop: Loop, loader: int, now: int) -> int:
        """As many as make what the loop takes if it never waits, or as ``recommend`` would try."""
        own_s = sum(event.own_s for event in loop.events)
        made_s = sum(
            float(epoch.making_s.sum()) for key, epoch in loop.epochs.items() if key[0] == loader
        )
        cpus = float(self.trace.meta.get("cpu_allowance") or 1.0)
        most = max(most_workers(cpus), now + 1)
        return min(most, math.ceil(made_s / own_s) if own_s * most > made_s else most)

    def _with_workers_s(self, loop: Loop, loader: int, n: int) -> float:
        replayed_s = _with_workers(loop, loader, n).elapsed_s()
        return max(replayed_s, self._of_cpus_s(loop, loader))


def most_workers(cpus: float) -> int:
    """How many workers to think of at most: twice the CPUs, at least 16."""
    return max(LEAST_MOST, 2 * math.ceil(cpus))


def _shorter(event: Event, loader: int, cause: str) -> Event:
    if event.loader != loader or event.lasts_s is None:
        return event
    less_s = event.due_s.get(cause, 0.0)
    if cause == "restart" and less_s and not event.begins:
        less_s = event.lasts_s
    return replace(event, lasts_s=max(0.0, event.lasts_s - less_s))


def _with_workers(loop: Loop, loader: int, n: int) -> Loop:
    """As many workers, in turns, each of which starts as one of those recorded did.

    In place of none they hand batches over, which takes its time.
    """
    before = loop.workers[loader]
    workers = {**loop.workers, loader: replace(before, n=n)}
    epochs: dict[tuple[int, int], Epoch] = {}
    for key, epoch in loop.epochs.items():
        if key[0] != loader:
            epochs[key] = epoch
            continue
        boots = [*epoch.boot_s.values()]
        boot_s = {w: boots[w % len(boots)] for w in range(n)} if boots else {}
        turns = np.arange(len(epoch.rows)) % max(1, n)
        handed_s = epoch.handed_s if before.n else np.maximum(epoch.handed_s, HANDED_S)
        epochs[key] = replace(epoch, worker=turns, boot_s=boot_s, handed_s=handed_s)
    longer = n / before.n if before.n else 1.0
    events = tuple(
        replace(event, lasts_s=event.lasts_s * longer)
        if event.loader == loader and event.begins and event.lasts_s is not None
        else event
        for event in loop.events
    )
    return Loop(workers, epochs, events)


def epoch_seconds(pace: Pace, own: Attribution, reading: Reading, trace: Trace) -> dict[str, float]:
    """What a whole epoch at pace waits for, in seconds by cause; empty without a pace.

    ``own``: of this loader's waits, of its rank.
    """
    epoch = pace.epoch
    if epoch is None or math.isnan(epoch.waited_s):
        return {}
    around_s = epoch.start_s + epoch.end_s
    later_s = max(0.0, epoch.waited_s - around_s)
    at_pace = _shares(own.seconds[np.isin(own.row, pace.settled_rows)].sum(axis=0))
    if not pace.waited_is_measured or not at_pace.any():
        at_pace = _shares(_of_making(pace, reading, trace))
    begins = (own.row < 0) | np.isin(own.row, pace.first_rows)
    starting = own.seconds[begins].sum(axis=0)
    first, again = CAUSES.index("start"), CAUSES.index("restart")
    if starting[again] and not pace.keeps_workers:  # so begins each epoch but one
        starting[again] += starting[first]
        starting[first] = 0.0
    starting = _shares(starting)
    total = later_s * at_pace + around_s * starting
    return {cause: float(each) for cause, each in zip(CAUSES, total, strict=True) if each > 0}


def _shares(seconds: Any) -> Any:
    return seconds / seconds.sum() if seconds.sum() > 0 else np.zeros(len(CAUSES))


def _of_making(pace: Pace, reading: Reading, trace: Trace) -> Any:
    """Seconds by cause in which batches were made: what a loop waits for where that is slower."""
    seconds = np.zeros(len(CAUSES))
    batches = trace.batches.iloc[np.asarray(pace.rows, np.int64)]
    read_s = np.nan_to_num((batches["collate_s"] - batches["started_s"]).to_numpy())
    if not pace.workers:
        seconds[CAUSES.index("main_process")] = 1.0
        return seconds
    for cause, part in reading.by_cause.items():
        seconds[CAUSES.index(cause)] += (part[pace.rows] * read_s).sum()
    seconds[CAUSES.index("workers")] = max(0.0, read_s.sum() - seconds.sum())
    seconds[CAUSES.index("collate")] += np.nansum(batches["ready_s"] - batches["collate_s"])
    return seconds
