"""What a run's numbers mean: a ``Summary`` in words.

The numbers come from ``summary.py``; what is said of them, and from where on it is worth a word,
is decided here and nowhere else.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from loaderviz.text import count, duration, durations_that_add_up, percent, rate
from loaderviz.why.item_by_item import one_by_one_s
from loaderviz.why.kept_for_nothing import SHOWN, is_cycled, piled_up
from loaderviz.why.training_words import slowed_down, training_of
from loaderviz.why.worker_cpus import shared_cpus

if TYPE_CHECKING:
    from loaderviz.why.loader_share import LoaderShare
    from loaderviz.why.pace import Pace
    from loaderviz.why.slowest_rank import Slowest
    from loaderviz.why.summary import Summary

NEVER_WAITS = 0.02  # a smaller share of the time is not worth a change of settings
KEEPS_WAITING = 0.1  # past the first batch: a longer run waits as much, whatever the start cost
NAMED = 0.05  # of the time around epochs: a smaller part is not named
MOSTLY = 0.5
EQUAL = 0.1  # a supply that is as near to the demand may be as large: why/pace.py
MADE = ("main_process", "workers", "cpu", "collate", "handover")  # what takes less by slices
NO_STEP = 0.05  # a step that is a smaller part of the waiting is no training step

MOST_NOTES = 3
PHRASES = {  # of causes, after "the model waits 43 % of the time: "
    "start": "workers start up",
    "restart": "workers start anew in each epoch",
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
RECORD_ITS_OBJECT = (
    "Record the object that the loop iterates, in the loop's own thread: record(prefetcher), or "
    "watch(...) where it is a generator."
)
CYCLED = (
    "itertools.cycle keeps all batches of the first epoch and hands them out again: no new order, "
    "no new augmentation, and all of them in memory. In its place "
    "itertools.chain.from_iterable(itertools.repeat(loader)) begins each epoch anew."
)
WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}


def verdict_of(summary: Summary) -> str:
    """The main thing, in one line, without its full stop."""
    if wrong := _what_went_wrong(summary):
        return wrong
    if not summary.waits_are_seen:
        return _read_ahead(summary)
    if summary.slowest is not None:
        return _slowest_rank(summary.slowest)
    if summary.n_batches <= summary.epochs * summary.n_ranks:
        return _single_batch(summary)
    if summary.device_busy_s > NO_STEP * summary.device_idle_s:
        return _device(summary)
    return _waiting(summary)


def numbers_of(summary: Summary) -> str:
    """The numbers that the verdict rests on, in one line; times are those of a rank's mean."""
    each = 1 / max(summary.n_ranks, 1)
    parts_s = [each * part_s for part_s in (summary.step_s, summary.wait_s, summary.startup_s)]
    whole, (steps, waiting, starting) = durations_that_add_up(parts_s)
    started = parts_s[-1] >= 0.0005 and not starting.startswith("0 ")
    ranks = f"{summary.n_ranks:,} ranks · " if summary.n_ranks > 1 else ""
    workers = count(summary.n_workers, "worker")
    if len(asked := _asked(summary)) > 1:
        workers += f" of {len(asked)} loaders"
    if summary.loaders and not any(share.seen for share in summary.loaders):
        workers = "workers not seen"
    samples = f"{count(summary.n_samples, 'sample')} · " if summary.n_samples else ""
    if not summary.waits_are_seen:
        return (
            f"{ranks}{count(summary.n_batches, 'batch', 'batches')} · {samples}{workers} · "
            f"{rate(summary.samples_per_s)} samples/s read ahead · steps and waiting not seen"
        )
    return (
        f"{ranks}{count(summary.n_batches, 'batch', 'batches')} · {samples}{workers} · "
        f"{whole} {'a rank' if ranks else 'in all'}: {steps} in steps + {waiting} waiting"
        f"{f' + {starting} {_starting(summary)}' if started else ''}{_device_times(summary)}"
    )


def _asked(summary: Summary) -> list[LoaderShare]:
    """The loaders that the loop asks, and no thread that reads ahead."""
    return [share for share in summary.loaders if not share.read_ahead]


def _starting(summary: Summary) -> str:
    """What ``startup_s`` went into."""
    ending = summary.ending_s >= NAMED * summary.startup_s
    starting = summary.ending_s <= (1 - NAMED) * summary.startup_s
    return " and ".join(["starting"] * starting + ["ending workers"] * ending)


def _device_times(summary: Summary) -> str:
    """What the device did meanwhile; empty where there is none."""
    each = 1 / max(summary.n_ranks, 1)
    times_s = [each * summary.device_busy_s, each * summary.device_idle_s]
    if sum(times_s) == 0:
        return ""
    _, (busy, idle) = durations_that_add_up(times_s)
    return f" · device: {busy} busy + {idle} idle"


