"""``Costs.from_trace``: the costs that one recording shows, at any number of workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.array_types import Floats
from loaderviz.errors import LoaderVizError
from loaderviz.simulator.handover_costs import handover_costs
from loaderviz.simulator.start_costs import start_costs
from loaderviz.simulator.typical_costs import (
    BYTES_PER_S,
    RELEASE_BYTES_PER_S,
    TYPICAL_HANDOVER,
    TYPICAL_SHARE_S,
)
from loaderviz.trace import Trace
from loaderviz.trace.check_trace import MOST_SAMPLES
from loaderviz.trace.columns_of_rows import BATCH, arrays, batch_rows
from loaderviz.trace.described_loaders import is_read_ahead, loader_description
from loaderviz.why.loader_share import is_unseen
from loaderviz.why.notes import RECORD_ITS_OBJECT
from loaderviz.why.rank_summary import ranks_beside

if TYPE_CHECKING:
    import pandas as pd

FIXED_COLLATE_S = 2e-5  # to collate nothing, measured beside TYPICAL_SHARE_S
LEAST_COLLATING = 0.05  # at least this part of the time to collate is not sharing bytes
LEAST_S = 2e-4  # of CPU time a batch: less is the threads of queues
COMPUTED = (  # by the main process or a worker, so that standing in line is in what was recorded
    *("startup_s", "boot_s", "shutdown_s", "sampler_s", "first_key_s"),
    *("send_s", "take_s", "pin_s"),
)
HELPED = 1.2  # times the CPU time of the thread that reads: helper threads computed, too


def fit(trace: Trace, *, loader: int, step_cpu_share: float, cores: float | None) -> dict[str, Any]:
    """The fields of ``Costs.from_trace``; what the recording does not tell is left out.

    Where ``cores`` is None, the CPUs that were allowed are shared evenly among the machine's ranks.
    """
    whole, n_ranks = _of_one_rank(trace, loader)
    trace = whole.of_loader(loader)
    batches, description = _batches_and_description(trace, loader)
    tasks = _Tasks.from_trace(trace, batches)
    delivered = batches[batches["delivered_s"].notna()].sort_values("delivered_s")
    steps = (delivered["released_s"] - delivered["delivered_s"]).dropna().to_numpy()
    costs = {
        **TYPICAL_HANDOVER,
        **handover_costs(batches, in_order=bool(description.get("in_order", True))),
        **start_costs(trace.workers, batches, description),
    }
    longer = tasks.longer  # the main process stands in line as the workers do
    costs |= {name: costs[name] / longer for name in COMPUTED if name in costs}
    steps = steps / (1 + step_cpu_share * (longer - 1))
    if description.get("num_workers") and len(tasks.n):
        given_back_s = np.median(tasks.n) * tasks.sample_bytes / RELEASE_BYTES_PER_S
        steps = np.maximum(steps - given_back_s, 0.0)
    if cores is None and (allowed := trace.meta.get("cpu_allowance")) is not None:
        cores = allowed / n_ranks
    return {
        **costs,
        **tasks.costs(in_worker=bool(description.get("num_workers"))),
        "step_s": steps if len(steps) else 0.0,
        "step_cpu_share": step_cpu_share,
        "cores": cores,
    }


@dataclass(frozen=True)
class _Tasks:
    """What workers did: arrays of one value a batch, where nothing else is said.

    What the kernel says that they stood in line for a CPU is taken out of all times.
    """

    n: Any  # samples
    reading_s: Floats
    collate_s: Floats
    cpu_s: Floats  # of reading and collating: how long, whatever the number of threads
    threads: float  # that compute at once
    sample_s: Floats  # of each sample
    sample_bytes: float  # of a sample: the median of the batches
    longer: float  # times as long took what they computed, as they stood in line; 1: not known

    @classmethod
    def from_trace(cls, trace: Trace, batches: pd.DataFrame) -> _Tasks:
        """The tasks whose batches are complete."""
        made = batches.dropna(subset=["started_s", "collate_s", "ready_s"])
        made = made[made["n_samples"].cumsum() <= MOST_SAMPLES]
        took_s = np.maximum((made["ready_s"] - made["started_s"]).to_numpy(), 1e-12)
        cpu_s, threads = _computing(made, took_s)
        # Where a worker hardly ran, clocks that are read one after the other make it over 1.
        queued_s = np.clip(made["queued_s"].fillna(0.0).to_numpy(), 0.0, took_s - cpu_s)
        # To collate is to compute; reading waits for other things, too.
        collate_s = (made["ready_s"] - made["collate_s"]).to_numpy()
        in_line_s = np.minimum(collate_s * queued_s / np.maximum(cpu_s + queued_s, 1e-12), queued_s)
        reading_s = (made["collate_s"] - made["started_s"]).to_numpy()
        alone_s = np.maximum(reading_s - (queued_s - in_line_s), 0.0)
        n = made["n_samples"].to_numpy()
        n_bytes = (made["n_bytes"] / made["n_samples"].clip(lower=1)).median()
        return cls(
            n=n,
            reading_s=alone_s,
            collate_s=collate_s - in_line_s,
            cpu_s=cpu_s,
            threads=threads,
            sample_s=_sample_s(trace, made) * np.repeat(alone_s / np.maximum(reading_s, 1e-12), n),
            sample_bytes=0.0 if np.isnan(n_bytes) else float(n_bytes),
            longer=1 + float(queued_s.sum() / max(cpu_s.sum(), 1e-12)),
        )

    def costs(self, *, in_worker: bool) -> dict[str, Any]:
        """The costs of reading, collating and sharing."""
        if not len(self.n):
            return {"sample_s": 0.0}
        n = max(1.0, float(np.median(self.n)))
        collate_s = float(np.median(self.collate_s))
        n_bytes = n * self.sample_bytes
        share_s, bytes_per_s = TYPICAL_SHARE_S, BYTES_PER_S
        if in_worker:
            share_s = min(collate_s, TYPICAL_SHARE_S)
            bytes_s = min(n_bytes / BYTES_PER_S, (1 - LEAST_COLLATING) * (collate_s - share_s))
            collate_s -= share_s + bytes_s
            if bytes_s:
                bytes_per_s = n_bytes / bytes_s
        fixed_s = min(collate_s, FIXED_COLLATE_S)
        cpu_s = np.clip(self.cpu_s - self.collate_s, 0.0, self.reading_s)
        return {
            "sample_s": self.sample_s,
            "cpu_share": np.repeat(cpu_s / np.maximum(self.reading_s, 1e-12), self.n),
            "threads": self.threads,
            "collate_s": fixed_s,
            "collate_sample_s": (collate_s - fixed_s) / n,
            "share_s": share_s,
            "sample_bytes": self.sample_bytes,
            "bytes_per_s": bytes_per_s,
        }


def _of_one_rank(trace: Any, loader: int) -> tuple[Trace, int]:
    """The first rank that took this loader's batches, and how many ranks share its machine."""
    if not isinstance(trace, Trace):
        raise LoaderVizError(
            f"Costs.from_trace() takes a Trace, but got {type(trace).__name__}. Take it from a "
            "recording: `with record(loader) as rec: ...`, then Costs.from_trace(rec.trace)."
        )
    ranks = trace.batches["rank"]
    taken = ranks[(trace.batches["loader"] == loader) & trace.batches["delivered_s"].notna()]
    if taken.empty:
        loaders = sorted({int(number) for number in trace.batches["loader"]})
        raise LoaderVizError(
            f"the trace has no delivered batch of loader={loader!r}; those it has are {loaders}. "
            "Record a loop that takes some batches."
        )
    rank = int(taken.min())
    several = ranks.min() != ranks.max()
    of_rank = trace.of_ranks([rank]) if several else trace
    return of_rank, ranks_beside(trace, rank)


