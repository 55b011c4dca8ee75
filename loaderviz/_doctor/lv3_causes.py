"""LV3xx, from the table of causes: unequal shards, drift, a slow sampler, a CPU quota."""

from __future__ import annotations

from loaderviz._doctor.checks import OF_RECORDINGS, Seen, check, seen
from loaderviz._doctor.costly_causes import costly_cause
from loaderviz._doctor.examination import Case

MOST_NAMED = 8  # workers


@check("LV310", recorded=True)
def _unequal_shards(case: Case) -> Seen | None:
    if case.setup.num_workers < 2 or not case.setup.iterable:
        return None
    cause = costly_cause(case, "uneven")
    if cause is None:
        return None
    assert case.trace is not None, "causes are those of a trace"
    read = case.trace.batches.groupby("worker")["n_samples"].sum()
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
    cause = costly_cause(case, "drift")
    if cause is None:
        return None
    return seen(
        *cause.evidence,
        fix=f"""
{cause.cure}
DataLoader(dataset, shuffle=True)  # if samples are sorted by size
# else time dataset[0] again and again in one process: if it slows down, something grows
""",
    )


@check("LV312", recorded=True)
def _slow_sampler(case: Case) -> Seen | None:
    cause = costly_cause(case, "sampler")
    if cause is None:
        return None
    return seen(
        *cause.evidence,
        "the main process draws them, between steps: workers do not help",
        fix=f"""
{cause.cure}
def __iter__(self):  # of the sampler
    yield from torch.randperm(self.n).tolist()
""",
    )


@check("LV313", into=OF_RECORDINGS)
def _throttled(case: Case) -> Seen | None:
    cause = costly_cause(case, "throttled")
    if cause is None:
        return None
    workers = max(1, int(case.cpus_allowed))
    return seen(
        *cause.evidence,
        fix=f"""
{cause.cure}
DataLoader(dataset, num_workers={min(workers, max(1, case.setup.num_workers))})
# in the shell: docker run --cpus=...; in Kubernetes: resources.limits.cpu
""",
    )
