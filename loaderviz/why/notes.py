"""What a reader of a summary is told beside its verdict: its numbers, and notes, one a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.text import count, duration, durations_that_add_up, percent, rate
from loaderviz.why.loader_share import is_cycled
from loaderviz.why.whole_run import whole_run

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace
    from loaderviz.why.pace import Pace
    from loaderviz.why.phases import Change
    from loaderviz.why.summary import Summary

NAMED: Final = 0.05  # of an epoch, or of the loop's time: a smaller part is not named
MOST_NOTES: Final = 3  # of one kind; others are counted
SHOWN_S: Final = 0.0005  # a shorter start would be shown as 0
FEWEST_STARTS: Final = 3  # that show that workers pile up: two may be those of neighbours
SHOWN_STARTS: Final = 6  # at most

RECORD_ITS_OBJECT = (
    "Record the object that the loop iterates, in the loop's own thread: record(prefetcher), or "
    "watch(...) where it is a generator. A thread that trains by itself: put record(loader) in it."
)
READ_AHEAD = (
    "another thread takes the batches, as one that reads ahead, and the loop's waits are not in "
    f"this recording. {RECORD_ITS_OBJECT}"
)
CYCLED = (
    "itertools.cycle keeps all batches of the first epoch and hands them out again: no new order, "
    "no new augmentation, and all of them in memory. In its place "
    "itertools.chain.from_iterable(itertools.repeat(loader)) begins each epoch anew."
)


def numbers_of(summary: Summary) -> str:
    """The numbers that the verdict rests on, in one line; times are those of a rank's mean."""
    several = summary.n_ranks > 1
    workers = count(summary.n_workers, "worker")
    if len(summary.asked) > 1:
        workers += f" of {len(summary.asked)} loaders"
    if summary.loaders and not any(share.seen for share in summary.loaders):
        workers = "workers not seen"
    return " · ".join([
        *([f"{summary.n_ranks:,} ranks"] if several else []),
        count(summary.n_batches, "batch", "batches"),
        *([count(summary.n_samples, "sample")] if summary.n_samples else []),
        workers,
        *_times(summary, "a rank" if several else "in all"),
    ])  # fmt: skip


def _times(summary: Summary, whose: str) -> list[str]:
    """What the time of the loop, and that of the device, went into."""
    if not summary.waits_are_seen:
        pace = f"{rate(summary.samples_per_s)} samples/s read ahead"
        return [pace, "steps and waiting not seen"]
    each = 1 / max(summary.n_ranks, 1)
    startup_s = each * summary.startup_s
    waiting_s = each * summary.wait_s + startup_s
    whole, (steps, waiting) = durations_that_add_up([each * summary.step_s, waiting_s])
    told = f"{whole} {whose}: {steps} in steps + {waiting} waiting"
    if startup_s >= max(SHOWN_S, NAMED * waiting_s):
        ending = summary.ending_s >= NAMED * summary.startup_s
        told += f" ({duration(startup_s)} in iter(){' and until workers had ended' * ending})"
    device_s = [each * summary.device_busy_s, each * summary.device_idle_s]
    if sum(device_s) == 0:
        return [told]
    _, (busy, idle) = durations_that_add_up(device_s)
    return [told, f"device: {busy} busy + {idle} idle"]


def notes_of(summary: Summary) -> list[str]:
    """What else a reader has to know, a sentence each."""
    whole = None if summary.trace is None else whole_run(summary.trace)
    told = [] if whole is None else [f"{whole}."]
    told += _kept_for_nothing(summary)
    told += training_of(summary) if summary.waits_are_seen else [RECORD_ITS_OBJECT]
    if summary.passed:
        n = count(summary.passed, "batch", "batches")
        without = "it" if summary.passed == 1 else "them"
        told.append(f"Making {n} raised an exception, and the loop went on without {without}.")
    told += [] if summary.failed_shapes is None else [f"In {summary.failed_shapes}."]
    told += _some(summary.unequal, "{}.", lambda more: f"Likewise in {len(more):,} more.")
    if len(summary.loaders) > 1:
        by_wait = sorted(summary.loaders, key=lambda share: -share.waited_s)
        told += _some(by_wait, "{}.", _more_loaders)
    told += _some(summary.unread, "Not in it: {}.", lambda more: f"Nor are {len(more):,} more.")
    return told + _some(
        summary.problems,
        "Incomplete: {}.",
        lambda more: f"And {count(len(more), 'more problem')}.",
    )


