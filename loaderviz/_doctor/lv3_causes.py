"""LV3xx, from the table of causes: unequal shards, drift, a slow sampler, a CPU quota.

``costly_cause`` finds those that are worth a finding: rows of ``Summary.causes``, with their cost.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

from loaderviz._doctor.checks import OF_RECORDINGS, Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz.text import duration, percent
from loaderviz.why.attribution import PHRASES
from loaderviz.why.verdict import KEEPS_WAITING, NEVER_WAITS

MOST_NAMED = 8  # workers
LEAST_LOST_S = 0.01  # in a recorded loop: of less no share says anything
# The doctor's own loop is short and has no training step, so everything in it is waiting.
LEAST_RUN_S = 0.1  # of all of it
LEAST_BATCH_S = 1e-3  # of each batch


@dataclass(frozen=True)
class CostlyCause:
    """What a cause costs, and its cure as the table of causes says it."""

    evidence: tuple[str, ...]
    cure: str  # comment lines for the head of a fix


def costly_cause(case: Case, cause: str) -> CostlyCause | None:
    """What this cause costs the loop; None if there is none of it, or if cutting it saves little.

    Raises Undecided if the loader was not run.
    """
    least_s = _least_s(case)
    summary = case.run_summary if case.recording is None else case.recording.summary
    if summary.seconds_by_cause.get(cause, 0.0) < least_s:
        return None  # what cutting it saves takes replays to tell, and is no more than that
    rows = case.causes[case.causes["cause"] == cause]
    if rows.empty:
        return None
    row = rows.iloc[0]
    seconds, saves_s = float(row["seconds"]), float(row["saves_s"])
    lost_s = seconds if math.isnan(saves_s) else min(seconds, saves_s)
    lost_share = float(row["share"]) * lost_s / seconds if seconds > 0 else 0.0
    least_share = KEEPS_WAITING if case.recording is None else NEVER_WAITS
    if lost_share < least_share or lost_s < least_s:
        return None
    loop = "the loop" if case.recording is not None else "the doctor's loop, which has no step,"
    waits = f"{loop} waits {percent(row['share'])} of the time ({duration(seconds)})"
    evidence = [f"{waits}: {PHRASES[cause]}", str(row["evidence"])]
    if saves_s > 0:
        evidence.append(f"cutting that saves {duration(saves_s)} (replayed)")
    return CostlyCause(tuple(evidence), textwrap.indent(textwrap.fill(row["cure"], 88), "# "))


def _least_s(case: Case) -> float:
    """The seconds lost from which a cause is worth a finding."""
    if case.recording is not None:
        return LEAST_LOST_S
    return max(LEAST_RUN_S, LEAST_BATCH_S * sum(len(epoch.notes) for epoch in case.epochs))


@check("LV310", recorded=True)
def _unequal_shards(case: Case) -> Seen | None:
    if case.setup.num_workers < 2 or not case.setup.iterable:
        return None
    cause = costly_cause(case, "uneven")
    if cause is None:
        return None
    read = case.recorded().batches.groupby("worker")["n_samples"].sum()
    shares = ", ".join(f"{n:,}" for n in read.iloc[:MOST_NAMED])
    return seen(
        f"samples by worker: {shares}{', ...' if len(read) > MOST_NAMED else ''}",
        *cause.evidence,
        fix=f"""
{cause.cure}
def __iter__(self):  # of the dataset
    yield from loaderviz.shard(self.samples)  # every num_workers-th sample
""",
    )


@check("LV311", recorded=True)
def _drift(case: Case) -> Seen | None:
    return seen_cause(
        costly_cause(case, "drift"),
        fix="""
DataLoader(dataset, shuffle=True)  # if samples are sorted by size
# else time dataset[0] again and again in one process: if it slows down, something grows
""",
    )


@check("LV312", recorded=True)
def _slow_sampler(case: Case) -> Seen | None:
    return seen_cause(
        costly_cause(case, "sampler"),
        "the main process draws them, between steps: workers do not help",
        fix="""
def __iter__(self):  # of the sampler
    yield from torch.randperm(self.n).tolist()
""",
    )


@check("LV313", into=OF_RECORDINGS)
def _throttled(case: Case) -> Seen | None:
    cause = costly_cause(case, "throttled")
    if cause is None:
        return None
    workers = min(max(1, int(case.cpus_allowed)), max(1, case.setup.num_workers))
    return seen_cause(
        cause,
        fix=f"""
DataLoader(dataset, num_workers={workers})
# in the shell: docker run --cpus=...; in Kubernetes: resources.limits.cpu
""",
    )


def seen_cause(cause: CostlyCause | None, *more: str, fix: str = "") -> Seen | None:
    """What shows a cause, its cure as the table says it, and code."""
    return None if cause is None else seen(*cause.evidence, *more, fix=f"{cause.cure}{fix}")
