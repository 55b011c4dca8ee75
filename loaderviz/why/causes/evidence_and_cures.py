"""What shows a cause, in numbers of the recording, and what to do about it: a sentence each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.text import count, duration, percent, size
from loaderviz.trace.described_loaders import hands_over, loader_description
from loaderviz.trace.loaders_as_one import lives
from loaderviz.why.causes.parts_of_a_start import (
    cure_of_starts,
    describe_starts,
    parts_of_a_start,
)
from loaderviz.why.causes.resources_of_workers import cure_of_resources, evidence_of_resources
from loaderviz.why.causes.sampler_texts import cure_of_sampler, evidence_of_sampler, usual
from loaderviz.why.loader_share import is_unseen
from loaderviz.why.small_batches import handed_over_s, keeps_small_batches, takes_as_usual
from loaderviz.why.unlike_workers import slow_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from loaderviz.trace import Trace
    from loaderviz.why.attribution import Attribution
    from loaderviz.why.reading_time import Reading

MOSTLY: Final = 0.5  # of the waiting
LEAST_PRESSURE = 0.1  # of the time: less is usual
CHILDREN = 0.5  # of the CPU time: mostly child processes compute
PRESSED: Final = {"cpu": "a CPU", "io": "I/O", "memory": "memory"}
PRESSING: Final = {  # what may be behind a cause
    "workers": ("io", "memory"),
    "main_process": ("io", "memory"),
    "unknown": ("io", "memory"),
    "cpu": ("cpu",),
}
CURES: Final = {
    "start": "Do less at start-up: open files and load arrays in the worker, on first use; "
    "persistent_workers=True keeps workers for later epochs.",
    "restart": "persistent_workers=True keeps the workers from one epoch to the next.",
    "workers": "More workers: some {more} gain most, replayed; recommend(loader) measures it.",
    "cpu": "More CPUs, or less work for each sample: more workers than CPUs gain nothing here.",
    "throttled": "A larger CPU quota for the container, or fewer workers and threads.",
    "slow_samples": "Look at the slowest samples (trace.samples, by end_s - start_s): store them "
    "as the others are, or leave them out; prefetch_factor={deeper} hides rare ones.",
    "drift": "Find what grows: a cache, a list, a file read further and further; or data that is "
    "ordered by size, which shuffling spreads.",
    "uneven": "Give each worker an equal share: shard(iterable), or let num_workers divide the "
    "number of shards.",
    "collate": "A cheaper collate_fn: arrays of equal size in place of lists and padding; more "
    "workers collate side by side.",
    "handover": "Send few tensors in place of many, or of arrays, lists and dicts of numbers; "
    "where samples are pure Python, sys.setswitchinterval(1e-4) in worker_init_fn.",
    "pin": "Return fewer, larger tensors; pin_memory=False if copies to the device are few.",
    "copy": "to(device, non_blocking=True) from pinned memory.",
    "prefetch": "prefetch_factor={deeper} asks for more batches in advance.",
    "main_process": "num_workers={more} loads while the model steps; recommend(loader) measures "
    "it.",
    "unknown": "Measure it: recommend(loader) tests whether more workers help.",
}
AT_ONCE: Final = (
    "Read the samples of a batch at once (__getitems__), or make batches larger. A worker would "
    "take about as long to hand a batch over: whether it pays, recommend(loader) measures."
)
AS_USUAL: Final = (
    "Torch takes about as long to hand any batch over, however little is in it: larger batches are "
    "handed over less often."
)
READ_AHEAD: Final = (
    "The thread is as quick as the loader that it asks: more workers or cheaper samples there; "
    "recommend(loader, step_s=...) measures."
)
BEGINS_ANEW: Final = (
    "Nothing is read ahead of an epoch's first batch: longer epochs wait less often, and "
    "persistent_workers=True of the loader that the thread asks makes it sooner."
)
LITTLE_IS_SENT: Final = (
    "Little is sent, and workers compute little: something else keeps this process from taking "
    "it, such as a Python thread of a server or a logger, for which sys.setswitchinterval(1e-4) "
    "here makes way sooner; or other processes have its CPUs."
)
BEGIN_SOONER: Final = (
    "Do less before a stream's first sample, since each epoch does it anew: open files one after "
    "the other, and let a shuffle buffer give samples away while it fills."
)
WHAT_CHANGED: Final = (
    "Find what changed there: a volume that is throttled, a disk or memory that is full, a file "
    "that is read from further and further in. Workers would only hide it."
)
KEEP_THE_ITERATOR: Final = (
    "Keep the iterator: batches = iter(loader), then next(batches). next(iter(loader)) begins an "
    "epoch for each batch, and drops what workers have made in advance."
)
MAKE_IT_ONCE: Final = (
    "Make the loader once, before the loop, with persistent_workers=True: one that is made anew "
    "starts workers of its own."
)
ONE_IS_SLOW: Final = (
    "Find what worker {worker} does that others do not, such as in worker_init_fn, or where its "
    "files lie; until then in_order=False lets the others go ahead of it."
)


def cure_of(
    cause: str,
    trace: Trace,
    loader: int,
    attribution: Attribution,
    reading: Reading,
    advised: int | None,
    slowed: bool,
) -> str:
    """What to do about a cause, with numbers for the settings of this loader.

    ``attribution``: of this loader's waits; ``advised``: how many workers it should have;
    ``slowed``: whether reading takes longer since some batch.
    """
    about = loader_description(trace.meta, loader)
    deep = about.get("prefetch_factor")
    if cause == "unknown" and hands_over(trace.meta, loader):
        return BEGINS_ANEW if _mostly_first(trace, attribution) else READ_AHEAD
    if cause == "unknown" and is_unseen(_of_loader(trace.batches, loader)):
        return (
            f"{about.get('class', 'The loader')} makes its batches in its own way: try its "
            "settings, such as workers, threads and prefetching, and compare the recordings."
        )
    if cure := cure_of_resources(cause, trace, loader):
        return cure
    if cause == "handover":
        handed_s = handed_over_s(trace, attribution)
        if keeps_small_batches(_of_loader(trace.batches, loader), handed_s):
            return LITTLE_IS_SENT
        if takes_as_usual(_of_loader(trace.batches, loader), handed_s):
            return AS_USUAL
    if cause == "main_process" and advised is None:
        return AT_ONCE
    if cause == "sampler":
        return cure_of_sampler(_of_loader(trace.batches, loader))
    if cause == "restart" and lives(trace.meta, loader) > 1:
        return MAKE_IT_ONCE
    if cause in ("restart", "workers") and _one_batch_each(_of_loader(trace.batches, loader)):
        return KEEP_THE_ITERATOR
    if cause == "workers":
        if slowed:
            return WHAT_CHANGED
        slow = slow_worker(_of_one_rank(_of_loader(trace.batches, loader)))
        if slow is not None:
            return ONE_IS_SLOW.format(worker=slow[0])
    if cause == "slow_samples" and _slowest_begins_a_stream(trace, loader):
        return BEGIN_SOONER
    if cause in ("start", "restart"):
        starts = _of_loader(trace.workers, loader)
        set_up_s = reading.set_up_s.get(loader, math.nan)
        if about.get("kind") == "iterable" and set_up_s >= sum(parts_of_a_start(starts).values()):
            return BEGIN_SOONER
        if cause == "start":
            return cure_of_starts(starts, set_up_s, otherwise=CURES[cause])
    return CURES[cause].format(
        more=advised or "...",
        deeper=8 if deep is None else 4 * max(2, deep),
    )


def evidence_of(
    cause: str, trace: Trace, loader: int, attribution: Attribution, reading: Reading
) -> str:
    """What in the tables shows that cause, and in the kernel's books of the machine."""
    shown = _in_tables(cause, trace, loader, attribution, reading)
    used = evidence_of_resources(cause, trace, loader)
    return "; ".join([shown, *used, *_pressure(cause, trace.meta)])


