"""What a search has found, in words and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz._recommend.look_at_loader import Look
from loaderviz._recommend.memory_budget import FreeBytes
from loaderviz._recommend.recommendation import KEPT_BUSY, MOST_NOTES, Recommendation, code_of
from loaderviz._recommend.search import Found, Question
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import count, duration, percent, rate, size

if TYPE_CHECKING:
    import pandas as pd

BUSY: Final = 0.85  # of the CPUs: the last part of one goes into changing between processes
LONGER: Final = 1.3  # times as long as alone: more than runs of one setting differ
WORTH: Final = 0.05  # of the time: persistent workers are recommended for as much as the order


@dataclass(frozen=True)
class Outcome:
    """All that a recommendation is written from. ``cpus`` may be used; times are in seconds."""

    found: Found
    look: Look
    question: Question
    step_s: float
    step_is_known: bool
    epochs: int
    n_batches: int | None
    cpus: float
    budget_s: float
    took_s: float
    description: Mapping[str, Any]

    @property
    def best(self) -> LoaderSettings:
        """The recommended setting, as it was run: its workers did not persist."""
        return self.found.best

    @property
    def settings(self) -> LoaderSettings:
        """The recommended setting, with persistent workers where these gain enough."""
        keeps = self.question.present.persistent_workers or self.restart_share > WORTH
        return replace(self.best, persistent_workers=keeps and self.best.num_workers > 0)

    @property
    def start_share(self) -> float:
        """The part of an epoch in which its workers start; 0 where its length is not known."""
        if self.n_batches is None or self.best not in self.found.runs:
            return 0.0
        start_s = self.found.start_s(self.best)
        own_s = self.found.batch_s(self.best) - self.found.starts * start_s
        epoch_s = start_s + self.n_batches * own_s
        return start_s / epoch_s if epoch_s > 0 and math.isfinite(epoch_s) else 0.0

    @property
    def restart_share(self) -> float:
        """The part of the training that persistent workers save."""
        return self.start_share * (1 - 1 / self.epochs)

    @property
    def wait_share(self) -> float:
        """The part of its time that the loop waits with the recommended setting, at pace."""
        return self.found.wait_share(self.best)

    @property
    def keeps_busy(self) -> bool:
        """Whether the loop has steps, and hardly waits for a batch to be made."""
        return self.step_s > 0 and (self.wait_share <= KEPT_BUSY or self.found.keeps_up(self.best))

    def samples_per_s(self, setting: LoaderSettings) -> float:
        """Different samples a second; 0 where a worker died, NaN where it was not run."""
        if setting not in self.found.runs:
            return math.nan
        batch_s = self.found.batch_s(setting)
        return self.look.batch_size / batch_s if batch_s > 0 else math.inf

    def cpus_busy(self, setting: LoaderSettings, name: str = "cpus") -> float:
        """The mean of its runs; NaN where it is not known."""
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
        candidates=_candidates(outcome),
        cpu_allowance=outcome.cpus,
        trace=outcome.look.trace,
    )


def _verdict(outcome: Outcome) -> str:
    best, present = outcome.best, outcome.question.present
    n = best.num_workers
    workers = "num_workers=0" if n == 0 else count(n, "worker")
    per_s = outcome.samples_per_s(best)
    if not per_s > 0:
        return f"{workers}, as it is now: no other setting could be measured"
    pace = f"{rate(per_s)} samples/s measured"
    now = outcome.samples_per_s(present)
    if best == _as_run(present):
        pace += ", as it is now"
    elif not math.isnan(now):
        pace += f" ({rate(now)} as it is now)"
    if outcome.keeps_busy:
        return f"{workers} {'keeps' if n <= 1 else 'keep'} the model busy: {pace}"
    part = _limits(outcome).partition(":")[0]
    names = {"shared": "what samples share", "step": "the model's step", "CPU": "the CPUs"}
    return f"{workers}: {pace}, limited by {names.get(part, part)}"


def _as_run(setting: LoaderSettings) -> LoaderSettings:
    return replace(setting, persistent_workers=False)


def _numbers(outcome: Outcome) -> str:
    n = len(outcome.found.runs)
    error = outcome.found.error(outcome.best)
    parts = [f"{count(n, 'setting')} measured in {outcome.took_s:.0f} s"]
    if not math.isnan(error):
        parts.append(f"± {percent(error)}")
    if outcome.step_s:
        parts.append(f"step {duration(outcome.step_s)}")
    return " · ".join([*parts, count(outcome.cpus, "CPU")])


def _limits(outcome: Outcome) -> str:
    """What limits the recommended setting, by what its runs show."""
    best, look, step_s = outcome.best, outcome.look, outcome.step_s
    batch_s, n = outcome.found.batch_s(best), best.num_workers
    if not math.isfinite(batch_s):
        return "not known: a worker was killed, or no batch came in time"
    batch = f"{duration(batch_s)} a batch"
    if outcome.keeps_busy:
        handover = ""
        if outcome.wait_share > KEPT_BUSY:
            handover = "; the rest is handing over batches that lie ready"
        return f"step: it takes {duration(step_s)} of the {batch}{handover}"
    starting_s = outcome.found.starts * outcome.found.start_s(best)
    if starting_s > (batch_s - step_s) / 2:
        start = duration(outcome.found.start_s(best))
        return (
            f"start: workers take {start} to start, in {percent(outcome.start_share)} of an epoch"
        )
    cpus, main = outcome.cpus_busy(best), outcome.cpus_busy(best, "main_cpus")
    of_cpus = f"{cpus:.1f} of {count(outcome.cpus, 'CPU')}"
    if cpus >= BUSY * outcome.cpus:
        return f"CPU: {of_cpus} {'is' if outcome.cpus == 1 else 'are'} busy"
    if n == 0:
        return f"main process: it reads each batch itself, {batch}, and workers make it no faster"
    if main >= BUSY:
        return (
            f"main process: to take over batches keeps it busy {percent(min(main, 1))} of the time"
        )
    read_s = n * batch_s
    if look.uneven:
        return (
            f"reading: a worker takes {duration(look.read_s)} for a batch, and much longer for "
            "some, which those behind them wait for"
        )
    if read_s > LONGER * look.read_s:
        return (
            f"shared: a worker takes {duration(read_s)} for a batch beside the others, and "
            f"{duration(look.read_s)} alone, while {of_cpus} are busy: samples wait for one "
            "another, for a lock, a disk, a server or the like"
        )
    waits = "" if math.isnan(cpus) else f"; {of_cpus} are busy, so that they wait, as for a disk"
    return f"reading: a worker takes {duration(look.read_s)} for a batch{waits}"


def _notes(outcome: Outcome) -> Iterator[str]:
    """All notes that apply, the gravest first."""
    found, look, best = outcome.found, outcome.look, outcome.best
    settings, sizes = outcome.settings, look.sizes
    if look.naive:
        yield (
            "Each worker delivers all samples: more than one only repeats them. Share them out "
            "first, with loaderviz.shard(...) inside __iter__, and ask again."
        )
    died = [each for each, runs in found.runs.items() if any(run.died for run in runs)]
    if died:
        yield f"A worker was killed with {'; '.join(map(str, died))}: perhaps memory was short."
    untried = [each for each in found.untried if _may_do(each, outcome)]
    if untried:
        yield (
            f"{outcome.budget_s:g} s were too short to try {'; '.join(map(str, untried[:3]))}: "
            f"budget_s={_rounded(2 * outcome.budget_s)} has time for more."
        )
    elif found.more_s:
        yield (
            f"{outcome.budget_s:g} s were too short to tell the best settings apart, by less than "
            f"they vary: budget_s={_rounded(found.more_s)} might."
        )
    unfit = _unfit(outcome)
    if unfit:
        least = min(unfit, key=lambda each: each.num_workers)
        takes = [size(of(least) or 0) for of in (sizes.memory_bytes, sizes.shm_bytes)]
        yield (
            f"{least} would take {takes[0]} of memory, {takes[1]} of it in /dev/shm, more than is "
            "free: not tried."
        )
    if outcome.start_share > WORTH:
        start = (
            f"Workers take {duration(found.start_s(best))} to start, {percent(outcome.start_share)}"
        )
        if settings.persistent_workers:
            yield (
                f"{start} of an epoch: persistent_workers=True keeps them from epoch to epoch. "
                "They do not see changes made to the dataset between epochs."
            )
        else:
            yield f"{start} of an epoch. Of a longer training say epochs=...: they may be kept."
    if not settings.in_order:
        yield "in_order=False delivers batches as they come: their order differs from run to run."
    if not outcome.step_is_known:
        yield (
            "No step was given, so this is the fastest loading. With step_s=..., the time that "
            "your model takes for a batch, fewer workers may be enough."
        )
    is_most = best.num_workers == outcome.question.most and not outcome.found.keeps_up(best)
    if is_most and not look.naive:
        workers = count(best.num_workers, "worker")
        yield f"{workers} are the most that were tried: max_workers=... tries more."


def _may_do(setting: LoaderSettings, outcome: Outcome) -> bool:
    """Whether a setting that was not run may be better: its number of workers is a likely one."""
    needed = outcome.question.needed
    return needed / 2 < setting.num_workers < 2 * needed or needed == 1


def _rounded(seconds: float) -> str:
    """To 1, 2 or 5 times a power of ten, upwards."""
    power = 10.0 ** math.floor(math.log10(seconds))
    return f"{next(n * power for n in (1, 2, 5, 10) if n * power >= seconds * (1 - 1e-9)):g}"


def _unfit(outcome: Outcome) -> list[LoaderSettings]:
    """Settings to begin with that there is no memory for."""
    free = outcome.question.fits
    runs = outcome.found.runs
    return [
        each
        for each in outcome.question.first
        if each.num_workers and each not in runs and not free(each)
    ]


def _candidates(outcome: Outcome) -> pd.DataFrame:
    """One row a setting, as ``Recommendation.candidates`` describes it."""
    import pandas as pd

    found, present = outcome.found, _as_run(outcome.question.present)
    keeps, free = outcome.settings.persistent_workers, FreeBytes.now()
    rows = []
    for setting in dict.fromkeys([*found.runs, *_unfit(outcome), present]):
        runs = found.runs.get(setting, [])
        per_s, error = outcome.samples_per_s(setting), found.error(setting)
        known = {
            "samples_per_s": per_s,
            "low_per_s": per_s / (1 + error),
            "high_per_s": per_s * (1 + error),
            "start_s": found.start_s(setting) if runs else math.nan,
            "wait_share": found.wait_share(setting),
            "cpus": outcome.cpus_busy(setting),
            "runs": len(runs),
            "batches": sum(run.n_batches for run in runs),
        }
        marks = {"present": setting == present, "recommended": setting == outcome.best}
        options = replace(setting, persistent_workers=keeps and setting.num_workers > 0).options()
        sizes = outcome.look.sizes.columns(setting, free)
        rows.append({**options, **known, **sizes, **marks})
    table = pd.DataFrame(rows).astype({"prefetch_factor": "Int64"})
    return table.sort_values("samples_per_s", ascending=False, kind="stable", ignore_index=True)