def _some(every: Sequence[Any], sentence: str, rest: Callable[[Sequence[Any]], str]) -> list[str]:
    """A sentence for each of the first, and one for all others."""
    more = every[MOST_NOTES:]
    return [*map(sentence.format, every[:MOST_NOTES]), *([rest(more)] if more else [])]


def _more_loaders(more: Sequence[Any]) -> str:
    waited_s = sum(share.waited_s for share in more)
    return f"And {count(len(more), 'more loader')}: {duration(waited_s)} waited for."


def _kept_for_nothing(summary: Summary) -> list[str]:
    """Batches and workers that a loop keeps without knowing it, and what to do about it."""
    trace = summary.trace
    if trace is None:
        return []
    told = [CYCLED] * any(is_cycled(trace, share.loader) for share in summary.loaders)
    for share in summary.loaders:
        if living := _piled_up(trace, share.loader):
            more = f", ... {living[-1]:,}" if len(living) > SHOWN_STARTS else ""
            told.append(
                f"Worker processes of {share.name} pile up: "
                f"{', '.join(map(str, living[:SHOWN_STARTS]))}{more}. "
                "Make the loader once, or let go of the one before."
            )
    return told


def _piled_up(trace: Trace, loader: int) -> list[int]:
    """How many workers of a loader lived each time that it had started some; those of one rank.

    Empty where they do not pile up: ``trace`` is from ``as_one``, so that the workers of a loader
    that is made anew at one line of code are here, whatever their number was.
    """
    workers = trace.workers[trace.workers["loader"] == loader]
    workers = workers[workers["rank"] == workers["rank"].min()]
    workers = workers[workers["started_s"].notna()]
    started_s, ended_s = workers["started_s"].to_numpy(), workers["ended_s"].to_numpy()
    n_starts = len(started_s) // max(1, workers["worker"].nunique())
    if n_starts < FEWEST_STARTS:
        return []
    last_s = [float(part[-1]) for part in np.array_split(np.sort(started_s), n_starts)]
    living = [int(((started_s <= at_s) & ~(ended_s <= at_s)).sum()) for at_s in last_s]
    return living if (np.diff(living) > 0).all() else []


def training_of(summary: Summary) -> list[str]:
    """What a whole epoch of the loader that is waited for longest takes, a sentence each.

    Empty where the pace is not known. Ranges are 95 % intervals of a block bootstrap.
    """
    pace = summary.main_pace
    if pace is None or not pace.is_enough or pace.epoch is None:
        return []
    step, making = f"a step takes {duration(pace.step_s)}", ""
    if not math.isnan(pace.read_s):
        making = f", to make a batch {duration(pace.read_s)}"
    used = percent(pace.accelerator_utilisation)
    told = [f"At pace {step}{making}: accelerator utilisation (AU) {used}."]
    told += _whole_epoch(summary, pace)
    if pace.changes and pace.changes[-1] is not slowed_down(pace):
        change = str(pace.changes[-1])
        told.append(f"{change[0].upper()}{change[1:]}.")
    return told


def slowed_down(pace: Pace) -> Change | None:
    """What made reading slower than it was, on the way to the pace; None where nothing did."""
    last = pace.changes[-1] if pace.changes else None
    if last is not None and last.of == "reading" and last.after_s > last.before_s:
        return last
    return None


def _whole_epoch(summary: Summary, pace: Pace) -> list[str]:
    """What a whole epoch takes, and what of it comes on top of its steps."""
    epoch = pace.epoch
    if epoch is None:
        return []
    told = []
    if epoch.length_is_known or not pace.whole_epoch:
        low, high = epoch.range_s
        span = "" if math.isnan(low) else f" ({duration(low)} to {duration(high)})"
        which = "An epoch as the loop leaves it" if epoch.is_left else "A whole epoch"
        told.append(
            f"{which}, {count(epoch.n_batches, 'batch', 'batches')}, takes "
            f"{duration(epoch.seconds)}{span} and waits {percent(pace.epoch_waited_share)} of it; "
            f"recorded: {percent(summary.wait_share)}."
        )
    if epoch.start_s > NAMED * epoch.seconds:
        told.append(f"Each epoch begins with {duration(epoch.start_s)} of waiting.")
    if epoch.end_s > NAMED * epoch.seconds:
        told.append(f"Each ends with {duration(epoch.end_s)} until its workers have ended.")
    if math.isfinite(pace.batches_per_pause):
        each = count(round(pace.batches_per_pause), "batch", "batches")
        told.append(f"Once in {each} a step takes {duration(pace.pause_s)} longer.")
    return told
