"""LV3xx, CPUs: more workers than there are, and more threads."""

from __future__ import annotations

import math
import os

import numpy as np

from loaderviz import machine
from loaderviz._doctor.batch_contents import MANY_OBJECTS, Contents
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.lv3_causes import costly_cause
from loaderviz.text import duration, percent
from loaderviz.why.worker_cpus import helping_threads, shared_cpus

CROWDED = 1.25  # CPUs wanted for each that is allowed: less may be noise of the measure
LEAST_SPAN_S = 0.05  # to measure CPU time
FEWEST_THREADS = 2  # of a worker that is helped: one reads, one helps


@check("LV305", recorded=True)
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
    workers_text = f"{workers} workers" + (f" (on {n_ranks} ranks)" if n_ranks > 1 else "")
    if not case.ran:
        raise Undecided(
            f"{workers_text} for {allowed:g} CPUs: this matters if they compute; {case.why_not_run}"
        )
    wanted, had_one = _cpus_wanted(case)
    if wanted * n_ranks < CROWDED * allowed:
        return None
    return seen(
        f"{workers_text} need {wanted * n_ranks:.1f} CPUs, but only {allowed:g} are allowed "
        f"(affinity and container quota; os.cpu_count() is {os.cpu_count()})",
        f"they had a CPU for {percent(had_one)} of the time that they were ready to compute",
        fix=f"DataLoader(dataset, num_workers={max(1, int(allowed / n_ranks))})",
    )


def _crowded(case: Case) -> Seen | None:
    """In the reader's own loop, where full CPUs matter only if it waits for them."""
    workers, allowed = case.setup.num_workers, case.cpus_allowed
    if workers <= allowed:
        return None
    if case.recorded().batches["cpu_s"].isna().all():
        raise Undecided("the recording does not hold the CPU time of the workers")
    cause = costly_cause(case, "cpu")
    if cause is None:
        return None
    return seen(
        f"{workers} workers, and only {allowed:g} CPUs are allowed (affinity and container quota)",
        *cause.evidence,
        fix=f"""
{cause.cure}
DataLoader(dataset, num_workers={max(1, int(allowed))})
""",
    )


def _confined(case: Case) -> Seen | None:
    """Workers that may run on fewer CPUs than the main process."""
    case.epoch()
    shared = None if case.trace is None else shared_cpus(case.trace, 0, machine.rank())
    if shared is None:
        return None
    return seen(
        f"the main process may use {case.cpus_allowed:g} CPUs, and all {case.setup.num_workers} "
        f"workers only {sorted(shared)}: something that they import or run sets their affinity",
        fix="""
def free_cpus(worker_id):  # as worker_init_fn
    os.sched_setaffinity(0, range(os.cpu_count()))
""",
    )


def _cpus_wanted(case: Case) -> tuple[float, float]:
    """CPUs that the workers need while they run, and for which share of that time they have one.

    Of the time that a worker does not wait for a CPU, it computes as much as it would on a machine
    that has enough of them: other processes do not count.
    """
    case.epoch(1)
    batches = case.recorded().batches
    if batches["queued_s"].isna().all():
        raise Undecided("this system does not say how long workers wait for a CPU")
    batches = batches.assign(cpu_s=batches["process_cpu_s"].fillna(batches["cpu_s"]))
    lanes = batches.groupby(["epoch", "worker"])
    sums = lanes[["cpu_s", "queued_s"]].sum()
    time_s = lanes["ready_s"].max() - lanes["started_s"].min()
    if not time_s.max() >= LEAST_SPAN_S or not sums["cpu_s"].sum() > 0:
        raise Undecided("the run was too short to measure how many CPUs the workers need")
    least_s = np.minimum(sums["cpu_s"], time_s)
    ran_s = (time_s - sums["queued_s"]).clip(lower=least_s).clip(lower=1e-9)
    wanted = (sums["cpu_s"] / ran_s).groupby("epoch").sum()
    quietest = int(wanted.to_numpy().argmin())
    cpu_s, queued_s = sums.groupby("epoch").sum().to_numpy()[quietest].tolist()
    return float(wanted.min()), cpu_s / max(cpu_s + queued_s, 1e-9)


@check("LV309", recorded=True)
def _helper_threads(case: Case) -> Seen | None:
    workers = case.setup.num_workers
    if not workers:
        return None
    if case.recording is None:
        workers *= machine.local_world_size() or 1
    cause, contents = costly_cause(case, "cpu"), case.observed(Contents)
    if cause is None:
        return None
    if contents is not None and contents.n_others >= MANY_OBJECTS:
        return None  # the thread that helps is the one that pickles them: LV306
    allowed = case.cpus_allowed
    batches = case.recorded().batches
    if batches["process_cpu_s"].isna().all():
        raise Undecided("the recording does not hold the CPU time of all threads")
    helped = helping_threads(batches, allowed, handing_over_s=handing_over_s(case))
    if helped is None or workers * FEWEST_THREADS <= allowed:
        return None
    thread_s, process_s = helped
    return seen(
        f"making a batch takes {duration(process_s)} of CPU, and only {duration(thread_s)} of that "
        "is the thread that reads its samples",
        f"{workers} workers x {FEWEST_THREADS} threads or more on {allowed:g} CPUs: threads that "
        "wait for one another gain nothing",
        *cause.evidence,
        fix=f"""
def one_thread(worker_id):  # as worker_init_fn: in those libraries that samples use
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
# others, in the shell: OMP_NUM_THREADS=1 RAYON_NUM_THREADS=1 python train.py
# or fewer workers: DataLoader(dataset, num_workers={max(1, int(allowed / FEWEST_THREADS))})
""",
    )


def handing_over_s(case: Case) -> float:
    """CPU time a batch that the workers' queues take to pickle and send; 0 where nobody looked."""
    spent_s, n_batches = 0.0, 0
    for epoch in case.epochs:
        for worker, notes in epoch.notes_by_worker().items():
            if worker >= 0:
                spent_s += notes[-1].handing_s - notes[0].handing_s
                n_batches += len(notes) - 1
    return spent_s / n_batches if n_batches and not math.isnan(spent_s) else 0.0
