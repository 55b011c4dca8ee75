"""What shows each cause, in numbers of the recording, and what to do about it: a rule for each.

A rule returns two texts: the evidence, without a full stop, and the cure in sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.loader_settings import PREFETCH_FACTOR
from loaderviz.text import count, duration, percent, size
from loaderviz.trace.described_loaders import handed_over, hands_over, loader_description
from loaderviz.trace.loaders_as_one import lives
from loaderviz.why.attribution import USUAL_HANDOVER_S
from loaderviz.why.causes.parts_of_a_start import cure_of_starts, describe_starts
from loaderviz.why.causes.resources_of_workers import READ_WITH, resources_of_workers
from loaderviz.why.causes.savings import DEEP, most_workers
from loaderviz.why.loader_share import is_unseen
from loaderviz.why.unlike_workers import slow_worker
from loaderviz.why.worker_cpus import MOSTLY, CpusInUse, others_compute

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace
    from loaderviz.why.attribution import Attribution
    from loaderviz.why.reading_time import Reading

LEAST_PRESSURE: Final = 0.1  # of the time in which some task waited: less explains no wait
PRESSED: Final = {"cpu": "a CPU", "io": "I/O", "memory": "memory"}  # /proc/pressure

MORE_WORKERS: Final = (
    "More workers: some {more} gain most, replayed; recommend(loader) measures it."
)
LOAD_MEANWHILE: Final = (
    "num_workers={more} loads while the model steps; recommend(loader) measures it."
)
READ_AT_ONCE: Final = (
    "Read the samples of a batch at once (__getitems__), or make batches larger. A worker would "
    "take about as long to hand a batch over: whether it pays, recommend(loader) measures."
)
KEEP_THE_ITERATOR: Final = (
    "Keep the iterator: batches = iter(loader), then next(batches). next(iter(loader)) begins an "
    "epoch for each batch, and drops what workers have made in advance."
)
WHAT_CHANGED: Final = (
    "Find what changed there: a volume that is throttled, a disk or memory that is full, a file "
    "that is read from further and further in. Workers would only hide it."
)
ONE_IS_SLOW: Final = (
    "Find what worker {worker} does that others do not, such as in worker_init_fn, or where its "
    "files lie; until then in_order=False lets the others go ahead of it."
)
MORE_CPUS: Final = (
    "More CPUs, or less work for each sample: more workers than CPUs gain nothing here."
)
OTHERS_COMPUTE: Final = (
    "The main process and its workers use {used} of {cpus}. Look in top for the others: what "
    "samples start or ask, other ranks, other programs. End what need not run, and record again."
)
STEPS_COMPUTE: Final = (
    "More CPUs, or fewer threads in the steps (torch.set_num_threads): the main process uses "
    "{main} of {cpus}, all workers {workers}."
)
WHO_ELSE: Final = (
    "Workers compute on {workers} of {cpus}: find what else takes them, such as threads of the "
    "model (torch.set_num_threads) or other processes. Or give each sample less work."
)
LARGER_QUOTA: Final = "A larger CPU quota for the container, or fewer workers and threads."
SLOWEST_SAMPLES: Final = (
    "Look at the slowest samples (trace.samples, by end_s - start_s): store them as the others "
    "are, or leave them out; prefetch_factor={deeper} hides rare ones."
)
BEGIN_SOONER: Final = (
    "Do less before a stream's first sample, since each epoch does it anew: open files one after "
    "the other, and let a shuffle buffer give samples away while it fills."
)
WHAT_GROWS: Final = (
    "Find what grows: a cache, a list, a file read further and further; or data that is ordered by "
    "size, which shuffling spreads."
)
EQUAL_SHARES: Final = (
    "Give each worker an equal share: shard(iterable), or let num_workers divide the number of "
    "shards."
)
COLLATE_LESS: Final = (
    "A cheaper collate_fn: arrays of equal size in place of lists and padding; more workers "
    "collate side by side."
)
NEXT_TO_NOTHING: Final = 0.01  # of collating: samples are mere keys, and read there
COLLATE_MAKES_ALL: Final = (
    "collate_fn makes the batch here, as of a graph: a cheaper one, or more workers, of which some "
    "{more} gain most, replayed; recommend(loader) measures it."
)
LITTLE_SENT: Final = 4096  # bytes, a page: to copy them takes microseconds
TAKE_IT_SOONER: Final = (
    "Where little is sent, something keeps this process from taking it, such as a Python thread of "
    "a server or a logger, or other programs that use the CPUs."
)
SEND_FEWER: Final = (
    "Send few tensors in place of many, or of arrays, lists and dicts of numbers; where samples "
    f"are pure Python, sys.setswitchinterval(1e-4) in worker_init_fn. {TAKE_IT_SOONER}"
)
LARGER_BATCHES: Final = (
    "Torch takes about as long to hand any batch over, however little is in it: larger batches are "
    "handed over less often."
)
PIN_LESS: Final = "Return fewer, larger tensors; pin_memory=False if copies to the device are few."
COPY_MEANWHILE: Final = "to(device, non_blocking=True) from pinned memory."
ASK_FURTHER_AHEAD: Final = "prefetch_factor={deeper} asks for more batches in advance."
DRAW_AT_ONCE: Final = (
    "Draw all keys at once (torch.randperm) instead of one by one; what the sampler stops for now "
    "and then, such as a block that it reads, can be done ahead of time in a thread."
)
DRAW_FEWER: Final = (
    "Draw fewer keys: let one stand for a block of samples; or shuffle as you go, within a buffer, "
    "in place of all keys before the first batch."
)
KEEP_WORKERS: Final = "persistent_workers=True keeps the workers from one epoch to the next."
MAKE_IT_ONCE: Final = (
    "Make the loader once, before the loop, with persistent_workers=True: one that is made anew "
    "starts workers of its own."
)
ASK_ITS_LOADER: Final = (
    "The thread is no quicker than the loader that it asks, which recommend(loader, step_s=...) "
    "measures, and reads nothing ahead of an epoch's first batch."
)
KEEP_ITS_WORKERS: Final = "persistent_workers=True of that loader makes it sooner."
HELP_THE_THREAD: Final = (
    "By these times num_workers={more} of the loader that the thread asks make what the loop "
    "takes; recommend(loader, step_s=...) measures it."
)
ITS_OWN_WAY: Final = (
    "{name} makes its batches in its own way: try its settings, such as workers, threads and "
    "prefetching, and compare the recordings."
)
MEASURE: Final = "Measure it: recommend(loader) tests whether more workers help."


@dataclass(frozen=True)
class CaseOfACause:
    """One cause of waiting of one loader, and what is known of both.

    Attributes:
        cause: its name.
        trace: the recording.
        loader: the number of the loader.
        attribution: of this loader's waits.
        reading: of all batches of the trace.
        advised: how many workers the loader should have; None: nobody can tell.
        slowed: whether reading takes longer since some batch.
    """

    cause: str
    trace: Trace
    loader: int
    attribution: Attribution
    reading: Reading
    advised: int | None
    slowed: bool

    @cached_property
    def batches(self) -> pd.DataFrame:
        """Of the loader."""
        return self.trace.batches[self.trace.batches["loader"] == self.loader]

    @cached_property
    def workers(self) -> pd.DataFrame:
        """Of the loader."""
        return self.trace.workers[self.trace.workers["loader"] == self.loader]

    @cached_property
    def about(self) -> dict[str, Any]:
        """The loader as the recorder describes it."""
        return loader_description(self.trace.meta, self.loader)

    @property
    def deeper(self) -> int:
        """Batches for each worker that would be asked for further ahead."""
        return DEEP * (self.about.get("prefetch_factor") or PREFETCH_FACTOR)

    @property
    def reading_s(self) -> Any:
        """What reading each batch of the loader took its worker, in seconds."""
        return (self.batches["collate_s"] - self.batches["started_s"]).to_numpy()

    def takes_one_batch_an_epoch(self) -> bool:
        """Whether the loop took one batch of each epoch, and workers had been asked for more."""
        delivered = self.batches[self.batches["delivered_s"].notna()]
        epochs = delivered.groupby(["rank", "epoch"]).size()
        is_one = len(epochs) > 1 and (epochs == 1).all()
        return bool(is_one and len(self.batches) > len(delivered))


def evidence_and_cure(case: CaseOfACause) -> tuple[str, str]:
    """What in the tables, and in the kernel's books, shows a cause; and what to do about it."""
    evidence, cure = RULES[case.cause](case)
    more, better_cure = resources_of_workers(case.cause, case.trace, case.loader)
    pressed = _pressure(case.trace.meta) if case.cause in READ_WITH else ()
    return "; ".join([evidence, *more, *pressed]), better_cure or cure


