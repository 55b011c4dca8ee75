"""LV3xx: time lost. Only where enough was measured, and where the loss is plain to see."""

from __future__ import annotations

import math
import os
from statistics import median
from typing import Any

import numpy as np

from loaderviz import machine
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.examination_runs import Epoch
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.process_state import cpus
from loaderviz.text import duration, percent

ENOUGH = 20  # batches to compare paces
SLOWER = 1.5  # times as long as without workers
WORTH_S = 0.02  # a batch that takes less needs no worker
STALLED = 0.3  # share of the time that finished batches lie behind an unfinished one
STALLED_S = 0.05  # of an epoch in all: less may be a busy machine
UNEVEN = 3.0  # the dearest batch, in medians
AT_THE_START = 0.5  # share of an epoch that passes before its first batch
LONG_START_S = 0.5  # a shorter start is not worth a change, and may be a busy machine
CROWDED = 1.25  # CPUs wanted for each that is allowed
CROWDED_OUT = 0.85  # of the CPUs that are allowed: the rest goes to the main process
UNPICKLING = 0.2  # share of the time between two batches
MANY = 1000  # Python objects in a batch
BETWEEN_S = 0.05  # of a measure of CPU time: less is too short


def _enough(epoch: Epoch, least: int = ENOUGH) -> Epoch:
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
def no_workers(case: Case) -> Seen | None:
    if case.setup.num_workers:
        return None
    epoch = _enough(case.epoch(), 4)
    pace_s = min(_enough(case.epoch(number), 4).pace_s for number in (0, 1))
    if pace_s < WORTH_S:
        return None
    moving_s = case.contents.unpickle_s if case.contents is not None else 0.0
    if moving_s > UNPICKLING * pace_s:
        return None  # a worker would only move the cost
    last, first = epoch.notes[-1], epoch.notes[0]
    busy = (last.cpu_s - first.cpu_s) / max(last.at_s - first.at_s, 1e-9)
    allowed = case.cpus_allowed
    useful = math.floor(allowed / busy) if busy > 0.1 else 8
    workers = max(1, min(useful, 8))
    return seen(
        f"a batch takes {duration(pace_s)} in the main process, and each step of the training "
        "waits for it",
        f"making it keeps {percent(busy)} of a CPU busy, of the {allowed:g} that this process "
        "may use",
        f"predicted: {workers} workers make a batch every {duration(pace_s / workers)}",
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
def slower_than_none(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers:
        return None
    with_s = min(_enough(case.epoch(number)).pace_s for number in (0, 1))
    without_s = _enough(case.alone()).pace_s
    trace = case.traces.get("plain")
    made_s = math.inf
    if trace is not None:
        made_s = float((trace.batches["ready_s"] - trace.batches["started_s"]).median())
    if with_s < SLOWER * max(without_s, made_s / setup.num_workers):
        return None  # not slower, or because making a batch takes longer in a worker
    return seen(
        f"the loop waits {duration(with_s)} a batch for {setup.num_workers} workers, and making "
        f"one takes a worker {duration(without_s)}: without workers the loop would wait no longer"
        if case.recorded
        else f"{setup.num_workers} workers deliver a batch every {duration(with_s)}, the main "
        f"process alone every {duration(without_s)}, once they run",
        "making a batch costs less than bringing it from one process to another",
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
def head_of_line(case: Case) -> Seen | None:
    setup = case.setup
    if setup.num_workers < 2 or not setup.own.get("in_order", True):
        return None
    _enough(case.epoch(), 2 * setup.num_workers)
    trace = case.traces.get("plain")
    if trace is None:
        raise Undecided("the recording was lost")
    shares = []
    least_s = math.inf
    for number in (0, 1):
        batches = trace.batches[(trace.batches["epoch"] == number)]
        batches = batches[batches["delivered_s"].notna()].sort_values("delivered_s")
        made_s = (batches["ready_s"] - batches["started_s"]).to_numpy()
        if len(made_s) < 2 * setup.num_workers:
            raise Undecided("too few batches to tell")
        stalled_s, whole_s = _stalled(batches)
        least_s = min(least_s, stalled_s)
        shares.append((stalled_s / whole_s, float(np.max(made_s) / max(np.median(made_s), 1e-9))))
    stalled, uneven = min(shares)
    if stalled < STALLED or uneven < UNEVEN or least_s < STALLED_S:
        return None
    return seen(
        f"for {percent(stalled)} of the time the loop waits for a batch while later ones lie ready",
        f"the slowest batch takes {uneven:.1f} times as long as a usual one",
        fix="""
DataLoader(dataset, in_order=False)  # where the order of batches need not be reproduced
# or even out the cost: mix dear and cheap samples in each batch
""",
    )


def _stalled(batches: Any) -> tuple[float, float]:
    """Seconds that the consumer waits while a later batch is ready, and all that it takes."""
    ready, asked = batches["ready_s"].to_numpy(), batches["requested_s"].to_numpy()
    later = np.fmin.accumulate(ready[::-1])[::-1]  # the first to be ready of it and those after it
    idle_s = ready[1:-1] - np.fmax(asked[1:-1], later[2:])
    lost = float(np.nansum(idle_s.clip(0)))
    return lost, max(float(batches["delivered_s"].max() - asked[1]), 1e-9)


@check(
    "LV304",
    "Most of each epoch passes before its first batch",
    "advice",
    notebook=3,
    threads="15849",
    recorded=True,
)
def slow_start(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or setup.persistent:
        return None
    least = 1 if case.recorded else 8  # how short it is, is the reader's own choice there
    epochs = [_enough(case.whole(number), least) for number in (0, 1)]
    shares = [each.first_s / each.delivered_s[-1] for each in epochs]
    if min(shares) < AT_THE_START or min(each.first_s for each in epochs) < LONG_START_S:
        return None
    return seen(
        f"{percent(min(shares))} of the time of each epoch passes before its first batch: "
        f"{' and '.join(duration(each.first_s) for each in epochs)}",
        f"{setup.num_workers} workers are started ({setup.method}) for "
        f"{len(epochs[0].notes)} batches, and ended after each epoch",
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
def too_many_workers(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers:
        return None
    if case.recorded:
        return _crowded(case)
    n_ranks = machine.local_world_size() or 1
    allowed = machine.cpu_allowance()
    workers = setup.num_workers * n_ranks
    if case.ran:
        collapsed = _collapsed(case)
        if collapsed is not None:
            return collapsed
    if workers <= allowed:
        return None
    ratio = f"{workers} workers (on {n_ranks} ranks)" if n_ranks > 1 else f"{workers} workers"
    if not case.ran:
        raise Undecided(f"{ratio} for {allowed:g} CPUs: it matters if they compute; {case.why_not}")
    wanted, used = _cpu_demand(case)
    if wanted * n_ranks < CROWDED * allowed:
        return None
    return seen(
        f"{ratio} want {wanted * n_ranks:.1f} CPUs, and {allowed:g} are allowed (affinity and "
        f"container quota; os.cpu_count() is {os.cpu_count()})",
        f"they had a CPU for {percent(used / wanted)} of the time that they were ready to compute",
        fix=f"DataLoader(dataset, num_workers={max(1, int(allowed / n_ranks))})",
    )


def _crowded(case: Case) -> Seen | None:
    """By the CPU time that was used; how long workers had to wait for it, no recording tells."""
    workers, allowed, used = case.setup.num_workers, case.cpus_allowed, _used(case)
    if workers <= allowed or used < CROWDED_OUT * allowed:
        return None
    return seen(
        f"{workers} workers keep {used:.1f} CPUs busy, and {allowed:g} are allowed (affinity and "
        "container quota)",
        fix=f"DataLoader(dataset, num_workers={max(1, int(allowed))})",
    )


def _used(case: Case) -> float:
    """CPUs that the workers kept busy while batches came: of the epoch in which it was least."""
    found = []
    for number in (0, 1):
        epoch = _enough(case.epoch(number))
        span_s = epoch.delivered_s[-1] - epoch.delivered_s[0]
        by_pid = {note.pid: note.cpu_s for note in epoch.notes}
        found.append(sum(by_pid.values()) / max(span_s, 1e-9))
    if math.isnan(sum(found)):
        raise Undecided("the recording does not tell what CPU time the workers took")
    return min(found)


def _collapsed(case: Case) -> Seen | None:
    here = len(cpus())
    there = {cpu for note in case.epoch().notes for cpu in note.cpus}
    n_workers = len({note.worker for note in case.epoch().notes})
    if len(there) >= min(here, n_workers) or (here > 1) < (n_workers > 1):
        return None
    return seen(
        f"the main process may run on {here} CPUs, and its {n_workers} workers all on {there} "
        "only: something that they import or run sets their affinity",
        fix=f"""
def free_cpus(worker_id):  # as worker_init_fn
    os.sched_setaffinity(0, range({here}))
""",
    )


def _cpu_demand(case: Case) -> tuple[float, float]:
    """CPUs that the workers want while they run, and those that they get."""
    wanted = used = 0.0
    longest = 0.0
    for number in (0, 1):
        own_wanted = own_used = 0.0
        by_pid: dict[int, list[Any]] = {}
        for note in case.epoch(number).notes:
            by_pid.setdefault(note.pid, []).append(note)
        for first, *_, last in (each for each in by_pid.values() if len(each) > 1):
            time_s = max(last.at_s - first.at_s, 1e-9)
            cpu_s = last.cpu_s - first.cpu_s
            delay_s = last.delay_s - first.delay_s
            longest = max(longest, time_s)
            own_used += cpu_s / time_s
            if math.isnan(delay_s):
                raise Undecided("this system does not tell how long workers wait for a CPU")
            own_wanted += (cpu_s + delay_s) / time_s
        if not number or own_wanted < wanted:
            wanted, used = own_wanted, own_used
    if longest < BETWEEN_S or wanted == 0:
        raise Undecided("too short a run to measure what CPUs the workers want")
    return wanted, used


@check(
    "LV306",
    "Batches are slow to hand over, or cannot be pinned",
    "advice",
    notebook=8,
    threads="24984 77139",
)
def dear_handover(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers and not setup.own["pin_memory"]:
        return None
    epoch, inside = case.epoch(), case.contents
    if inside is None:
        raise Undecided("no batch was looked into")
    if setup.own["pin_memory"] and inside.cannot_pin:
        return seen(
            f"pin_memory=True, and {inside.cannot_pin}, which holds tensors, has no pin_memory(): "
            "torch hands it on as it is (torch/utils/data/_utils/pin_memory.py)",
            fix=f"""
class {inside.cannot_pin}:
    def pin_memory(self):
        self.inputs = self.inputs.pin_memory()  # each tensor that it holds
        return self
""",
        )
    if not setup.num_workers or inside.n_others < MANY or len(epoch.notes) < 2:
        return None
    between_s = median(np.diff(epoch.delivered_s).tolist())
    if math.isnan(inside.unpickle_s) or inside.unpickle_s < UNPICKLING * between_s:
        return None
    return seen(
        f"a batch holds {inside.n_others:,} Python objects beside {inside.n_tensors} tensors",
        f"to unpickle them takes the main process {duration(inside.unpickle_s)} of the "
        f"{duration(between_s)} between two batches",
        fix="""
def collate(samples):  # as collate_fn: tensors travel by shared memory
    return torch.as_tensor(samples)
""",
    )
