"""What a loader's training keeps up: what its loop takes, and what its workers make, at pace.

Two rates decide. *Demand* is what the loop takes where it never waits: steps at pace. *Supply* is
what the workers make where nobody holds them up: reading at pace. During a start, a warm-up or a
pause the workers go on, and the loop then runs on what lies ready: such batches tell how long it
took to read them, and nothing of whether the loader keeps up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.why.epoch_projection import AGAIN, ProjectedEpoch, apart, project
from loaderviz.why.level_changes import stands_out
from loaderviz.why.loop_series import LoopSeries, loop_series
from loaderviz.why.phases import ALIKE, FEWEST, PACE, PAUSE, Change, phase_of_batches
from loaderviz.why.resampled_ratio import FEWEST_BLOCKS, Range, ratio, ratio_range

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

MOST_MORE: Final = 10_000  # batches that anybody is asked to record


@dataclass(frozen=True)
class Pace:
    """One loader of one rank at its pace. Times are in seconds, shares 0 to 1, NaN: not known.

    Ranges are those of the 95 % interval of a block bootstrap.

    Attributes:
        rank, loader: its numbers in the tables.
        workers: that made its batches; 0 where the main process did, or nobody knows.
        n_batches: at pace, pauses included; 0 where there is no steady state.
        batch_size: samples in a batch at pace.
        step_s: what the loop takes for a batch, from its delivery to the next request; without
            pauses.
        read_s: what making a batch takes its worker.
        demand: samples/s that the loop takes where it never waits: ``batch_size / step_s``.
        supply: samples/s that the workers make where nobody holds them up: ``workers * batch_size
            / read_s``, and no more than the CPUs allow. Without workers that of the main process.
        cpu_supply: samples/s that all CPUs could make, as far as their work was measured.
        waited_share: of the time at pace, what the loop waits; pauses left out.
        waited_is_measured: whether that was seen, on batches that nothing had been made ahead for;
            otherwise it follows from supply and demand.
        pause_s: what a pause takes more than a step; 0 where there is none.
        batches_per_pause: how many batches one comes in; infinite where none was seen, and where
            one was seen once, so that nobody knows whether it comes again.
        changes: levels that did not last, and drifts.
        more_batches: how many more have to be recorded for a verdict; 0: this is enough.
        epoch: a whole epoch at this pace; None without a pace.
        whole_epoch: whether a whole epoch was recorded, as far as anybody knows how long one is.
        from_batch: the first one of the pace, counted from the first that was delivered.
        keeps_workers: whether the loader keeps them for its next epoch; one that is made anew does
            not.
        rows, steps_s: of the batches at pace, without pauses, in order of delivery: the position in
            ``Trace.batches``, and the step; NaN where the loop has it still.
        settled_rows: of those that tell what the loop waits.
        first_rows: of the first batch of each epoch.
    """

    rank: int
    loader: int
    workers: int
    n_batches: int
    batch_size: float
    step_s: float
    step_range_s: Range
    read_s: float
    read_range_s: Range
    demand: float
    supply: float
    cpu_supply: float
    waited_share: float
    waited_is_measured: bool
    pause_s: float
    batches_per_pause: float
    changes: tuple[Change, ...]
    more_batches: int
    epoch: ProjectedEpoch | None
    whole_epoch: bool = True
    from_batch: int = 0
    keeps_workers: bool = False
    rows: Any = field(default=(), repr=False, compare=False)
    steps_s: Any = field(default=(), repr=False, compare=False)
    settled_rows: Any = field(default=(), repr=False, compare=False)
    first_rows: Any = field(default=(), repr=False, compare=False)

    @property
    def is_steady(self) -> bool:
        """Whether there is a pace."""
        return self.n_batches > 0

    @property
    def is_enough(self) -> bool:
        """Whether the recording tells if the loader keeps up."""
        return self.is_steady and not self.more_batches

    @property
    def batch_s(self) -> float:
        """What a batch takes the loop at pace, waits included, pauses left out."""
        if self.waited_share >= 1:
            return self.read_s / max(1, self.workers)
        return self.step_s / (1 - self.waited_share)

    @property
    def epoch_waited_share(self) -> float:
        """Of a whole epoch, with its start and pauses, what the loop waits."""
        if self.epoch is None or not self.epoch.seconds > 0:
            return self.waited_share
        return self.epoch.waited_s / self.epoch.seconds

    @property
    def fewest_workers(self) -> int:
        """The fewest workers that may make what the loop takes, by the ranges; 0: nobody knows."""
        read_s, step_s = self.read_range_s[0], self.step_range_s[1]
        if self.cpu_supply < self.demand or not read_s * step_s > 0:
            return 0
        return math.ceil(read_s / step_s)

    @property
    def accelerator_utilisation(self) -> float:
        """AU, as MLPerf Storage and DLIO define it: time in steps / time, ends left out.

        (DLIO, dlio_benchmark/utils/statscounter.py, ``compute_metrics_train``, which leaves out a
        fixed number of steps at both ends; MLPerf Storage asks for 90 % where models take images.)
        A step is all that the loop does with a batch, on the CPU or on a device.
        """
        return 1 - self.waited_share


def paces(trace: Trace) -> tuple[Pace, ...]:
    """The pace of each loader of each rank, in that order."""
    return tuple(pace_of(series, trace.meta) for series in loop_series(trace))


def pace_of(series: LoopSeries, meta: Mapping[str, Any]) -> Pace:
    """The pace of one loader of one rank; ``meta`` says how many CPUs there are."""
    found = phase_of_batches(series)
    phase, rows = found.phase, series.rows
    burst = max(1, series.workers)
    at_pace, pauses = phase == PACE, np.flatnonzero(phase == PAUSE)
    stepped = at_pace & ~np.isnan(series.step_s)
    read = np.isin(phase, (PACE, PAUSE)) & ~np.isnan(series.read_s)
    read &= ~_seen_once(series.read_s, read)
    others = read & ~_firsts(series)
    read = others if others.sum() >= max(FEWEST, FEWEST_BLOCKS * burst) else read
    n_samples = np.maximum(rows["n_samples"], 1).astype(float)
    step = series.step_s[stepped], n_samples[stepped]
    reading = series.read_s[read], n_samples[read]
    batch_size = float(np.median(n_samples[at_pace])) if at_pace.any() else math.nan
    step_s, read_s = (batch_size * ratio(*each) for each in (step, reading))
    step_range, read_range = (
        _scaled(ratio_range(*each, burst), batch_size) for each in (step, reading)
    )
    demand, making = _per_s(batch_size, step_s), _per_s(batch_size, read_s)
    cpu_supply = _cpu_supply(rows, read, meta)
    supply = float(np.fmin(making * burst, cpu_supply)) if making > 0 else math.nan
    # Without workers, reading and steps take turns.
    keeps_up = series.workers > 0 and not supply < demand
    settled = _settled(series, phase, keeps_up)
    measured = bool(settled.sum() >= max(FEWEST, 2 * burst))
    if measured:
        wait_s, all_s = series.wait_s[settled], (series.wait_s + series.step_s)[settled]
        waited = ratio(wait_s, all_s)
    else:
        waited = _waited_by_rates(series.workers, step_s, read_s, supply, demand)
    long_s = series.step_s[pauses] - step_s
    return Pace(
        rank=series.rank,
        loader=series.loader,
        workers=series.workers,
        n_batches=int(at_pace.sum() + len(pauses)),
        batch_size=batch_size,
        step_s=step_s,
        step_range_s=step_range,
        read_s=read_s,
        read_range_s=read_range,
        demand=demand,
        supply=supply,
        cpu_supply=cpu_supply,
        waited_share=waited,
        waited_is_measured=measured,
        pause_s=float(np.mean(long_s)) if len(pauses) else 0.0,
        batches_per_pause=apart(pauses) if len(pauses) >= AGAIN else math.inf,
        changes=found.changes,
        more_batches=_more_batches(series, phase, step_range, read_range, measured, keeps_up),
        epoch=project(series, phase, settled if measured else None, step_s, waited),
        whole_epoch=_whole_epoch(series),
        from_batch=int(np.argmax(at_pace)),
        keeps_workers=bool(series.about.get("persistent_workers")) and series.anew.sum() <= 1,
        rows=rows["row"][at_pace],
        steps_s=series.step_s[at_pace],
        settled_rows=rows["row"][settled],
        first_rows=rows["row"][series.first],
    )


def _per_s(n: float, seconds: float) -> float:
    return n / seconds if seconds > 0 else (math.nan if math.isnan(seconds) else math.inf)


def _scaled(of: Range, factor: float) -> Range:
    return of[0] * factor, of[1] * factor


def _whole_epoch(series: LoopSeries) -> bool:
    known = series.about.get("n_batches")
    return known is None or int(np.bincount(np.cumsum(series.first)).max()) >= known


def _firsts(series: LoopSeries) -> Any:
    """Which batches are the first that their workers made for an epoch: those may set up more."""
    of_epoch = np.cumsum(series.first)
    place = np.arange(len(of_epoch)) - np.flatnonzero(series.first)[of_epoch - 1]
    return place < series.workers


def _seen_once(values: Any, among: Any) -> Any:
    """The one value that stands out, if it is the only one: nobody knows if it comes again."""
    long = among & stands_out(values, values[among])
    return long if long.sum() == 1 else np.zeros(len(values), bool)


def _cpu_supply(rows: Mapping[str, Any], read: Any, meta: Mapping[str, Any]) -> float:
    """Samples/s that all CPUs make of what making a batch takes of them; NaN: not measured."""
    cpus = meta.get("cpu_allowance")
    cpu_s = np.fmax(rows["cpu_s"], rows["process_cpu_s"])[read]
    known = ~np.isnan(cpu_s)
    if not cpus or not known.any() or not cpu_s[known].sum() > 0:
        return math.nan
    return float(cpus * rows["n_samples"][read][known].sum() / cpu_s[known].sum())


def _settled(series: LoopSeries, phase: Any, keeps_up: bool) -> Any:
    """Which batches at pace tell what the loop waits: none that was made ahead in a start or pause.

    Where the workers keep up, those are the batches that lay ready when the loop went on. Where
    they do not, the queue goes on to be eaten up after that, until the loop first waits for a
    batch that is being made.
    """
    rows, settled = series.rows, phase == PACE
    ready, asked = rows["ready_s"], rows["requested_s"]
    held_up_until, draining = -math.inf, False
    for i in range(len(settled)):
        if series.first[i]:
            held_up_until, draining = rows["delivered_s"][i], series.workers > 0
            settled[i] = False
            continue
        if i and phase[i - 1] != PACE:
            held_up_until, draining = asked[i], series.workers > 0
        if draining:
            draining = bool(ready[i] <= (held_up_until if keeps_up else asked[i]))
            settled[i] &= not draining
    return settled & ~np.isnan(series.step_s)


def _waited_by_rates(
    workers: int, step_s: float, read_s: float, supply: float, demand: float
) -> float:
    if not workers:
        return read_s / (read_s + step_s) if read_s + step_s > 0 else math.nan
    return max(0.0, 1 - supply / demand) if demand > 0 else math.nan


def _more_batches(
    series: LoopSeries,
    phase: Any,
    step_range: Range,
    read_range: Range,
    measured: bool,
    keeps_up: bool,
) -> int:
    """How many more would tell whether the loader keeps up; 0: it is known.

    It is known where supply and demand are apart, or are known to be as good as equal.
    """
    n = int(np.isin(phase, (PACE, PAUSE)).sum())
    prefetch = int(series.about.get("prefetch_factor") or 2) * series.workers
    if not n:
        return max(len(series) // 2, 2 * FEWEST + prefetch)
    # What lay ready in the beginning has to be taken first, to see that workers keep up.
    wanted = 0 if measured or not keeps_up else prefetch + max(FEWEST, 2 * series.workers)
    if series.workers:
        with np.errstate(divide="ignore", invalid="ignore"):
            need = np.log(np.array(read_range) / series.workers / np.array(step_range)[::-1])
        if not np.isfinite(need).all():
            # A step, or reading, of no time at all is known to be the quicker one.
            known = step_range[1] == 0 or read_range[1] == 0
            wanted = max(wanted, 0 if known else n + 2 * FEWEST)
        elif need[0] <= 0 <= need[1]:
            # A range narrows with the square root of what it rests on.
            off = max(abs(need.mean()), math.log(1 + ALIKE))
            wanted = max(wanted, math.ceil(n * ((need[1] - need[0]) / 2 / off) ** 2))
    return min(max(wanted - n, 0), MOST_MORE)