def _pressure(meta: Mapping[str, Any]) -> Iterator[str]:
    """What some task of the machine waited for, where that is more than usual."""
    recorded_s = meta.get("recorded_s") or math.inf
    for resource, waited_s in (meta.get("pressure_s") or {}).items():
        if resource in PRESSED and waited_s > LEAST_PRESSURE * recorded_s:
            share = percent(min(waited_s / recorded_s, 1.0))
            yield f"something on the machine waited for {PRESSED[resource]} {share} of the time"


def _workers(case: CaseOfACause) -> tuple[str, str]:
    batches = case.batches
    rows = np.unique(case.attribution.row[case.attribution.of_cause(case.cause) > 0])
    waited_for = case.trace.batches.iloc[rows[rows >= 0]]
    read_s = waited_for["collate_s"] - waited_for["started_s"]
    step_s = batches["released_s"] - batches["delivered_s"]
    evidence = f"reading a batch takes {_usual(read_s)}, a step {_usual(step_s)}"
    # Of the first rank: each has workers of its own.
    slow = slow_worker(batches[batches["rank"] == batches["rank"].min()])
    if slow is not None:
        worker, times = slow
        evidence += f"; worker {worker} takes {times:.1f} times as long for a sample as others"
    if case.cause == "main_process":
        cure = LOAD_MEANWHILE if case.advised is not None else READ_AT_ONCE
    elif case.takes_one_batch_an_epoch():
        cure = KEEP_THE_ITERATOR
    elif case.slowed:
        cure = WHAT_CHANGED
    else:
        cure = MORE_WORKERS if slow is None else ONE_IS_SLOW.format(worker=slow[0])
    return evidence, cure.format(more=case.advised or "...")


