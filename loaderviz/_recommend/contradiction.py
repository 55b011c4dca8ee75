"""Why a setting that was run is slower than predicted: a recording of it beside the first one."""

from __future__ import annotations

from dataclasses import dataclass

from loaderviz._recommend.bottleneck import CPU, MEMORY, OTHERS, QUOTA, SHARED, Limit
from loaderviz._recommend.evidence import Evidence
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import count, duration, percent
from loaderviz.trace import Trace

LONGER = 1.3  # times as long: a sample is slower than it was alone
BUSY = 0.85  # of the CPUs: beyond this they get hardly any more work done
QUEUED = 0.1  # of their time that workers wait for a CPU: the CPUs are full as well


@dataclass(frozen=True)
class Contradiction:
    """A setting whose measurement does not bear out its prediction, and what limits it instead."""

    setting: LoaderSettings
    limit: Limit


@dataclass(frozen=True)
class _Reading:
    """What the workers of one recording did, on average, once all of them were up."""

    n_workers: int
    sample_s: float  # to read a sample
    cpu_s: float  # CPU time of it, of all threads of the worker, collating included
    queued: float  # the part of their time in which workers stood in line for a CPU
    throttled: float  # ... in which a CPU quota stopped them
    cpus: float  # that they kept busy

    @classmethod
    def of(cls, trace: Trace) -> _Reading | None:
        """None where no batch was made after the first of each worker."""
        made = trace.batches.dropna(subset=["started_s", "collate_s", "ready_s"])
        n_workers = max(1, int(made["worker"].nunique()))
        made = made.sort_values("ready_s").iloc[n_workers:]
        if made.empty:
            return None
        n_samples = float(made["n_samples"].sum())
        cpu_s = float(made["process_cpu_s"].fillna(made["cpu_s"]).sum())
        at_work_s = float((made["ready_s"] - made["started_s"]).sum())
        elapsed_s = float(made["ready_s"].max() - made["started_s"].min())
        return cls(
            n_workers,
            sample_s=float((made["collate_s"] - made["started_s"]).sum()) / n_samples,
            cpu_s=cpu_s / n_samples,
            queued=float(made["queued_s"].sum()) / max(at_work_s, 1e-9),
            throttled=float(made["throttled_s"].sum()) / max(at_work_s, 1e-9),
            cpus=cpu_s / max(elapsed_s, 1e-9),
        )

    @property
    def waiting_s(self) -> float:
        """Of the time of a sample: neither computing nor standing in line for a CPU."""
        return max(self.sample_s * (1 - self.queued) - self.cpu_s, 0.0)


def explain(evidence: Evidence, setting: LoaderSettings, trace: Trace) -> Contradiction:
    """What ``trace``, a recording of the setting, shows beside the recording of the evidence."""
    one, many = _Reading.of(evidence.trace), _Reading.of(trace)
    if one is None or many is None:
        return Contradiction(setting, Limit("", text="too few batches came to tell what limits it"))
    alone, together = (count(each.n_workers, "worker") for each in (one, many))
    cpus = f"{many.cpus:.1f} of {count(evidence.cores, 'CPU')}"
    longer_s = many.sample_s - one.sample_s
    full = many.cpus > BUSY * evidence.cores
    if many.cpu_s > LONGER * one.cpu_s and many.cpu_s > many.sample_s / 2:
        text = (
            f"a sample takes {duration(one.cpu_s)} of CPU time with {alone}, "
            f"{duration(many.cpu_s)} with {together}: those read at once share the memory's "
            "bandwidth, caches or a core"
        )
        return Contradiction(setting, Limit(MEMORY, text=text))
    if (
        not full
        and many.sample_s > LONGER * one.sample_s
        and (many.waiting_s - one.waiting_s > longer_s / 2)
    ):
        text = (
            f"a sample takes {duration(one.sample_s)} with {alone}, {duration(many.sample_s)} with "
            f"{together}, which keep {cpus} busy: samples wait for one another, for a lock, a "
            "disk, a server or the like"
        )
        return Contradiction(setting, Limit(SHARED, text=text))
    if full or many.queued > QUEUED:
        part = QUOTA if many.throttled > QUEUED else CPU if full else OTHERS
        text = (
            f"with {together} {cpus} {'is' if evidence.cores == 1 else 'are'} busy, and a worker "
            f"waits for one {percent(many.queued)} of the time"
        )
        return Contradiction(setting, Limit(part, text=text))
    causes = trace.summary().causes
    what = f": {causes['cause'][0]} ({causes['evidence'][0]})" if len(causes) else ""
    text = f"reading samples does not explain it; see what the loop waits for{what}"
    return Contradiction(setting, Limit("", text=text))