def _pressure(cause: str, meta: Mapping[str, Any]) -> Iterator[str]:
    """What tasks of the machine waited for, where that may be what this cause is about."""
    pressure_s, recorded_s = meta.get("pressure_s"), meta.get("recorded_s")
    if pressure_s is None or recorded_s is None:
        return
    for resource in PRESSING.get(cause, ()):
        waited_s = pressure_s.get(resource)
        if waited_s is not None and waited_s > LEAST_PRESSURE * recorded_s > 0:
            share = percent(min(waited_s / recorded_s, 1.0))
            yield f"something on the machine waited for {PRESSED[resource]} {share} of the time"


def _mostly_first(trace: Trace, attribution: Attribution) -> bool:
    """Whether most of the waiting of a loader, whose waits these are, is for first batches."""
    of_batches = attribution.row >= 0
    waited_s = attribution.seconds.sum(axis=1)[of_batches]
    first = trace.batches["batch"].to_numpy()[attribution.row[of_batches]] == 0
    return bool(waited_s[first].sum() > MOSTLY * waited_s.sum())


def _in_tables(
    cause: str, trace: Trace, loader: int, attribution: Attribution, reading: Reading
) -> str:
    """For most causes it is their usual times."""
    batches = _of_loader(trace.batches, loader)
    reading_s = (batches["collate_s"] - batches["started_s"]).to_numpy()
    if cause in ("workers", "main_process"):
        step_s = batches["released_s"] - batches["delivered_s"]
        rows = np.unique(attribution.row[attribution.of_cause(cause) > 0])
        waited_for = trace.batches.iloc[rows[rows >= 0]]
        reading_s = (waited_for["collate_s"] - waited_for["started_s"]).to_numpy()
        text = f"reading a batch takes {usual(reading_s)}, a step {usual(step_s)}"
        slow = slow_worker(_of_one_rank(batches))
        if slow is not None:
            text += f"; worker {slow[0]} takes {slow[1]:.1f} times as long for a sample as others"
        return text
    if cause == "collate":
        collating_s = batches["ready_s"] - batches["collate_s"]
        return f"collating a batch takes {usual(collating_s)}, reading it {usual(reading_s)}"
    if cause == "handover":
        handed_s = handed_over_s(trace, attribution)
        which = "that lay ready"
        if not len(handed_s):
            which, handed_s = "once it is made", attribution.of_cause(cause)[attribution.row >= 0]
        text = f"handing over a batch {which} takes {usual(handed_s)}"
        n_bytes = batches["n_bytes"].median()
        return f"{text}; one has {size(n_bytes)}" if n_bytes > 0 else text
    if cause == "sampler":
        return evidence_of_sampler(batches)
    if cause == "cpu":
        return _of_cpus(trace, batches)
    if cause == "throttled":
        made_s = (batches["ready_s"] - batches["started_s"])[batches["throttled_s"].notna()].sum()
        stopped_s = np.minimum(batches["throttled_s"], batches["queued_s"]).sum()
        share = percent(stopped_s / max(made_s, 1e-9))
        return f"the CPU quota{_cpus(trace, ' of')} stopped the workers {share} of the time"
    if cause in ("start", "restart"):
        set_up_s = reading.set_up_s.get(loader, math.nan)
        return describe_starts(_of_loader(trace.workers, loader), set_up_s)
    if cause == "slow_samples":
        samples = _of_loader(trace.samples, loader)
        took_s = (samples["end_s"] - samples["start_s"]).to_numpy()
        which = "sample"
        if _slowest_begins_a_stream(trace, loader):
            which = "sample, the first of a worker's stream,"
        return f"the slowest {which} took {duration(np.nanmax(took_s))}, most {usual(took_s)}"
    if cause == "drift":
        each_s = reading_s / np.maximum(batches["n_samples"].to_numpy(), 1)
        part = max(1, len(each_s) // 8)
        return f"a sample takes {usual(each_s[:part])} at first, {usual(each_s[-part:])} later"
    if cause == "unknown":
        own = (trace.batches["loader"] == loader).to_numpy()
        if hands_over(trace.meta, loader):
            if _mostly_first(trace, attribution):
                return "the thread that reads ahead begins anew with each epoch"
            return "the thread that reads ahead has no batch ready"
        if is_unseen(batches):
            return "the loader's own work is not seen"
        if (reading.by_cause["unknown"][own] > 0).any():
            return "samples wait for one another: they take longer the more workers read at once"
        return "the recording does not tell what its workers did then"
    return f"{duration(attribution.totals()[cause])} of the waits"


def _one_batch_each(batches: pd.DataFrame) -> bool:
    """Whether the loop took one batch of each epoch, and workers had been asked for more."""
    delivered = batches[batches["delivered_s"].notna()]
    epochs = delivered.groupby(["rank", "epoch"]).size()
    return bool(len(epochs) > 1 and (epochs == 1).all() and len(batches) > len(delivered))


def _slowest_begins_a_stream(trace: Trace, loader: int) -> bool:
    """Whether the slowest sample is the first of what one worker yields in an epoch."""
    samples = _of_loader(trace.samples, loader)
    if loader_description(trace.meta, loader).get("kind") != "iterable":
        return False
    start_s = samples["start_s"].to_numpy()
    slowest = int(np.nanargmax(samples["end_s"].to_numpy() - start_s))
    its_stream = np.ones(len(samples), bool)
    for name in ("rank", "epoch", "worker"):
        its_stream &= samples[name].to_numpy() == samples[name].to_numpy()[slowest]
    return bool(start_s[slowest] == np.nanmin(start_s[its_stream]))


def _of_cpus(trace: Trace, batches: pd.DataFrame) -> str:
    lanes = batches.groupby(["rank", "epoch", "worker"])
    worked_s = max(float((lanes["ready_s"].max() - lanes["started_s"].min()).sum()), 1e-9)
    cpu_s = float(batches["process_cpu_s"].fillna(batches["cpu_s"]).sum())
    waiting = float(batches["queued_s"].sum())
    text = f"workers compute {percent(cpu_s / worked_s)} of the time"
    children = float(batches["children_cpu_s"].sum()) / max(cpu_s, 1e-9)
    if children >= CHILDREN:
        text += f", {percent(children)} of it in child processes,"
    if waiting > 0:
        text += f" and wait for a CPU {percent(waiting / worked_s)}"
    return text + _cpus(trace, ", on")


def _cpus(trace: Trace, how: str) -> str:
    cores = trace.meta.get("cpu_allowance")
    return f"{how} {count(cores, 'CPU')}" if cores else ""


def _of_loader(table: pd.DataFrame, loader: int) -> pd.DataFrame:
    return table[table["loader"] == loader]


def _of_one_rank(batches: pd.DataFrame) -> pd.DataFrame:
    """Those of the first rank: each has workers of its own."""
    return batches[batches["rank"] == int(batches["rank"].min())] if len(batches) else batches
