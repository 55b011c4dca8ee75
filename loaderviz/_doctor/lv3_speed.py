"""LV301 to LV304, LV306: time lost. Found only if enough was measured and the loss is clear.

In a recording of the reader's own loop the table of causes says how much is lost, and to what.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import numpy as np

from loaderviz._doctor.batch_contents import MANY_OBJECTS, Contents
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.lv3_causes import costly_cause, seen_cause
from loaderviz._doctor.lv3_cpus import handing_over_s
from loaderviz._doctor.run_epochs import Epoch
from loaderviz.text import count, duration, percent
from loaderviz.why.attribution import AT_ONCE_S, USUAL_HANDOVER_S

LEAST_BATCHES = 20  # to measure a pace
MUCH_SLOWER = 1.5  # times as long as without workers
CHEAP_BATCH_S = 0.02  # a batch that takes less needs no worker
STALL_SHARE = 0.3  # of the time that finished batches wait behind an unfinished one
STALL_S = 0.05  # in one epoch: less may be due to a busy machine
UNEVEN = 3.0  # the slowest batch, in medians
START_SHARE = 0.5  # of an epoch that passes before its first batch
LONG_START_S = 0.5  # a shorter start is not worth a change, and may be due to a busy machine
MOST_WORKERS = 8  # that are advised before any were tried
UNPICKLING_SHARE = 0.2  # of the time between two batches


def _require_batches(epoch: Epoch, least: int = LEAST_BATCHES) -> Epoch:
    if len(epoch.notes) < least:
        batches = count(len(epoch.notes), "batch is", "batches are")
        raise Undecided(f"{batches} too few to measure a pace")
    return epoch


@check("LV301", recorded=True)
def _no_workers(case: Case) -> Seen | None:
    if case.setup.num_workers:
        return None
    if case.recording is not None:
        return seen_cause(costly_cause(case, "main_process"))
    pace_s = min(_require_batches(case.epoch(number), 4).pace_s for number in (0, 1))
    if pace_s < CHEAP_BATCH_S:
        return None
    contents = case.observed(Contents)
    if contents is not None and contents.unpickle_s > UNPICKLING_SHARE * pace_s:
        return None  # a worker would only move the cost
    busy = _busy(case)
    allowed = case.cpus_allowed
    keep_busy = math.floor(allowed / busy) if busy > 0 else MOST_WORKERS
    workers = max(1, min(keep_busy, MOST_WORKERS))
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


def _busy(case: Case) -> float:
    """How many CPUs the making of batches keeps busy, in the main process."""
    epoch = case.epoch()
    cpu_s = epoch.notes[-1].cpu_s - epoch.notes[0].cpu_s
    return cpu_s / max(epoch.delivered_s[-1] - epoch.delivered_s[0], 1e-9)


@check("LV302", recorded=True)
def _slower_than_none(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers:
        return None
    epochs = [_require_batches(case.epoch(number)) for number in (0, 1)]
    with_s = min(epoch.pace_s for epoch in epochs)
    recorded = case.recorded().batches
    made_s = float((recorded["ready_s"] - recorded["started_s"]).median())
    made_s -= median(note.digest_s for epoch in epochs for note in epoch.notes)
    if not with_s >= MUCH_SLOWER * made_s:
        return None
    if list(case.causes["cause"][:1]) != ["handover"]:
        return None  # it waits for something else, such as the sampler
    return seen(
        f"the loop waits {duration(with_s)} per batch for {setup.num_workers} workers, and making "
        f"one takes {duration(made_s)}: without workers the loop would not wait longer",
        "making a batch costs less than moving it from one process to another",
        fix="""