def _cpu(case: CaseOfACause) -> tuple[str, str]:
    batches = case.batches
    lanes = batches.groupby(["rank", "epoch", "worker"])
    worked_s = max(float((lanes["ready_s"].max() - lanes["started_s"].min()).sum()), 1e-9)
    cpu_s = float(batches["process_cpu_s"].fillna(batches["cpu_s"]).sum())
    children_s, queued_s = (float(batches[name].sum()) for name in ("children_cpu_s", "queued_s"))
    evidence = f"workers compute {percent(cpu_s / worked_s)} of the time"
    if children_s > 0:
        evidence += f", {percent(children_s / max(cpu_s, 1e-9))} of it in child processes,"
    if queued_s > 0:
        evidence += f" and wait for a CPU {percent(queued_s / worked_s)}"
    return f"{evidence}, on {_cpus(case)}", _cure_of_full_cpus(case)


def _cure_of_full_cpus(case: CaseOfACause) -> str:
    used = CpusInUse.of(case.trace, case.loader)
    cure = MORE_CPUS
    if others_compute(case.trace, case.loader):
        cure = OTHERS_COMPUTE
    elif used.of_main > used.of_workers:
        cure = STEPS_COMPUTE
    elif used.of_workers < MOSTLY * case.trace.meta["cpu_allowance"]:
        cure = WHO_ELSE
    numbers = {"used": used.at_most, "main": used.of_main, "workers": used.of_workers}
    told = {name: f"{number:.2g}" for name, number in numbers.items()}
    return cure.format(cpus=_cpus(case), **told)


def _cpus(case: CaseOfACause) -> str:
    """How many there are, which is known where CPUs are a cause."""
    return count(case.trace.meta["cpu_allowance"], "CPU")


def _throttled(case: CaseOfACause) -> tuple[str, str]:
    batches = case.batches
    made_s = (batches["ready_s"] - batches["started_s"])[batches["throttled_s"].notna()].sum()
    stopped_s = np.minimum(batches["throttled_s"], batches["queued_s"]).sum()
    share = percent(stopped_s / max(made_s, 1e-9))
    quota = f" of {_cpus(case)}" if case.trace.meta.get("cpu_allowance") else ""
    return f"the CPU quota{quota} stopped the workers {share} of the time", LARGER_QUOTA