def _batches_and_description(trace: Trace, loader: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The batches, and the loader as the recorder describes it."""
    batches = trace.batches
    if batches[["started_s", "collate_s", "ready_s"]].isna().any(axis=1).all():
        why = (
            "the loader is not one of torch's, or makes them in its own way. trace.summary() "
            "says what its loop waits for."
            if is_unseen(batches)
            else "the workers were started before the recording. Begin to record before the first "
            "epoch."
        )
        raise LoaderVizError(f"the trace does not show its batches where they were made: {why}")
    if is_read_ahead(trace.meta, loader):
        raise LoaderVizError(
            "a thread of its own takes the batches of this loader ahead of the loop, whose steps "
            f"are not in the trace. {RECORD_ITS_OBJECT}"
        )
    return batches, loader_description(trace.meta, loader)


def _computing(made: pd.DataFrame, took_s: Floats) -> tuple[Floats, float]:
    """Seconds by the clock in which each batch's worker computed, and in how many threads at once.

    Others than the thread that reads may do so in this process or in children of it. Where CPUs are
    too few for all threads, no more are seen than ran.
    """
    thread_s = np.minimum(made["cpu_s"].fillna(0.0).to_numpy(), took_s)
    process_s = made["process_cpu_s"].fillna(0.0).to_numpy()
    if not len(made) or np.sum(process_s) < HELPED * np.sum(thread_s) + LEAST_S * len(made):
        return thread_s, 1.0
    threads = max(1.0, float(np.quantile(process_s / took_s, 0.9)))
    return np.minimum(process_s / threads, took_s), threads


def _sample_s(trace: Trace, made: pd.DataFrame) -> Floats:
    """Seconds of each sample, scaled so that a batch's samples add up to what reading it took.

    Samples of a batch share its time evenly where they were read in one call or some are missing.
    """
    n = made["n_samples"].to_numpy()
    reading_s = (made["collate_s"] - made["started_s"]).to_numpy()
    sample_s = np.repeat(reading_s / np.maximum(n, 1), n)
    samples = arrays(trace.samples[[*BATCH, "position", "start_s", "end_s"]])
    took_s = samples["end_s"] - samples["start_s"]
    row = batch_rows(samples, arrays(made[[*BATCH]]))
    read = (row >= 0) & ~np.isnan(took_s)
    row, position, took_s = row[read], samples["position"][read], took_s[read]
    total_s = np.bincount(row, took_s, len(made))
    one_by_one = (np.bincount(row, minlength=len(made)) == n) & (total_s > 0)
    scale = np.divide(reading_s, total_s, out=np.zeros_like(reading_s), where=one_by_one)
    known = one_by_one[row]
    place = (np.cumsum(n) - n)[row] + position
    sample_s[place[known]] = (took_s * scale[row])[known]
    return np.asarray(sample_s, np.float64)
