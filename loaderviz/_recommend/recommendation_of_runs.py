"""What a search has found, in words and as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import psutil

from loaderviz._recommend.look_at_loader import Look
from loaderviz._recommend.recommendation import (
    MOST_NOTES,
    WORTH,
    Recommendation,
    candidates_table,
    code_of,
)
from loaderviz._recommend.search import NEAR, Found, Question
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import count, duration, percent, rate

NOT_KNOWN: Final = "not known"
OTHERS: Final = "other processes"
BUSY: Final = 0.85  # of the CPUs: the last part of one goes into changing between processes
MOSTLY: Final = 0.5  # of the rounds, by definition: more often than not
LONGER: Final = 1.3  # times as long beside others as alone: more than runs of one setting differ


@dataclass(frozen=True)
class Request:
    """The arguments of ``recommend``."""

    step_s: float | None
    step: Callable[[Any], object] | None
    epochs: int | None
    n_batches: int | None
    max_workers: int | None
    budget_s: float


@dataclass(frozen=True)
class Outcome:
    """All that a recommendation is written from. ``cpus`` may be used; times are in seconds."""

    asked: Request
    look: Look
    found: Found
    step_s: float
    cpus: float
    took_s: float
    description: Mapping[str, Any]

    @property
    def best(self) -> LoaderSettings:
        """The recommended setting, as it was run: its workers did not persist."""
        return self.found.best

    @property
    def question(self) -> Question:
        """What was searched for."""
        return self.found.question

    @property
    def settings(self) -> LoaderSettings:
        """The recommended setting, with persistent workers where these gain enough."""
        restart_share = self.start_share * (1 - 1 / (self.asked.epochs or 1))
        keeps = self.question.present.persistent_workers or restart_share > WORTH
        return replace(self.best, persistent_workers=keeps and self.best.num_workers > 0)

    @property
    def start_share(self) -> float:
        """The part of an epoch in which its workers start; 0 where its length is not known."""
        n_batches = self.asked.n_batches or self.look.n_batches
        if n_batches is None or self.best not in self.found.runs:
            return 0.0
        start_s = self.found.start_s(self.best)
        epoch_s = start_s + n_batches * self.found.pace_s(self.best)
        return start_s / epoch_s if epoch_s > 0 and math.isfinite(epoch_s) else 0.0

    @property
    def unsure(self) -> bool:
        """Whether others were left out, and this one's runs differ more than first runs should."""
        return (
            self.found.too_short and not self.found.error(self.best) <= NEAR
        )  # or it is not known

    @property
    def keeps_busy(self) -> bool:
        """Whether the loop has steps, and hardly waits for a batch to be made."""
        hardly_waits = self.found.wait_share(self.best) <= WORTH
        return self.step_s > 0 and (hardly_waits or self.found.keeps_up(self.best))

    @property
    def computes(self) -> bool:
        """Whether a worker computes more than it waits, when it is not in line for a CPU."""
        trace = self.look.trace
        queued_s = math.nan if trace is None else float(trace.batches["queued_s"].mean())
        alone_s = self.look.read_s - (0.0 if math.isnan(queued_s) else queued_s)
        return self.look.cpu_s >= alone_s / 2

    def samples_per_s(self, setting: LoaderSettings) -> float:
        """Different samples a second; 0 where a worker died, NaN where it was not run."""
        if setting not in self.found.runs:
            return math.nan
        batch_s = self.found.batch_s(setting)
        return self.look.batch_size / batch_s if batch_s > 0 else math.inf

    def mean_of_runs(self, setting: LoaderSettings, name: str = "cpus") -> float:
        """Of an attribute of ``Run``, the mean of its runs; NaN where it is not known."""
        known = [getattr(run, name) for run in self.found.runs.get(setting, [])]
        known = [each for each in known if not math.isnan(each)]
        return float(np.mean(known)) if known else math.nan


def recommendation_of(outcome: Outcome) -> Recommendation:
    """The recommendation with its words and its table."""
    settings, sizes = outcome.settings, outcome.look.sizes
    step_s = outcome.step_s
    return Recommendation(
        settings=settings.options(),
        code=code_of(settings, outcome.description),
        verdict=_verdict(outcome),
        limits=_limits(outcome),
        notes=tuple(_notes(outcome))[:MOST_NOTES],
        numbers=_numbers(outcome),
        memory_bytes=sizes.memory_bytes(settings),
        shm_bytes=sizes.shm_bytes(settings),
        measured=True,
        demand_per_s=outcome.look.batch_size / step_s if step_s > 0 else math.inf,
        candidates=candidates_table(_candidates(outcome), sizes, best="samples_per_s"),
        cpu_allowance=outcome.cpus,
        trace=outcome.look.trace,
    )