def _slow_samples(case: CaseOfACause) -> tuple[str, str]:
    samples = case.trace.samples[case.trace.samples["loader"] == case.loader]
    took_s = (samples["end_s"] - samples["start_s"]).to_numpy()
    which, cure = "sample", SLOWEST_SAMPLES.format(deeper=case.deeper)
    if case.about.get("kind") == "iterable" and _slowest_begins_a_stream(samples, took_s):
        which, cure = "sample, the first of a worker's stream,", BEGIN_SOONER
    slowest = duration(float(np.nanmax(took_s)))
    return f"the slowest {which} took {slowest}, most {_usual(took_s)}", cure


def _slowest_begins_a_stream(samples: pd.DataFrame, took_s: Any) -> bool:
    """Whether the slowest sample is the first of what one worker yields in an epoch."""
    slowest = samples.iloc[int(np.nanargmax(took_s))]
    stream = ["rank", "epoch", "worker"]
    return bool(slowest["start_s"] == samples.groupby(stream)["start_s"].min()[*slowest[stream]])


def _drift(case: CaseOfACause) -> tuple[str, str]:
    each_s = case.reading_s / np.maximum(case.batches["n_samples"].to_numpy(), 1)
    part = max(1, len(each_s) // 8)
    first, last = _usual(each_s[:part]), _usual(each_s[-part:])
    return f"a sample takes {first} at first, {last} later", WHAT_GROWS


def _collate(case: CaseOfACause) -> tuple[str, str]:
    collating_s = case.batches["ready_s"] - case.batches["collate_s"]
    times = _usual(collating_s), _usual(case.reading_s)
    evidence = "collating a batch takes {}, reading it {}".format(*times)
    is_all = np.nanmedian(case.reading_s) < NEXT_TO_NOTHING * np.nanmedian(collating_s)
    if is_all and case.advised is not None:
        return evidence, COLLATE_MAKES_ALL.format(more=case.advised)
    return evidence, COLLATE_LESS


def _handover(case: CaseOfACause) -> tuple[str, str]:
    lay_ready_s = _handed_over_s(case.trace, case.attribution)
    which, handed_s = "that lay ready", lay_ready_s
    if not len(lay_ready_s):
        of_batches = case.attribution.row >= 0
        which, handed_s = "once it is made", case.attribution.of_cause("handover")[of_batches]
    evidence = f"handing over a batch {which} takes {_usual(handed_s)}"
    n_bytes = case.batches["n_bytes"].median()
    if n_bytes > 0:
        evidence += f"; one has {size(n_bytes)}"
    if len(lay_ready_s) > 0 and np.median(lay_ready_s) < USUAL_HANDOVER_S:
        return evidence, LARGER_BATCHES
    return evidence, TAKE_IT_SOONER if 0 < n_bytes <= LITTLE_SENT else SEND_FEWER


def _handed_over_s(trace: Trace, attribution: Attribution) -> Any:
    """Of each batch that lay ready, how long it was handed over, keys that were drawn left out."""
    rows = attribution.row
    ready_s, requested_s = (trace.batches[name].to_numpy() for name in ("ready_s", "requested_s"))
    lay_ready = (rows >= 0) & (ready_s[rows] <= requested_s[rows])
    return attribution.of_cause("handover")[lay_ready]


def _sampler(case: CaseOfACause) -> tuple[str, str]:
    """RandomSampler and others draw all keys before the first batch (torch/utils/data/sampler.py).

    That is told apart where it takes most of the time of the sampler.
    """
    drawing_s = case.batches["dispatched_s"] - case.batches["drawing_s"]
    first = case.batches["batch"] == 0
    if 2 * drawing_s[first].sum() > drawing_s.sum():
        evidence = f"drawing keys takes {_usual(drawing_s[first])} before the first batch of an "
        return f"{evidence}epoch, {_usual(drawing_s[~first])} for each after it", DRAW_FEWER
    evidence = f"drawing the keys of a batch takes {_usual(drawing_s)}"
    return f"{evidence}, at most {duration(float(drawing_s.max()))}", DRAW_AT_ONCE


def _start(case: CaseOfACause) -> tuple[str, str]:
    set_up_s = case.reading.slow.set_up_s.get(case.loader, math.nan)
    evidence = describe_starts(case.workers, set_up_s)
    if case.cause == "restart" and lives(case.trace.meta, case.loader) > 1:
        return evidence, MAKE_IT_ONCE
    if case.cause == "restart" and case.takes_one_batch_an_epoch():
        return evidence, KEEP_THE_ITERATOR
    cure = cure_of_starts(case.workers, set_up_s, is_stream=case.about.get("kind") == "iterable")
    if cure is None:
        return evidence, BEGIN_SOONER
    return evidence, KEEP_WORKERS if case.cause == "restart" else cure


def _unknown(case: CaseOfACause) -> tuple[str, str]:
    if hands_over(case.trace.meta, case.loader):
        return _hand_over(case)
    if is_unseen(case.batches):
        cure = ITS_OWN_WAY.format(name=case.about.get("class", "The loader"))
        return "the loader's own work is not seen", cure
    own = (case.trace.batches["loader"] == case.loader).to_numpy()
    if (case.reading.by_cause["unknown"][own] > 0).any():
        waits = "samples wait for one another: they take longer the more workers read at once"
        return waits, MEASURE
    return "the recording does not tell what its workers did then", MEASURE


def _hand_over(case: CaseOfACause) -> tuple[str, str]:
    """Of what hands over the batches that a thread reads ahead, from a loader that is recorded."""
    evidence, batches = "the thread that reads ahead has no batch ready", case.trace.batches
    inner = handed_over(case.trace)
    if len(inner) != 1:
        return evidence, ASK_ITS_LOADER
    made = batches[batches["loader"] == inner[0]]
    making_s = float(np.nanmedian(made["ready_s"] - made["started_s"]))
    step_s = float(np.nanmedian(case.batches["released_s"] - case.batches["delivered_s"]))
    now = loader_description(case.trace.meta, inner[0]).get("num_workers") or 0
    if not making_s > max(1, now) * step_s:
        kept = f" {KEEP_ITS_WORKERS}" if now else ""
        return evidence, ASK_ITS_LOADER + kept
    cpus = float(case.trace.meta.get("cpu_allowance") or 1.0)
    cpu_s = float(np.nan_to_num(np.fmax(made["cpu_s"], made["process_cpu_s"])).mean())
    enough = making_s / max(step_s, cpu_s / cpus if cpu_s > 0 else 0.0, 1e-9)
    more = min(math.ceil(enough), most_workers(cpus))
    evidence += f"; a batch of its loader takes {duration(making_s)}, a step {duration(step_s)}"
    return evidence, HELP_THE_THREAD.format(more=more) if more > now else ASK_ITS_LOADER


def _by_its_seconds(cure: str) -> Callable[[CaseOfACause], tuple[str, str]]:
    """The rule of a cause that nothing but its own seconds shows."""

    def rule(case: CaseOfACause) -> tuple[str, str]:
        seconds = case.attribution.totals()[case.cause]
        return f"{duration(seconds)} of the waits", cure.format(deeper=case.deeper)

    return rule


RULES: Final[Mapping[str, Callable[[CaseOfACause], tuple[str, str]]]] = {
    "start": _start,
    "restart": _start,
    "workers": _workers,
    "main_process": _workers,
    "cpu": _cpu,
    "throttled": _throttled,
    "slow_samples": _slow_samples,
    "drift": _drift,
    "uneven": _by_its_seconds(EQUAL_SHARES),
    "collate": _collate,
    "handover": _handover,
    "pin": _by_its_seconds(PIN_LESS),
    "copy": _by_its_seconds(COPY_MEANWHILE),
    "sampler": _sampler,
    "prefetch": _by_its_seconds(ASK_FURTHER_AHEAD),
    "unknown": _unknown,
}


def _usual(seconds: Any) -> str:
    """The median, NaN left out."""
    values = np.asarray(seconds, np.float64)
    values = values[~np.isnan(values)]
    return duration(float(np.median(values))) if len(values) else "an unknown time"
