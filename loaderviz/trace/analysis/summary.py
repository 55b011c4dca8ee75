"""What limits a run, in numbers and in words: pure arithmetic on the tables of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.analysis.rank_summary import by_rank
from loaderviz.trace.analysis.slowest_rank import Slowest, slowest
from loaderviz.trace.analysis.steps import device_times
from loaderviz.trace.analysis.unequal_epochs import Unequal, unequal

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

NEVER_WAITS = 0.02  # a smaller share of the time is not worth a change of settings
KEEPS_WAITING = 0.1  # past the first batch: a longer run waits as much, whatever the start cost
NO_STEP = 0.05  # a step that is a smaller part of the waiting is no training step

MOST_NOTES = 3
WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}


@dataclass(frozen=True)
class Summary:
    """The run of a trace in numbers. Times are seconds of the consumer; shares are 0 to 1.

    The consumer's time is ``startup_s + wait_s + step_s``; what it did between two epochs is not
    in it. Several ranks have a consumer each: batches, samples, workers and times are added up,
    so that a share is that of the time of all of them.
    """

    n_batches: int  # delivered
    n_samples: int  # delivered
    n_workers: int  # of all loaders together; 0 where the main process loads
    epochs: int  # of the rank that has most
    startup_s: float  # in iter(), starting workers
    wait_s: float  # in next()
    first_wait_s: float  # the part of it that went into each epoch's first batch
    handover_s: float  # the part, first batches aside, that went into batches that lay ready
    step_s: float  # between delivery and the next request
    samples_per_s: float  # from each epoch's first batch to its last; of all ranks, side by side
    failed_batch: int | None = None  # the first one whose making raised an exception
    failed_rank: int | None = None  # and the rank that it is of
    n_ranks: int = 1
    slowest: Slowest | None = None  # where ranks differ
    unequal: tuple[Unequal, ...] = ()  # epochs whose number of batches differs between ranks
    complete: bool = True  # every recording has ended
    unread: tuple[str, ...] = ()  # recordings of the run that are not in the trace, and why
    problems: tuple[str, ...] = ()  # what else the recordings lack, in their own words
    device_busy_s: float = 0.0  # with the steps after each epoch's first; 0 without a device
    device_idle_s: float = 0.0  # before them: what was queued was done

    @property
    def elapsed_s(self) -> float:
        return self.startup_s + self.wait_s + self.step_s

    @property
    def wait_share(self) -> float:
        """Of the consumer's time, the part that is not its own work: waiting and starting."""
        return 1 - self.step_s / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def device_idle_share(self) -> float:
        """Of the device's time, the part in which it had nothing to do; 0 without a device."""
        time_s = self.device_busy_s + self.device_idle_s
        return self.device_idle_s / time_s if time_s > 0 else 0.0

    @property
    def verdict(self) -> str:
        """The main thing, in one line."""
        if self.failed_batch is not None:
            of = f" of rank {self.failed_rank}" if self.n_ranks > 1 else ""
            return f"Batch {self.failed_batch}{of} failed: making it raised an exception"
        if self.n_batches == 0:
            return "No batch was delivered"
        if self.unequal and not self.complete:
            return str(self.unequal[0])
        if self.slowest is not None:
            return self._verdict_of_unlike(self.slowest)
        if self.n_batches > self.epochs * self.n_ranks:
            return self._verdict_of_many()
        if self.step_s < NO_STEP * self.wait_s:
            one = "One batch in all" if self.n_ranks == 1 else "One batch a rank"
            return f"{one}: it shows what the start costs, not the pace"
        return f"{self._waits} {_percent(self.wait_share)} of the time: one batch, no overlap"

    def _verdict_of_unlike(self, slow: Slowest) -> str:
        several = slow.n_like_it > 1
        if slow.cause == "step":
            theirs = "their steps take longer" if several else "its steps take longer"
        elif slow.holds_up:
            whole = "both" if slow.n_ranks == 2 else "all of them"
            theirs = f"their loaders hold {whole} up" if several else f"its loader holds {whole} up"
        else:
            theirs = "their loaders are slower" if several else "its loader is slower"
        if slow.wait_share - slow.others_wait_share > NEVER_WAITS and slow.cause == "loader":
            wait = "wait up to" if several else "waits"
            how = f"{wait} {_percent(slow.wait_share)} of the time"
            usual = _percent(slow.others_wait_share)
        else:
            take = "take up to" if several else "takes"
            how, usual = f"{take} {_s(slow.batch_s)} a batch", _s(slow.others_batch_s)
        return f"{slow.who} {how}, {slow.others} {usual}: {theirs}"

    def _verdict_of_many(self) -> str:
        if self.device_busy_s > NO_STEP * self.device_idle_s:
            return self._verdict_of_device()
        share = _percent(self.wait_share)
        later_wait_s = self.wait_s - self.first_wait_s
        later_share = later_wait_s / ((later_wait_s + self.step_s) or 1.0)
        first = "the first batch" if self.epochs == 1 else "the first batch of each epoch"
        if self.step_s < NO_STEP * self.wait_s:
            pace = f": {rate(self.samples_per_s)} samples/s" if self.n_samples else ""
            return f"Loading alone sets the pace{pace}"
        if self.n_workers == 0:
            one = "one process loads and steps" if self.n_ranks == 1 else "each loads and steps"
            return f"{self._waits} {share} of the time: {one} in turn"
        if later_share <= NEVER_WAITS:
            keep = "keeps" if self.n_workers == 1 else "keep"
            never = "the model never waits" if self.n_ranks == 1 else "the ranks never wait"
            return f"After {first} {never}: {self._workers} {keep} up"
        if later_share < KEEPS_WAITING and later_wait_s < self.startup_s + self.first_wait_s:
            return f"{self._waits} {share} of the time, mostly for {first}"
        if self.handover_s > later_wait_s / 2:
            return f"{self._waits} {share} of the time, mostly while batches are handed over"
        return f"{self._waits} {share} of the time: {self._workers} cannot keep up"

    def _verdict_of_device(self) -> str:
        """A loop that queues work may wait all the time, and the device be busy all the time."""
        if self.device_idle_share <= NEVER_WAITS:
            return "After its first step the device always has work: loading keeps up"
        return f"The device has nothing to do {_percent(self.device_idle_share)} of the time"

    @property
    def numbers(self) -> str:
        """The numbers that the verdict rests on, in one line; times are those of a rank's mean."""
        each = 1 / max(self.n_ranks, 1)
        startup_s = each * self.startup_s
        starting = f" + {_s(startup_s)} starting" if startup_s >= 0.0005 else ""
        ranks = f"{self.n_ranks:,} ranks · " if self.n_ranks > 1 else ""
        return (
            f"{ranks}{_count(self.n_batches, 'batch', 'batches')} · "
            f"{_count(self.n_samples, 'sample', 'samples')} · "
            f"{_count(self.n_workers, 'worker', 'workers')} · {_s(each * self.elapsed_s)} "
            f"{'a rank' if ranks else 'in all'}: "
            f"{_s(each * self.step_s)} in steps + {_s(each * self.wait_s)} waiting{starting}"
        )

    @property
    def notes(self) -> list[str]:
        """What else a reader has to know, a sentence each."""
        told = [f"{each}." for each in self.unequal[:MOST_NOTES]]
        if more := len(self.unequal) - len(told):
            told.append(f"So they do in {more:,} more.")
        lacking = [f"Not in it: {each}." for each in self.unread[:MOST_NOTES]]
        if more := len(self.unread) - len(lacking):
            lacking.append(f"Nor are {more:,} more.")
        told += [*lacking, *(f"Incomplete: {each}." for each in self.problems[:MOST_NOTES])]
        if more := len(self.problems[MOST_NOTES:]):
            told.append(f"And {more:,} more problems.")
        return told

    @property
    def _waits(self) -> str:
        return "The model waits" if self.n_ranks == 1 else "The ranks wait"

    @property
    def _workers(self) -> str:
        n, rest = divmod(self.n_workers, self.n_ranks)
        if rest:
            return f"{self.n_workers:,} workers of {self.n_ranks:,} ranks"
        each = " a rank" if self.n_ranks > 1 else ""
        return f"{WORDS.get(n, str(n))} worker{'s' * (n != 1)}{each}"

    def __str__(self) -> str:
        notes = [each for each in self.notes if each != f"{self.verdict}."]
        return "\n".join([self.verdict, self.numbers, *notes])