def _verdict(outcome: Outcome) -> str:
    best, present = outcome.best, _as_run(outcome.question.present)
    workers = count(best.num_workers, "worker") if best.num_workers else "num_workers=0"
    per_s, now = outcome.samples_per_s(best), outcome.samples_per_s(present)
    if not per_s > 0:
        return f"{workers}, as it is now: no other setting could be measured"
    part, _, detail = _limits(outcome).partition(": ")
    names = {"shared": "what samples share", "step": "the model's step", "CPU": "the CPUs"}
    if detail.startswith(OTHERS):
        names["CPU"] = "CPUs that other processes use, too"
    limited = f"limited by {names.get(part, part)}"
    if part == NOT_KNOWN:
        limited = "what limits it is not known"
    pace = f"{rate(per_s)} samples/s measured"
    if outcome.found.unsettled or (outcome.unsure and best == present):
        return f"Too noisy to say what is better than today's {workers}: {pace}, {limited}"
    if outcome.unsure and best.num_workers > 1:
        workers += " (fewer may do)"
    if best == present:
        pace += ", as it is now"
    elif not math.isnan(now):
        pace += f" ({rate(now)} as it is now)"
    if outcome.keeps_busy:
        return f"{workers} {'keeps' if best.num_workers <= 1 else 'keep'} the model busy: {pace}"
    return f"{workers}: {pace}, {limited}"


def _as_run(setting: LoaderSettings) -> LoaderSettings:
    return replace(setting, persistent_workers=False)


def _numbers(outcome: Outcome) -> str:
    n, error = len(outcome.found.runs), outcome.found.error(outcome.best)
    parts = [f"{count(n, 'setting')} measured in {outcome.took_s:.0f} s"]
    if not math.isnan(error):
        parts.append(f"± {percent(error)}")
    if outcome.step_s:
        parts.append(f"step {duration(outcome.step_s)}")
    return " · ".join([*parts, count(outcome.cpus, "CPU")])


def _limits(outcome: Outcome) -> str:
    """What limits the recommended setting, by what its runs show."""
    best, step_s, alone_s = outcome.best, outcome.step_s, outcome.look.read_s
    batch_s, n = outcome.found.batch_s(best), best.num_workers
    if not math.isfinite(batch_s):
        return f"{NOT_KNOWN}: a worker was killed, or no batch came in time"
    if outcome.keeps_busy:
        return f"step: it takes {duration(step_s)} of the {duration(batch_s)} a batch"
    start_s = outcome.found.start_s(best)
    if outcome.question.starts * start_s > (batch_s - step_s) / 2:
        share = percent(outcome.start_share)
        return f"start: workers take {duration(start_s)} to start, in {share} of an epoch"
    cpus, main = outcome.mean_of_runs(best), outcome.mean_of_runs(best, "main_cpus")
    of_cpus = f"{cpus:.1f} of {count(outcome.cpus, 'CPU')}"
    if cpus >= BUSY * outcome.cpus:
        return f"CPU: {of_cpus} {'is' if outcome.cpus == 1 else 'are'} busy"
    beside_s = n * batch_s
    slowed = beside_s > LONGER * alone_s and not outcome.look.uneven
    others, of_machine = outcome.mean_of_runs(best, "other_cpus"), psutil.cpu_count() or 1
    they_keep = f"{OTHERS} keep {others:.1f} of the machine's {count(of_machine, 'CPU')} busy"
    full = cpus + others >= BUSY * of_machine
    if full and (slowed or outcome.computes):
        return f"CPU: {they_keep}, this run {cpus:.1f}: ask again when they are done"
    if n == 0:
        return f"main process: it reads each batch itself, {duration(batch_s)} a batch"
    if main >= BUSY:
        return (
            f"main process: to take over batches keeps it busy {percent(min(main, 1))} of the time"
        )
    if slowed and outcome.mean_of_runs(best, "ready_share") > MOSTLY:
        return "main process: batches lie ready, and it is slow to take them over"
    if slowed:
        takes = f"a worker takes {duration(beside_s)} for a batch beside the others, and "
        takes += f"{duration(alone_s)} alone"
        if others > (1 - BUSY) * of_machine:
            return f"{NOT_KNOWN}: {takes}, while {they_keep}: ask again when they are done"
        if outcome.found.unsettled or outcome.unsure:
            return f"{NOT_KNOWN}: {takes}, and runs of one setting differ too much to say why"
        return (
            f"shared: {takes}, while {of_cpus} are busy: they wait for one another, for a lock, a "
            "disk, a server, or for CPUs that all want at once"
        )
    waits = "" if math.isnan(cpus) else f"; {of_cpus} are busy, so that they wait, as for a disk"
    if full:
        waits = f"; {they_keep}: ask again when they are done"
    return f"reading: a worker takes {duration(alone_s)} for a batch{waits}"


