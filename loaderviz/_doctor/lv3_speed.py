"""LV3xx: time lost. Found only if enough was measured and the loss is clear."""

from __future__ import annotations

import math
import os
from statistics import median
from typing import Any

import numpy as np

from loaderviz import machine
from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.examination_runs import Epoch
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.process_state import allowed_cpus
from loaderviz.text import duration, percent

LEAST_BATCHES = 20  # to measure a pace
MUCH_SLOWER = 1.5  # times as long as without workers
CHEAP_BATCH_S = 0.02  # a batch that takes less needs no worker
STALL_SHARE = 0.3  # of the time that finished batches wait behind an unfinished one
STALL_S = 0.05  # in one epoch: less may be due to a busy machine
UNEVEN = 3.0  # the slowest batch, in medians
START_SHARE = 0.5  # of an epoch that passes before its first batch
LONG_START_S = 0.5  # a shorter start is not worth a change, and may be due to a busy machine
CROWDED = 1.25  # CPUs wanted for each that is allowed
NEARLY_ALL_CPUS = 0.85  # share of those that are allowed: the main process needs some, too
UNPICKLING_SHARE = 0.2  # of the time between two batches
MANY_OBJECTS = 1000  # in a batch
LEAST_SPAN_S = 0.05  # to measure CPU time


def _require_batches(epoch: Epoch, least: int = LEAST_BATCHES) -> Epoch:
    if len(epoch.notes) < least:
        raise Undecided(f"{len(epoch.notes)} batches are too few to measure a pace")
    return epoch


@check(
    "LV301",
    "num_workers=0, and each batch takes long to make",
    "advice",
    notebook=7,
    threads="23048",
    recorded=True,
)
def _no_workers(case: Case) -> Seen | None:
    if case.setup.num_workers:
        return None
    epoch = _require_batches(case.epoch(), 4)
    pace_s = min(_require_batches(case.epoch(number), 4).pace_s for number in (0, 1))
    if pace_s < CHEAP_BATCH_S:
        return None
    unpickle_s = case.contents.unpickle_s if case.contents is not None else 0.0
    if unpickle_s > UNPICKLING_SHARE * pace_s:
        return None  # a worker would only move the cost
    last, first = epoch.notes[-1], epoch.notes[0]
    busy = (last.cpu_s - first.cpu_s) / max(last.at_s - first.at_s, 1e-9)
    allowed = case.cpus_allowed
    useful = math.floor(allowed / busy) if busy > 0.1 else 8
    workers = max(1, min(useful, 8))
    return seen(
        f"making a batch takes {duration(pace_s)} in the main process, and each training step "
        "waits for it",
        f"that keeps {percent(busy)} of one CPU busy; this process may use {allowed:g}",
        f"predicted: {workers} workers would deliver a batch every {duration(pace_s / workers)}",
        fix=f"""
DataLoader(dataset, num_workers={workers}, persistent_workers=True)
# then measure: with loaderviz.record(loader) as rec: ...; print(rec.trace.summary())
""",
    )