DataLoader(dataset, num_workers=0)
# or read in bulk, in larger batches: def __getitems__(self, indices): ...
""",
    )


@check("LV303", recorded=True)
def _head_of_line(case: Case) -> Seen | None:
    setup = case.setup
    if setup.num_workers < 2 or not setup.settings.get("in_order", True):
        return None
    _require_batches(case.epoch(), 2 * setup.num_workers)
    recorded = case.recorded().batches
    measures = []
    least_stalled_s = math.inf
    for number in (0, 1):
        batches = recorded[(recorded["epoch"] == number) & recorded["delivered_s"].notna()]
        batches = batches.sort_values("delivered_s")
        queued_s = batches["queued_s"].fillna(0)  # for a CPU, which no order of batches cures
        made_s = (batches["ready_s"] - batches["started_s"] - queued_s).to_numpy()
        if len(made_s) < 2 * setup.num_workers:
            raise Undecided("too few batches to tell")
        stalled_s, span_s = _stalled_and_span_s(batches)
        # What slow batches do not explain is no matter of order: a worker that starts late, say.
        stalled_s = min(stalled_s, float((made_s - np.median(made_s)).clip(0).sum()))
        least_stalled_s = min(least_stalled_s, stalled_s)
        measures.append((stalled_s / span_s, float(np.max(made_s) / max(np.median(made_s), 1e-9))))
    stall_share, uneven = min(measures)
    if stall_share < STALL_SHARE or uneven < UNEVEN or least_stalled_s < STALL_S:
        return None
    return seen(
        f"for {percent(stall_share)} of the time the loop waits while later batches are ready",
        f"making the slowest batch takes {uneven:.1f} times as long as the median, without "
        "its waits for a CPU",
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


@check("LV304", recorded=True)
def _slow_start(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or setup.persistent:
        return None
    least = 8 if case.recording is None else 1  # there the reader chose how short an epoch is
    epochs = [_require_batches(case.complete_epoch(number), least) for number in (0, 1)]
    if case.recording is not None:
        cause = costly_cause(case, "restart")
        if cause is None:
            return None
        evidence, cure = cause.evidence, f"{cause.cure}\n"
    else:
        share = min(epoch.first_s / epoch.delivered_s[-1] for epoch in epochs)
        if share < START_SHARE or min(epoch.first_s for epoch in epochs) < LONG_START_S:
            return None
        firsts = " and ".join(duration(epoch.first_s) for epoch in epochs)
        evidence = (f"{percent(share)} of each epoch passes before its first batch: {firsts}",)
        cure = ""
    return seen(
        *evidence,
        f"each epoch starts {setup.num_workers} workers ({setup.start_method}) for "
        f"{len(epochs[0].notes)} batches, and then ends them",
        fix=f"""
{cure}DataLoader(dataset, persistent_workers=True)  # workers stay from epoch to epoch
# and keep one iterator: next(iter(loader)) in a loop starts workers for each batch
""",
    )


UNPICKLING_CPU_SHARE = 0.2  # of the CPU time in which a batch is made
LEAST_SHARE = 0.05  # of the time between two batches, which is longer where the machine is busy
TAKING_SHARE = 0.2  # of the time between two batches
FEWEST_BATCHES = 10  # that lay ready
MANY_TENSORS = 20  # in a batch: samples of a few fields each have fewer once they are collated


@check("LV306")
def _slow_handover(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers and not setup.settings["pin_memory"]:
        return None
    epoch, contents = case.epoch(), case.observed(Contents)
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
    if not setup.num_workers or len(epoch.notes) < 2:
        return None
    if contents.n_others < MANY_OBJECTS:
        return _many_tensors(case, contents.n_tensors)
    made = case.recorded().batches
    unpickle_s = contents.unpickle_s
    cpu_s = float((made["cpu_s"] + made["children_cpu_s"].fillna(0)).mean()) + handing_over_s(case)
    make_s = cpu_s / setup.num_workers  # at best
    between_s = median(np.diff(epoch.delivered_s).tolist())
    if not unpickle_s >= max(UNPICKLING_CPU_SHARE * make_s, LEAST_SHARE * between_s):
        return None
    n = setup.num_workers
    together = f", so {n} together make one every {duration(make_s)} at best" if n > 1 else ""
    return seen(
        f"a batch holds {contents.n_others:,} Python objects besides {contents.n_tensors} tensors",
        f"unpickling them takes the main process {duration(unpickle_s)} of CPU for each batch; a "
        f"worker needs {duration(cpu_s)} of CPU to make and pickle one{together}",
        fix="""
def collate(samples):  # as collate_fn: tensors travel by shared memory
    return torch.as_tensor(samples)
""",
    )


def _many_tensors(case: Case, n_tensors: int) -> Seen | None:
    """Of many tensors that each need shared memory, a descriptor and a message of their own."""
    if n_tensors < MANY_TENSORS:
        return None
    batches = case.recorded().batches
    lay_ready = batches[batches["ready_s"] <= batches["requested_s"]]
    taking_s = lay_ready["delivered_s"] - lay_ready["requested_s"]
    taking_s = taking_s[taking_s >= AT_ONCE_S]
    if len(taking_s) < FEWEST_BATCHES:
        return None  # the loop waits until batches are made
    take_s = float(taking_s.median())
    between_s = median(np.diff(case.epoch().delivered_s).tolist())
    if take_s < max(USUAL_HANDOVER_S, TAKING_SHARE * between_s):
        return None
    return seen(
        f"a batch holds {n_tensors} tensors, each in shared memory of its own",
        f"getting a batch that lies ready usually takes the loop {duration(take_s)}; one comes "
        f"every {duration(between_s)}",
        fix="""
def collate(samples):  # as collate_fn: one tensor of all boxes, and how many are whose
    boxes = [sample["boxes"] for sample in samples]
    return torch.cat(boxes), torch.tensor([len(each) for each in boxes])
""",
    )
