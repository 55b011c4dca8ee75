"""What a run's numbers mean: the main thing of a ``Summary``, in one line.

The numbers come from ``summary.py``, and ``notes.py`` tells the rest; what is said, and from where
on it is worth a word, is decided here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from loaderviz.text import count, percent, rate
from loaderviz.why.attribution import PHRASES
from loaderviz.why.causes.resources_of_workers import one_by_one_s
from loaderviz.why.line_of_cause import line_named
from loaderviz.why.loader_share import is_cycled
from loaderviz.why.notes import slowed_down
from loaderviz.why.worker_cpus import others_compute, shared_cpus

if TYPE_CHECKING:
    from loaderviz.why.loader_share import LoaderShare
    from loaderviz.why.pace import Pace
    from loaderviz.why.summary import Summary

NEVER_WAITS: Final = 0.02  # a smaller share of the time is not worth a change of settings
# Of the time past the first batch: a longer run waits as much, whatever the start cost.
KEEPS_WAITING: Final = 0.1
NO_STEP: Final = 0.05  # a step that is a smaller part of the waiting is no training step
TOO_SHORT: Final = "Too short to tell"
MADE: Final = ("main_process", "workers", "cpu", "collate", "handover")  # takes less by slices

WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}


def verdict_of(summary: Summary) -> str:
    """The main thing, in one line, without its full stop."""
    if wrong := _what_went_wrong(summary):
        return wrong
    if not summary.waits_are_seen:
        return _read_ahead(summary)
    if summary.slowest is not None:
        return str(summary.slowest)
    if summary.n_batches <= summary.epochs * summary.n_ranks:
        return _single_batch(summary)
    if summary.device_busy_s > NO_STEP * summary.device_idle_s:
        return _device(summary)
    return _waiting(summary)


def _what_went_wrong(summary: Summary) -> str:
    """Why no pace is worth a word; empty where nothing went wrong."""
    if summary.failed_batch is not None and not summary.went_on:
        of = _whose(summary, summary.failed_rank, summary.failed_loader)
        shapes = summary.failed_shapes is not None
        why = "its samples have different shapes" if shapes else "making it raised an exception"
        return f"Batch {summary.failed_batch}{of} failed: {why}"
    if summary.unequal and not summary.complete and summary.n_batches:
        return str(summary.unequal[0])
    if summary.lost_batch is not None:
        of = _whose(summary, summary.lost_rank, summary.lost_loader)
        return f"Batch {summary.lost_batch}{of} never came: the loop got an exception in its place"
    return "" if summary.n_batches else "No batch was delivered"


def _whose(summary: Summary, rank: int | None, loader: int | None) -> str:
    """Which loader's and rank's a batch is, where there are several."""
    of = f" of {summary.name_of(loader)}" if len(summary.loaders) > 1 and loader is not None else ""
    return of + (f" of rank {rank}" if summary.n_ranks > 1 else "")


def _read_ahead(summary: Summary) -> str:
    """Of a loop that was not seen to ask for its batches."""
    names = [share.name for share in summary.loaders if share.read_ahead]
    whose = f" of {names[0]}" if len(summary.loaders) > 1 and len(names) == 1 else ""
    return (
        f"Another thread takes the batches{whose}, as one that reads ahead: what the loop waits "
        "for cannot be seen here"
    )


def _single_batch(summary: Summary) -> str:
    """Of epochs of one batch each."""
    if summary.step_s < NO_STEP * summary.wait_s:
        return "One batch an epoch: it shows what the start costs, not the pace"
    return f"{_waits(summary, summary.wait_share)}: one batch, no overlap"


def _device(summary: Summary) -> str:
    """A loop that queues work may wait all the time, and the device be busy all the time."""
    if summary.device_idle_share <= NEVER_WAITS:
        return "After its first step the device always has work: loading keeps up"
    idle = f"The device is idle {percent(summary.device_idle_share)} of the time"
    return f"{idle}{_cause(summary)}"


def _waiting(summary: Summary) -> str:
    """Whether the consumer waits and, if so, why: of the training, as far as that can be told."""
    trace, loaders = summary.trace, summary.loaders
    if trace is not None and len(loaders) == 1 and is_cycled(trace, loaders[0].loader):
        n = count(summary.n_batches // summary.n_ranks, "batch", "batches")
        return f"After {n} the loop replays those that itertools.cycle has kept"
    pace = summary.main_pace
    if pace is None:
        return _recorded(summary)
    if not pace.is_enough:
        return _recorded(summary) if _tells_enough(summary, pace) else _too_short(pace)
    if pace.step_s < NO_STEP * (pace.batch_s - pace.step_s):
        return _loading_alone(summary, pace.batch_size / pace.batch_s)
    waits = pace.epoch_waited_share
    if waits <= NEVER_WAITS:
        late = pace.from_batch > max(1, pace.workers)  # a warm-up, or another level, came before
        since = count(pace.from_batch, "batch", "batches") if late else _first(summary)
        return _never_waits(summary, since)
    of = f"an epoch of {summary.name_of(pace.loader)}" if len(summary.asked) > 1 else "the time"
    return f"{_waits(summary, waits, of)}{_cause(summary, pace)}"


def _tells_enough(summary: Summary, pace: Pace) -> bool:
    """Whether so short a recording is worth a verdict of its own: of whole epochs as they are.

    What happens once, or in the beginning, is none.
    """
    early = summary.main_cause in ("start", "restart", "prefetch") or _seldom(summary)
    return pace.whole_epoch and not early


def _too_short(pace: Pace) -> str:
    more = count(pace.more_batches, "more batch", "more batches")
    if pace.changes:
        return f"No steady pace: {pace.changes[-1]}; record {more}"
    return f"{TOO_SHORT} what the training waits for: record {more}"


def _recorded(summary: Summary) -> str:
    """Of what was recorded, and no more."""
    if summary.step_s < NO_STEP * summary.wait_s:
        return _loading_alone(summary, summary.samples_per_s)
    seen = any(share.seen for share in summary.asked)
    if (summary.n_workers or not seen) and summary.later_wait_share <= NEVER_WAITS:
        return _never_waits(summary, _first(summary))
    return f"{_waits(summary, summary.wait_share)}{_cause(summary)}"


def _loading_alone(summary: Summary, samples_per_s: float) -> str:
    pace = f": {rate(samples_per_s)} samples/s" if summary.n_samples else ""
    why = "" if summary.main_cause in ("workers", "main_process") else _cause(summary)
    return f"Loading alone sets the pace{pace}{why.replace(':', ',', 1)}"


def _never_waits(summary: Summary, since: str) -> str:
    """Since when, and who keeps up: workers of several loaders, of whom none helps another."""
    who = "the model never waits" if summary.n_ranks == 1 else "the ranks never wait"
    keeps_up = "the loader keeps up"
    if sum(share.n_workers > 0 for share in summary.loaders) > 1:
        keeps_up = "the workers of all loaders keep up"
    elif summary.n_workers:
        workers = _workers(summary.n_workers, summary.n_ranks)
        keeps_up = f"{workers} keep{'s' * (summary.n_workers == 1)} up"
    return f"After {since} {who}: {keeps_up}"


def _seldom(summary: Summary) -> bool:
    """Whether a longer run would wait less."""
    starting_s = summary.startup_s + summary.first_wait_s
    return summary.later_wait_share < KEEPS_WAITING and summary.later_wait_s < starting_s


def _cause(summary: Summary, pace: Pace | None = None) -> str:
    """What the consumer mostly waits for, as the end of a sentence, and for which loader."""
    cause, loader = summary.main_cause, summary.main_loader
    if not cause or loader is None:
        return ""
    if cause == "workers" and pace is None and _seldom(summary):
        return f", mostly for {_first(summary)}"
    whose = ""
    if len(summary.asked) > 1 and pace is None:
        whose = f", {percent(loader.waited_s / summary.elapsed_s)} for {loader.name}"
    line = line_named(summary, cause, loader.loader)
    return f"{whose}: {_why(summary, cause, loader, pace)}{line}"


def _why(summary: Summary, cause: str, loader: LoaderShare, pace: Pace | None) -> str:
    """What a loader is waited for: the cause's phrase, or what is known more closely."""
    trace, n_ranks = summary.trace, summary.n_ranks
    assert trace is not None  # as there is a cause
    workers = _workers(loader.n_workers, n_ranks)
    if cause == "main_process" and n_ranks > 1:
        return "each loads and steps in turn"
    if cause in MADE and one_by_one_s(trace, loader.loader) is not None:
        return "samples in memory are read one by one"
    if cause in ("cpu", "handover") and (cpus := shared_cpus(trace, loader.loader, 0)) is not None:
        return f"{workers} share {'one CPU' if len(cpus) == 1 else f'{len(cpus)} CPUs'}"
    if cause == "cpu" and others_compute(trace, loader.loader):
        return "other processes take the CPUs"
    if cause == "workers":
        slowed = slowed_down(pace) if pace is not None else None
        return str(slowed) if slowed is not None else _cannot_keep_up(workers, pace)
    if cause == "unknown":
        return str(next(iter(summary.causes["evidence"]), PHRASES[cause]))
    if cause in ("start", "restart"):
        seconds = summary.seconds_by_cause
        started_s = seconds.get("start", 0.0) + seconds.get("restart", 0.0)
        if summary.ending_s > started_s / 2:  # mostly
            return "its workers end slowly"
    return PHRASES[cause]


def _cannot_keep_up(who: str, pace: Pace | None) -> str:
    if pace is None or not pace.supply < pace.demand < math.inf:
        return f"{who} cannot keep up"
    return f"{who} cannot keep up ({rate(pace.supply)} samples/s of {rate(pace.demand)})"


def _waits(summary: Summary, share: float, of: str = "the time") -> str:
    """Who waits, and how much."""
    who = "The model waits" if summary.n_ranks == 1 else "The ranks wait"
    return f"{who} {percent(share)} of {of}"


def _first(summary: Summary) -> str:
    """What of an epoch has to wait for the start."""
    return "the first batch" if summary.epochs == 1 else "the first batch of each epoch"


def _workers(n_workers: int, n_ranks: int) -> str:
    """How many there are: "two workers", "13 workers a rank", "5 workers of 2 ranks"."""
    n, rest = divmod(n_workers, n_ranks)
    if rest:
        return f"{n_workers:,} workers of {n_ranks:,} ranks"
    each = " a rank" if n_ranks > 1 else ""
    return f"{WORDS.get(n, f'{n:,}')} worker{'s' * (n != 1)}{each}"