def summarize(trace: Trace) -> Summary:
    ranks = by_rank(trace)
    failed = np.flatnonzero(trace.batches["state"].to_numpy() == "failed")[:1]

    def first_failed(column: str) -> int | None:
        return int(trace.batches[column].iloc[failed[0]]) if len(failed) else None

    def total(column: str) -> float:
        return float(ranks[column].sum())

    unread = tuple(_texts(trace.meta.get("unread")))
    columns = ("rank", "epoch", "device_start_s", "device_end_s")
    busy_s, idle_s = device_times({each: trace.batches[each].to_numpy() for each in columns})
    return Summary(
        n_batches=int(ranks["n_batches"].sum()),
        n_samples=int(ranks["n_samples"].sum()),
        n_workers=int(ranks["n_workers"].sum()),
        epochs=int(ranks["epochs"].max()) if len(ranks) else 0,
        startup_s=total("startup_s"),
        wait_s=total("wait_s"),
        first_wait_s=total("first_wait_s"),
        handover_s=total("handover_s"),
        step_s=total("step_s"),
        samples_per_s=total("samples_per_s"),
        failed_batch=first_failed("batch"),
        failed_rank=first_failed("rank"),
        n_ranks=max(1, len(ranks)),
        slowest=slowest(ranks),
        unequal=tuple(unequal(trace)),
        complete=bool(trace.meta.get("complete", True)),
        unread=unread,
        problems=tuple(each for each in _texts(trace.meta.get("problems")) if each not in unread),
        device_busy_s=busy_s,
        device_idle_s=idle_s,
    )


def _texts(found: Any) -> list[str]:
    """Of a stranger's meta too, which may hold anything there."""
    return [str(each) for each in found] if isinstance(found, list | tuple) else []


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _s(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    return f"{round(seconds, 3):.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"
