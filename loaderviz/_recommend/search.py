"""The search for the best settings by real runs: a sweep, the best longer, the last two in turns.

Successive halving (Karnin, Koren and Somekh, Almost Optimal Exploration in Multi-Armed Bandits,
2013) with a rule that prefers the cheaper of two that are as good. It knows nothing of loaders: it
is given a function that runs a setting, and a clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from loaderviz._recommend.measured_run import Run
from loaderviz._recommend.recommendation import WORTH
from loaderviz._recommend.settings_to_try import (
    beside,
    cheapness,
    for_uneven_batches,
    in_this_order,
    plain,
)
from loaderviz.loader_settings import LoaderSettings

Measure = Callable[[LoaderSettings, float, int], Run]

SHARE: Final = 1 / 60  # of the budget: a first run, half a second of thirty
LONGER: Final = 2.0  # times a first run: the later ones
SWEEP_SHARE: Final = 0.5  # of the budget that first runs may take
# Parts of the time of a batch: a smaller difference is none. Two such steps stay within 0.97.
EQUAL: Final = 0.015
NEAR: Final = 0.1  # that a first run may be off (EQUAL of pyperf's calibration, too)
FAR: Final = 2.0  # times the best: what a burst of other work costs a run on half of the CPUs
# Of two settings, in which each runs once: by two differences nothing is told apart (``T_95``), and
# errors shrink with the root of their number alone.
LEAST_TURNS, MOST_TURNS = 3, 8
# Student's t of 95 %, by how many turns there were (any table of it).
T_95: Final = {2: 12.7, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}


@dataclass(frozen=True)
class Question:
    """What is to be found.

    Attributes:
        first: settings to begin with; the first of them is the answer where none can be run.
        present: today's.
        needed: workers that are expected to do.
        most: workers to try.
        uneven: whether batches are so uneven that other options than workers matter.
        starts: how often workers start for each batch of the training, 0 where nobody knows.
        fits: whether there is memory for a setting.
    """

    first: Sequence[LoaderSettings]
    present: LoaderSettings
    needed: int
    most: int
    uneven: bool = False
    starts: float = 0.0
    fits: Callable[[LoaderSettings], bool] = lambda setting: True


@dataclass
class Found:
    """What was found.

    Attributes:
        question: what was to be found.
        best: the setting; the first to begin with, where nothing could be run.
        runs: of each setting that was run.
        too_short: whether there was no time to try a setting, or to tell the last two apart.
        unsettled: whether noise hides what any other setting gains: ``best`` is today's then.
    """

    question: Question
    best: LoaderSettings
    runs: dict[LoaderSettings, list[Run]] = field(default_factory=dict)
    too_short: bool = False
    unsettled: bool = False

    def pace_s(self, setting: LoaderSettings) -> float:
        """Seconds a batch, the start of workers left out: the mean of all its runs.

        Weighted by batches; infinite where a worker was killed, or nothing came.
        """
        runs = self.runs.get(setting, [])
        if not runs or any(math.isinf(run.pace_s) for run in runs):
            return math.inf
        weights = [max(run.n_batches, 1) for run in runs]
        return float(np.average([run.pace_s for run in runs], weights=weights))

    def batch_s(self, setting: LoaderSettings) -> float:
        """Seconds a batch, with its part of the start of workers; infinite as in ``pace_s``."""
        pace_s = self.pace_s(setting)
        if math.isinf(pace_s):
            return math.inf
        return pace_s + self.question.starts * self.start_s(setting)

    def start_s(self, setting: LoaderSettings) -> float:
        """Seconds that its workers take to start: the mean of all its runs."""
        return float(np.mean([run.start_s for run in self.runs[setting]]))

    def wait_share(self, setting: LoaderSettings) -> float:
        """The part of its time that the loop waits, the start of workers left out; NaN: not run.

        1 where no batch came.
        """
        runs = self.runs.get(setting, [])
        if not runs:
            return math.nan
        pace_s, step_s = self.pace_s(setting), float(np.mean([run.step_s for run in runs]))
        return max(0.0, 1 - step_s / pace_s) if pace_s > 0 else 0.0

    def keeps_up(self, setting: LoaderSettings) -> bool:
        """Whether the loop hardly waits for a batch to be made: more workers gain nothing.

        It may wait for one that lies ready to be handed over. Of uneven batches that lie ready the
        next one may be missing.
        """
        runs = self.runs.get(setting, [])
        kept_up = bool(runs) and float(np.mean([run.kept_up for run in runs])) > 0.5  # most did
        return (kept_up and not self.question.uneven) or self.wait_share(setting) <= EQUAL

    def error(self, setting: LoaderSettings) -> float:
        """Two standard errors of ``batch_s``, as a part of it; NaN where that is not known.

        By what differs more than it should: the parts of its runs, or its runs.
        """
        runs = self.runs.get(setting, [])
        parts = [part for run in runs for part in run.parts_s]
        errors = [
            2 * float(np.std(each, ddof=1) / math.sqrt(len(each)) / np.mean(each))
            for each in (parts, [run.pace_s for run in runs])
            if len(each) > 1 and math.isfinite(sum(each)) and sum(each) > 0
        ]
        return max(errors, default=math.nan)


class Search:
    """Runs settings until it is known which to use, or the budget is spent."""

    def __init__(
        self,
        question: Question,
        measure: Measure,
        *,
        budget_s: float,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._question, self._measure = question, measure
        self._deadline, self._clock = deadline, clock
        self._run_s = SHARE * budget_s
        self._start_s = 0.0  # of a worker, as far as it was seen
        self._longer = 1.0  # times as long as asked for: what a run takes beside starting
        self._skipped: set[LoaderSettings] = set()  # for lack of time
        self._told_apart: list[set[LoaderSettings]] = []  # pairs, in turns
        self.found = Found(question, question.first[0])

    def run(self) -> Found:
        """The cheapest setting of those that are as good as the fastest."""
        self._sweep()
        self._refine()
        self._decide()
        self._keep_todays_in_noise()
        self.found.too_short |= not self._skipped <= {*self.found.runs}
        return self.found

    def _sweep(self) -> None:
        """Run each once, from the cheapest on; more workers than keep up are not needed."""
        settings = self._affordable([each for each in self._question.first if self._allowed(each)])
        enough: LoaderSettings | None = None
        for setting in sorted(settings, key=cheapness):
            if enough is not None and cheapness(setting) > cheapness(enough):
                continue
            self._try(setting, self._run_s)
            if enough is None and self.found.keeps_up(setting):
                enough = setting

    def _affordable(self, settings: list[LoaderSettings]) -> list[LoaderSettings]:
        """Those that there is time for beside the first, by how long that one took."""
        if not settings:
            return []
        self._try(settings[0], self._run_s)
        left_s = SWEEP_SHARE * (self._deadline - self._clock())
        kept = in_this_order(settings, self._question.needed)[1:]
        while len(kept) > 1 and sum(map(self._expected_s, kept)) > left_s:
            self._skipped.add(kept.pop())
        return kept

    def _refine(self) -> None:
        """Run the near ones again, what is beside the best one, and the best third longer."""
        self._repeat()
        for _ in range(2):  # the second time, beside what was beside it
            if not (ranked := self._ranked()):
                return
            best = min(ranked, key=self.found.batch_s)
            tried = [each.num_workers for each in self.found.runs]
            for n in beside(best.num_workers, tried, self._question.most):
                if n < best.num_workers or not self.found.keeps_up(best):
                    self._try(plain(n, self._question.present), self._run_s)
        if self._question.uneven:
            ranked = self._ranked()
            bases = {min(ranked, key=self.found.batch_s), ranked[0]}
            others = {each for base in bases for each in for_uneven_batches(base)}
            for setting in sorted(others - {*self.found.runs}, key=cheapness):
                self._try(setting, LONGER * self._run_s)
        ranked = self._ranked()
        for setting in ranked[: max(2, math.ceil(len(self.found.runs) / 3))]:
            self._try(setting, LONGER * self._run_s)

    def _repeat(self) -> None:
        """Run again what is not far behind: other work on the machine may have met its only run.

        If it did, the two runs differ, and the setting stays among those that may be the best.
        """
        batch_s = self.found.batch_s
        best_s = min(map(batch_s, self.found.runs), default=math.inf)
        behind = [each for each in self.found.runs if batch_s(each) <= FAR * best_s]
        for setting in sorted(behind, key=cheapness):
            if len(self.found.runs[setting]) == 1:
                self._try(setting, self._run_s)

    def _decide(self) -> None:
        """The cheapest that the fastest does not beat, in turns; out of order if that gains."""
        pool = [each for each in self.found.runs if math.isfinite(self.found.batch_s(each))]
        # Today's run, too, where they are more than may be tried, but for comparison.
        pool = [each for each in pool if each.num_workers <= self._question.most] or pool
        if not pool:
            return
        in_order = [each for each in pool if each.in_order] or pool
        best = self._cheapest_as_good(in_order)
        others = [each for each in pool if not each.in_order]
        fastest = min(others, key=self.found.batch_s, default=best)
        if fastest != best and self._gain(best, fastest) > 0:
            best = self._better(best, fastest, WORTH)
        self.found.best = best

    def _keep_todays_in_noise(self) -> None:
        """Nothing is changed for a difference that is noise, where noise is more than usual."""
        best, present = self.found.best, self._question.present
        if {best, present} in self._told_apart or present.num_workers > self._question.most:
            return
        if not math.isfinite(self.found.batch_s(best) + self.found.batch_s(present)):
            return
        unsure = self._unsure(best, present)
        if best == present or unsure <= NEAR or abs(self._gain(present, best)) > unsure:
            return
        cheaper, dearer = sorted((best, present), key=cheapness)
        better = self._better(cheaper, dearer, EQUAL)
        self.found.unsettled = {best, present} not in self._told_apart
        self.found.best = present if self.found.unsettled else better

    def _cheapest_as_good(self, pool: Iterable[LoaderSettings]) -> LoaderSettings:
        pool = sorted(pool, key=cheapness)
        fastest = min(pool, key=self.found.batch_s)
        for cheaper in pool:
            if cheaper == fastest or cheapness(cheaper) > cheapness(fastest):
                break
            if self._gain(cheaper, fastest) > EQUAL + self._unsure(cheaper, fastest):
                continue
            if self._better(cheaper, fastest, EQUAL) == cheaper:
                return cheaper
        return fastest

    def _unsure(self, one: LoaderSettings, other: LoaderSettings) -> float:
        """How far the gain of one over the other may be off, by the runs so far.

        Of a setting whose own error is not known: as far as any, and no less than a first run.
        """
        known = [e for e in map(self.found.error, self.found.runs) if not math.isnan(e)]
        errors = map(self.found.error, (one, other))
        return math.hypot(*(max([NEAR, *known]) if math.isnan(e) else e for e in errors))

    def _better(
        self, cheaper: LoaderSettings, faster: LoaderSettings, worth: float
    ) -> LoaderSettings:
        """Which of two, run in turns until it is known whether the faster one is worth it."""
        gains: list[float] = []
        run_s = LONGER * self._run_s
        while len(gains) < MOST_TURNS and self._has_time(cheaper, faster):
            n_batches = math.ceil(run_s / self.found.batch_s(faster))
            turn = (cheaper, faster) if len(gains) % 2 else (faster, cheaper)
            runs = {each: self._run(each, run_s, n_batches) for each in turn}
            paces = [
                runs[each].pace_s + self._question.starts * self.found.start_s(each)
                for each in (cheaper, faster)
            ]
            if not all(map(math.isfinite, paces)):
                self._told_apart.append({cheaper, faster})
                return faster if math.isfinite(paces[1]) else cheaper
            gains.append(math.log(paces[0] / paces[1]))
            if len(gains) >= LEAST_TURNS and abs(np.mean(gains) - worth) > _error(gains):
                self._told_apart.append({cheaper, faster})
                return faster if np.mean(gains) > worth else cheaper
        gain = float(np.mean(gains)) if gains else self._gain(cheaper, faster)
        unsure = _error(gains) if len(gains) > 1 else self._unsure(cheaper, faster)
        if unsure > WORTH and len(gains) < MOST_TURNS:
            self.found.too_short = True
        return faster if gain > max(worth, unsure if unsure > NEAR else 0.0) else cheaper

    def _ranked(self) -> list[LoaderSettings]:
        """The settings in order of merit: the near ones, cheapest first, then by their speed.

        The fastest is among the first two, so that it is run longer in any case.
        """
        batch_s = self.found.batch_s
        pool = [each for each in self.found.runs if math.isfinite(batch_s(each))]
        if not pool:
            return []
        fastest = min(pool, key=batch_s)
        near = [each for each in pool if batch_s(each) <= (1 + NEAR) * batch_s(fastest)]
        cheapest = min(near, key=cheapness)
        others = [*sorted(near, key=cheapness), *sorted(pool, key=batch_s)]
        return [*dict.fromkeys([cheapest, fastest, *others])]

    def _gain(self, slower: LoaderSettings, faster: LoaderSettings) -> float:
        return math.log(self.found.batch_s(slower) / self.found.batch_s(faster))

    def _allowed(self, setting: LoaderSettings) -> bool:
        few = setting.num_workers <= self._question.most or setting == self._question.present
        return few and self._question.fits(setting)

    def _expected_s(self, setting: LoaderSettings, seconds: float | None = None) -> float:
        return self._longer * (seconds or self._run_s) + self._start_s * setting.num_workers

    def _has_time(self, *settings: LoaderSettings) -> bool:
        seconds = sum(self._expected_s(each, LONGER * self._run_s) for each in settings)
        return self._clock() + seconds <= self._deadline

    def _try(self, setting: LoaderSettings, seconds: float) -> None:
        """Run it, if it may be and there is time; a setting that was killed is not run again."""
        known = self.found.runs.get(setting, [])
        if any(run.died for run in known) or not self._allowed(setting):
            return
        if self._clock() + self._expected_s(setting, seconds) > self._deadline and self.found.runs:
            self._skipped.add(setting)
            return
        self._run(setting, seconds, 0)

    def _run(self, setting: LoaderSettings, seconds: float, n_batches: int) -> Run:
        begun = self._clock()
        run = self._measure(setting, seconds, n_batches)
        self._start_s = max(self._start_s, run.start_s / max(1, setting.num_workers))
        self._longer = max(self._longer, (self._clock() - begun - run.start_s) / seconds)
        self.found.runs.setdefault(setting, []).append(run)
        return run


def _error(gains: Sequence[float]) -> float:
    """Half of the 95 % interval of a mean."""
    n = len(gains)
    return T_95[min(n, max(T_95))] * float(np.std(gains, ddof=1)) / math.sqrt(n)