def notes_of(summary: Summary) -> list[str]:
    """What else a reader has to know, a sentence each."""
    told = _kept_for_nothing(summary)
    told += training_of(summary) if summary.waits_are_seen else [RECORD_ITS_OBJECT]
    told += [] if summary.failed_shapes is None else [f"In {summary.failed_shapes}."]
    told += [f"{each}." for each in summary.unequal[:MOST_NOTES]]
    if more := len(summary.unequal[MOST_NOTES:]):
        told.append(f"Likewise in {more:,} more.")
    lacking = [f"Not in it: {each}." for each in summary.unread[:MOST_NOTES]]
    if more := len(summary.unread) - len(lacking):
        lacking.append(f"Nor are {more:,} more.")
    if len(summary.loaders) > 1:
        by_wait = sorted(summary.loaders, key=lambda share: -share.waited_s)
        told += [f"{share}." for share in by_wait[:MOST_NOTES]]
        if rest := by_wait[MOST_NOTES:]:
            waited_s = sum(share.waited_s for share in rest)
            told.append(f"And {count(len(rest), 'more loader')}: {duration(waited_s)} waited for.")
    told += [*lacking, *(f"Incomplete: {each}." for each in summary.problems[:MOST_NOTES])]
    if more := len(summary.problems[MOST_NOTES:]):
        told.append(f"And {count(more, 'more problem')}.")
    return told


def _kept_for_nothing(summary: Summary) -> list[str]:
    """Batches and workers that a loop keeps without knowing it, and what to do about it."""
    trace = summary.trace
    if trace is None:
        return []
    told = [CYCLED] * any(is_cycled(trace, share.loader) for share in summary.loaders)
    for share in summary.loaders:
        if living := piled_up(trace, share.loader):
            more = f", ... {living[-1]:,}" if len(living) > SHOWN else ""
            told.append(
                f"Worker processes of {share.name} pile up: {', '.join(map(str, living[:SHOWN]))}"
                f"{more}. Make the loader once, or let go of the one before."
            )
    return told


def _what_went_wrong(summary: Summary) -> str:
    """Why no pace is worth a word; empty where nothing went wrong."""
    if summary.failed_batch is not None:
        of = f" of rank {summary.failed_rank}" if summary.n_ranks > 1 else ""
        why = "making it raised an exception"
        if summary.failed_shapes is not None:
            why = "its samples have different shapes"
        return f"Batch {summary.failed_batch}{of} failed: {why}"
    if summary.unequal and not summary.complete and summary.n_batches:
        return str(summary.unequal[0])
    if summary.lost_batch is not None:
        of = f" of rank {summary.lost_rank}" if summary.n_ranks > 1 else ""
        return f"Batch {summary.lost_batch}{of} never came: the loop got an exception in its place"
    if summary.n_batches == 0:
        return "No batch was delivered"
    return ""


def _read_ahead(summary: Summary) -> str:
    """Of a loop that was not seen to ask for its batches."""
    names = [share.name for share in summary.loaders if share.read_ahead]
    whose = f" of {names[0]}" if len(summary.loaders) > 1 and len(names) == 1 else ""
    return (
        f"A thread of its own takes the batches{whose} ahead of the loop: what the loop waits for "
        "cannot be seen here"
    )


def _slowest_rank(slow: Slowest) -> str:
    """Of ranks that are unlike: which one is slow, by how much, and what of it."""
    several = slow.n_like_it > 1
    who = f"Rank {slow.rank}{f' and {slow.n_like_it - 1:,} more' if several else ''}"
    others = "the other" if slow.n_ranks - slow.n_like_it == 1 else "the others"
    if slow.cause == "step":
        theirs = "their steps take longer" if several else "its steps take longer"
    elif slow.holds_up:
        whole = "both" if slow.n_ranks == 2 else "all of them"
        theirs = f"their loaders hold {whole} up" if several else f"its loader holds {whole} up"
    else:
        theirs = "their loaders are slower" if several else "its loader is slower"
    if slow.wait_share - slow.others_wait_share > NEVER_WAITS and slow.cause == "loader":
        wait = "wait up to" if several else "waits"
        how, usual = f"{wait} {percent(slow.wait_share)} of the time", slow.others_wait_share
        return f"{who} {how}, {others} {percent(usual)}: {theirs}"
    take = "take up to" if several else "takes"
    how = f"{take} {duration(slow.batch_s)} a batch"
    return f"{who} {how}, {others} {duration(slow.others_batch_s)}: {theirs}"


def _single_batch(summary: Summary) -> str:
    """Of epochs of one batch each."""
    if summary.step_s < NO_STEP * summary.wait_s:
        one = "One batch a rank" if summary.n_ranks > 1 else "One batch in all"
        if summary.epochs > 1:
            one = "One batch an epoch"
        return f"{one}: it shows what the start costs, not the pace"
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
        return f"{_since(summary, pace)} {_never_waits(summary)}: {_who_keeps_up(summary)}"
    several = len(_asked(summary)) > 1
    of = f"an epoch of {summary.name_of(pace.loader)}" if several else "the time"
    return f"{_waits(summary, waits, of)}{_cause(summary, pace)}"