def _notes(outcome: Outcome) -> Iterator[str]:
    """All notes that apply, the gravest first."""
    found, settings = outcome.found, outcome.settings
    if outcome.look.naive:
        yield (
            "Each worker delivers all samples: more than one only repeats them. Share them out "
            "first, with loaderviz.shard(...) inside __iter__, and ask again."
        )
    died = [each for each, runs in found.runs.items() if any(run.died for run in runs)]
    if died:
        yield f"A worker was killed with {'; '.join(map(str, died))}: perhaps memory was short."
    if unfit := _unfit(outcome):
        yield f"{unfit[0]} would take more memory, or more of /dev/shm, than is free: not tried."
    if found.unsettled or outcome.unsure:
        yield (
            "Runs of one setting differ too much to tell: measure again when the machine is idle, "
            f"or with budget_s={4 * outcome.asked.budget_s:g}."
        )
    elif found.too_short:
        budget_s = outcome.asked.budget_s
        yield (
            f"{budget_s:g} s were too short to tell all settings apart: budget_s={4 * budget_s:g} "
            "has time for more."
        )
    if outcome.start_share > WORTH:
        share = percent(outcome.start_share)
        start = (
            f"Workers take {duration(found.start_s(outcome.best))} to start, {share} of an epoch"
        )
        if settings.persistent_workers:
            yield (
                f"{start}: persistent_workers=True keeps them from epoch to epoch. They do not see "
                "changes made to the dataset between epochs."
            )
        else:
            yield f"{start}. Of a longer training say epochs=...: they may be kept."
    if not settings.in_order:
        yield "in_order=False delivers batches as they come: their order differs from run to run."
    if outcome.asked.step is None and outcome.asked.step_s is None:
        yield (
            "No step was given, so this is the fastest loading. With step_s=..., the time that "
            "your model takes for a batch, fewer workers may be enough."
        )
    if settings.num_workers == outcome.question.most > 1 and not found.keeps_up(outcome.best):
        workers = count(settings.num_workers, "worker")
        yield f"{workers} are the most that were tried: max_workers=... tries more."


def _unfit(outcome: Outcome) -> list[LoaderSettings]:
    """Settings to begin with that there is no memory for, fewest workers first."""
    question = outcome.question
    untried = [
        each for each in question.first if each.num_workers and each not in outcome.found.runs
    ]
    unfit = [each for each in untried if not question.fits(each)]
    return sorted(unfit, key=lambda each: each.num_workers)


def _candidates(outcome: Outcome) -> Iterator[tuple[LoaderSettings, dict[str, Any]]]:
    """Of each setting what ``Recommendation.candidates`` says of it."""
    found, present = outcome.found, _as_run(outcome.question.present)
    for setting in dict.fromkeys([*found.runs, *_unfit(outcome), present]):
        runs = found.runs.get(setting, [])
        per_s, error = outcome.samples_per_s(setting), found.error(setting)
        kept = outcome.settings.persistent_workers and setting.num_workers > 0
        yield (
            replace(setting, persistent_workers=kept),
            {
                "samples_per_s": per_s,
                "low_per_s": per_s / (1 + error),
                "high_per_s": per_s * (1 + error),
                "start_s": found.start_s(setting) if runs else math.nan,
                "wait_share": found.wait_share(setting),
                "cpus": outcome.mean_of_runs(setting),
                "runs": len(runs),
                "batches": sum(run.n_batches for run in runs),
                "present": setting == present,
                "recommended": setting == outcome.best,
            },
        )