@check(
    "LV302",
    "Workers are slower than none",
    "advice",
    notebook=3,
    threads="Lightning-AI/pytorch-lightning#17410",
    recorded=True,
)
def _slower_than_none(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers:
        return None
    with_s = min(_require_batches(case.epoch(number)).pace_s for number in (0, 1))
    without_s = _require_batches(case.epoch_without_workers()).pace_s
    trace = case.trace
    made_s = math.inf
    if trace is not None:
        made_s = float((trace.batches["ready_s"] - trace.batches["started_s"]).median())
    if with_s < MUCH_SLOWER * max(without_s, made_s / setup.num_workers):
        return None  # not slower, or because making a batch takes longer in a worker
    return seen(
        f"the loop waits {duration(with_s)} per batch for {setup.num_workers} workers, and making "
        f"one takes {duration(without_s)}: without workers the loop would not wait longer"
        if case.recording is not None
        else f"once started, {setup.num_workers} workers deliver a batch every {duration(with_s)}, "
        f"and the main process alone delivers one every {duration(without_s)}",
        "making a batch costs less than moving it from one process to another",
        fix="""
DataLoader(dataset, num_workers=0)
# or read in bulk, in larger batches: def __getitems__(self, indices): ...
""",
    )


@check(
    "LV303",
    "Finished batches wait behind a slow one",
    "advice",
    notebook=3,
    threads="105203 135409",
    recorded=True,
)
def _head_of_line(case: Case) -> Seen | None:
    setup = case.setup
    if setup.num_workers < 2 or not setup.settings.get("in_order", True):
        return None
    _require_batches(case.epoch(), 2 * setup.num_workers)
    trace = case.trace
    if trace is None:
        raise Undecided("the recording was lost")
    measures = []
    least_stalled_s = math.inf
    for number in (0, 1):
        batches = trace.batches[trace.batches["epoch"] == number]
        batches = batches[batches["delivered_s"].notna()].sort_values("delivered_s")
        made_s = (batches["ready_s"] - batches["started_s"]).to_numpy()
        if len(made_s) < 2 * setup.num_workers:
            raise Undecided("too few batches to tell")
        stalled_s, span_s = _stalled_and_span_s(batches)
        least_stalled_s = min(least_stalled_s, stalled_s)
        measures.append((stalled_s / span_s, float(np.max(made_s) / max(np.median(made_s), 1e-9))))
    stall_share, uneven = min(measures)
    if stall_share < STALL_SHARE or uneven < UNEVEN or least_stalled_s < STALL_S:
        return None
    return seen(
        f"for {percent(stall_share)} of the time the loop waits while later batches are ready",
        f"making the slowest batch takes {uneven:.1f} times as long as the median",
        fix="""
DataLoader(dataset, in_order=False)  # where the order of batches need not be reproduced
# or even out the cost: mix slow and fast samples in each batch
""",
    )


def _stalled_and_span_s(batches: Any) -> tuple[float, float]:
    """Seconds that the consumer waits while a later batch is ready, and seconds in all."""
    ready, requested = batches["ready_s"].to_numpy(), batches["requested_s"].to_numpy()
    earliest_from = np.fmin.accumulate(ready[::-1])[::-1]  # when one of batches i, i + 1, ... is
    stalled_s = ready[1:-1] - np.fmax(requested[1:-1], earliest_from[2:])
    span_s = float(batches["delivered_s"].max() - requested[1])
    return float(np.nansum(stalled_s.clip(0))), max(span_s, 1e-9)


@check(
    "LV304",
    "Most of each epoch passes before its first batch",
    "advice",
    notebook=3,
    threads="15849",
    recorded=True,
)
def _slow_start(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or setup.persistent:
        return None
    least = 8 if case.recording is None else 1  # there the reader chose how short an epoch is
    epochs = [_require_batches(case.complete_epoch(number), least) for number in (0, 1)]
    shares = [epoch.first_s / epoch.delivered_s[-1] for epoch in epochs]
    if min(shares) < START_SHARE or min(epoch.first_s for epoch in epochs) < LONG_START_S:
        return None
    return seen(
        f"{percent(min(shares))} of the time of each epoch passes before its first batch: "
        f"{' and '.join(duration(epoch.first_s) for epoch in epochs)}",
        f"each epoch starts {setup.num_workers} workers ({setup.start_method}) for "
        f"{len(epochs[0].notes)} batches, and ends them again",
        fix="""
DataLoader(dataset, persistent_workers=True)  # workers stay from epoch to epoch
# and keep one iterator: next(iter(loader)) in a loop starts workers for each batch
""",
    )


@check(
    "LV305",
    "More workers than CPUs that this process may use",
    "advice",
    notebook=7,
    threads="101850 python/cpython#80235",
    recorded=True,
)
def _too_many_workers(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers:
        return None
    if case.recording is not None:
        return _crowded(case)
    n_ranks = machine.local_world_size() or 1
    allowed = machine.cpu_allowance()
    workers = setup.num_workers * n_ranks
    if case.ran:
        confined = _confined(case)
        if confined is not None:
            return confined
    if workers <= allowed:
        return None
    workers_text = (
        f"{workers} workers (on {n_ranks} ranks)" if n_ranks > 1 else f"{workers} workers"
    )
    if not case.ran:
        raise Undecided(
            f"{workers_text} for {allowed:g} CPUs: this matters if they compute; {case.why_not_run}"
        )
    wanted, used = _cpus_wanted_and_used(case)
    if wanted * n_ranks < CROWDED * allowed:
        return None
    return seen(
        f"{workers_text} need {wanted * n_ranks:.1f} CPUs, but only {allowed:g} are allowed "
        f"(affinity and container quota; os.cpu_count() is {os.cpu_count()})",
        f"of the time that they were ready to compute, they had a CPU for {percent(used / wanted)}",
        fix=f"DataLoader(dataset, num_workers={max(1, int(allowed / n_ranks))})",
    )


def _crowded(case: Case) -> Seen | None:
    """Judged by CPU time: a recording does not say how long workers had to wait for a CPU."""
    workers, allowed, used = case.setup.num_workers, case.cpus_allowed, _cpus_used(case)
    if workers <= allowed or used < NEARLY_ALL_CPUS * allowed:
        return None
    return seen(
        f"{workers} workers keep {used:.1f} CPUs busy, and only {allowed:g} are allowed (affinity "
        "and container quota)",
        fix=f"DataLoader(dataset, num_workers={max(1, int(allowed))})",
    )


def _cpus_used(case: Case) -> float:
    """CPUs that the workers kept busy while batches came, in the epoch where they were fewest."""
    cpus_by_epoch = []
    for number in (0, 1):
        epoch = _require_batches(case.epoch(number))
        span_s = epoch.delivered_s[-1] - epoch.delivered_s[0]
        by_pid = {note.pid: note.cpu_s for note in epoch.notes}
        cpus_by_epoch.append(sum(by_pid.values()) / max(span_s, 1e-9))
    if math.isnan(sum(cpus_by_epoch)):
        raise Undecided("the recording does not hold the CPU time of the workers")
    return min(cpus_by_epoch)


def _confined(case: Case) -> Seen | None:
    """Workers that may run on fewer CPUs than the main process."""
    n_allowed = len(allowed_cpus())
    worker_cpus = {cpu for note in case.epoch().notes for cpu in note.cpus}
    n_workers = len({note.worker for note in case.epoch().notes})
    if len(worker_cpus) >= min(n_allowed, n_workers) or (n_allowed > 1) < (n_workers > 1):
        return None
    return seen(
        f"the main process may run on {n_allowed} CPUs, but all its {n_workers} workers only on "
        f"{sorted(worker_cpus)}: something that they import or run sets their affinity",
        fix=f"""
def free_cpus(worker_id):  # as worker_init_fn
    os.sched_setaffinity(0, range({n_allowed}))
""",
    )


def _cpus_wanted_and_used(case: Case) -> tuple[float, float]:
    """CPUs that the workers need while they run, and those that they get."""
    wanted = used = 0.0
    longest_s = 0.0
    for number in (0, 1):
        epoch_wanted = epoch_used = 0.0
        notes_by_pid: dict[int, list[Note]] = {}
        for note in case.epoch(number).notes:
            notes_by_pid.setdefault(note.pid, []).append(note)
        for first, *_, last in (notes for notes in notes_by_pid.values() if len(notes) > 1):
            time_s = max(last.at_s - first.at_s, 1e-9)
            cpu_s = last.cpu_s - first.cpu_s
            delay_s = last.delay_s - first.delay_s
            longest_s = max(longest_s, time_s)
            epoch_used += cpu_s / time_s
            if math.isnan(delay_s):
                raise Undecided("this system does not say how long workers wait for a CPU")
            epoch_wanted += (cpu_s + delay_s) / time_s
        if not number or epoch_wanted < wanted:
            wanted, used = epoch_wanted, epoch_used
    if longest_s < LEAST_SPAN_S or wanted == 0:
        raise Undecided("the run was too short to measure how many CPUs the workers need")
    return wanted, used


@check(
    "LV306",
    "Batches are slow to hand over, or cannot be pinned",
    "advice",
    notebook=8,
    threads="24984 77139",
)
def _slow_handover(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers and not setup.settings["pin_memory"]:
        return None
    epoch, contents = case.epoch(), case.contents
    if contents is None:
        raise Undecided("no batch was inspected")
    if setup.settings["pin_memory"] and contents.cannot_pin:
        return seen(
            f"pin_memory=True, but torch does not pin {contents.cannot_pin}, which holds tensors "
            "and has no pin_memory() (torch/utils/data/_utils/pin_memory.py)",
            fix=f"""
class {contents.cannot_pin}:
    def pin_memory(self):
        self.inputs = self.inputs.pin_memory()  # each tensor that it holds
        return self
""",
        )
    if not setup.num_workers or contents.n_others < MANY_OBJECTS or len(epoch.notes) < 2:
        return None
    between_s = median(np.diff(epoch.delivered_s).tolist())
    if math.isnan(contents.unpickle_s) or contents.unpickle_s < UNPICKLING_SHARE * between_s:
        return None
    return seen(
        f"a batch holds {contents.n_others:,} Python objects besides {contents.n_tensors} tensors",
        f"unpickling them takes the main process {duration(contents.unpickle_s)} of the "
        f"{duration(between_s)} between two batches",
        fix="""
def collate(samples):  # as collate_fn: tensors travel by shared memory
    return torch.as_tensor(samples)
""",
    )