def _since(summary: Summary, pace: Pace) -> str:
    """Since when it goes on like that."""
    if pace.later_than_start:
        return f"After {count(pace.from_batch, 'batch', 'batches')}"
    return f"After {_first(summary)}"


def _never_waits(summary: Summary) -> str:
    return "the model never waits" if summary.n_ranks == 1 else "the ranks never wait"


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
    return f"Too short to tell what the training waits for: record {more}"


def _recorded(summary: Summary) -> str:
    """Of what was recorded, and no more."""
    if summary.step_s < NO_STEP * summary.wait_s:
        return _loading_alone(summary, summary.samples_per_s)
    seen = any(share.seen for share in _asked(summary))
    if (summary.n_workers or not seen) and summary.later_wait_share <= NEVER_WAITS:
        return f"After {_first(summary)} {_never_waits(summary)}: {_who_keeps_up(summary)}"
    return f"{_waits(summary, summary.wait_share)}{_cause(summary)}"


def _loading_alone(summary: Summary, samples_per_s: float) -> str:
    pace = f": {rate(samples_per_s)} samples/s" if summary.n_samples else ""
    why = "" if summary.main_cause in ("workers", "main_process") else _cause(summary)
    return f"Loading alone sets the pace{pace}{why.replace(':', ',', 1)}"


def _who_keeps_up(summary: Summary) -> str:
    """Workers of several loaders are not added up: none of them helps another."""
    n_loaders = sum(share.n_workers > 0 for share in summary.loaders)
    if not summary.n_workers:
        return "the loader keeps up"
    if n_loaders > 1:
        return f"the workers of {'both' if n_loaders == 2 else 'all'} loaders keep up"
    every = _workers(summary.n_workers, summary.n_ranks)
    return f"{every} {'keeps' if summary.n_workers == 1 else 'keep'} up"


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
    if len(_asked(summary)) > 1 and pace is None:
        whose = f", {percent(loader.waited_s / summary.elapsed_s)} for {loader.name}"
    trace = summary.trace
    assert trace is not None  # as there is a cause
    if cause == "main_process" and summary.n_ranks > 1:
        return f"{whose}: each loads and steps in turn"
    if cause in MADE and one_by_one_s(trace, loader.loader) is not None:
        return f"{whose}: samples in memory are read one by one"
    if cause in ("cpu", "handover") and (cpus := shared_cpus(trace, loader.loader, 0)) is not None:
        of = _workers(loader.n_workers, summary.n_ranks)
        return f"{whose}: {of} share {'one CPU' if len(cpus) == 1 else f'{len(cpus)} CPUs'}"
    if cause == "workers":
        slowed = slowed_down(pace) if pace is not None else None
        if slowed is not None:
            return f"{whose}: {slowed}"
        rates = ""
        if pace is not None and pace.supply < pace.demand < math.inf:
            rates = f" ({rate(pace.supply)} samples/s of {rate(pace.demand)})"
        return f"{whose}: {_workers(loader.n_workers, summary.n_ranks)} cannot keep up{rates}"
    if cause == "unknown" and (slow := _slow_ahead(summary, pace)):
        return f"{whose}: {slow}"
    if cause == "unknown" and len(summary.causes):
        return f"{whose}: {summary.causes['evidence'].iloc[0]}"
    if cause in ("start", "restart") and summary.ending_s > MOSTLY * _started_s(summary):
        return f"{whose}: its workers end slowly"
    return f"{whose}: {PHRASES[cause]}"


def _slow_ahead(summary: Summary, pace: Pace | None) -> str:
    """That what a thread reads ahead is made more slowly than the loop takes it, if it is."""
    ahead = [share for share in summary.loaders if share.read_ahead]
    if pace is None or len(ahead) != 1 or len(_asked(summary)) != 1:
        return ""
    makes = ahead[0].makes_per_s * max(1, ahead[0].n_workers / summary.n_ranks)
    if not makes < (1 - EQUAL) * pace.demand < math.inf:
        return ""
    by = _workers(ahead[0].n_workers, summary.n_ranks) if ahead[0].n_workers else "the thread"
    rates = f"{rate(makes)} samples/s of {rate(pace.demand)}"
    return f"{by} that read{'s' * (ahead[0].n_workers < 2)} ahead cannot keep up ({rates})"


def _started_s(summary: Summary) -> float:
    """What starts and ends of workers took."""
    seconds = summary.seconds_by_cause
    return seconds.get("start", 0.0) + seconds.get("restart", 0.0)


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
