"""``Evidence``: what a recording shows of a loader, before anything is predicted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz import machine
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.simulator import Costs
from loaderviz.text import percent
from loaderviz.trace import Trace
from loaderviz.trace.analysis.attribution import attribute
from loaderviz.trace.analysis.handed_over import handed_over_s, keeps_small_batches
from loaderviz.trace.analysis.loader_share import loader_shares
from loaderviz.trace.analysis.rank_summary import ranks_beside
from loaderviz.trace.analysis.reading_time import Reading
from loaderviz.trace.analysis.steps import leaves_early, part_with_others
from loaderviz.trace.analysis.unlike_workers import largest_share, slow_worker
from loaderviz.trace.loaders_as_one import as_one, lives
from loaderviz.trace.merge.run_meta import loader_description

if TYPE_CHECKING:
    import pandas as pd

MOST_AHEAD = 4_000  # batches, of settings that are predicted
FEW_BATCHES = 8  # fewer do not tell how much batches differ
MOSTLY = 0.5  # of the time that samples take
MOST_NAMED, MOST_LISTED = 3, 20  # loaders, in a sentence and in an error
CROWDED_OUT = 0.85  # of the CPUs allowed: with fewer, other processes used the rest
WAKING_S = 1e-3  # a batch: a worker that has little to do waits as long for a CPU to wake up on
UNKNOWN_ERROR = 0.5  # as a part of a batch's time, where only one batch was seen


@dataclass(frozen=True)
class Evidence:
    """What predictions rest on. Bytes are None where the recording does not show them."""

    trace: Trace  # of that loader alone
    costs: Costs
    description: dict[str, Any]  # of the loader, by the recorder
    present: LoaderSettings
    batch_size: int  # samples of a usual batch
    n_recorded: int  # delivered batches
    error: float  # two standard errors of a batch's mean time, as a part of that mean
    cpus_allowed: float | None = None  # where the trace tells
    queued: float = 0.0  # of the time of making batches, waiting for a CPU, as far as it is known
    costs_without_workers: Costs | None = None  # where loading without workers was recorded
    n_batches: int | None = None  # of an epoch, where known
    leaves_early: bool = False  # the loop leaves an epoch before its last batch
    epochs: int = 1  # that were recorded, as far as they went
    steps_known: bool = True
    worker_bytes: int | None = None  # resident memory of a worker
    worker_bytes_shared: bool = True  # worker_bytes includes pages shared with the main process
    batch_bytes: int | None = None  # of a batch's tensors
    has_device: bool = False  # there is a device that batches could be copied to
    n_ranks: int = 1  # ranks that share the machine
    n_readers: int = 1  # processes that read samples at the same time in the recording
    shared: bool = False  # samples took longer, the more of them were read at once
    with_others: float = 0.0  # the part of the steps in which other loaders are asked, too
    unlike: str = ""  # how the workers that were recorded are unlike: nobody knows of others
    recorded_per_s: float = math.inf  # samples, in the epoch that was recorded first
    main_is_kept: bool = False  # something else, such as a thread, keeps the main process
    naive: bool = False  # every worker yields the whole iterable-style dataset
    reading_s: tuple[float, ...] = ()  # a sample, in each epoch that is long enough to compare
    of_several: str = ""  # which of the loaders it is, and how to ask for another: sentences

    @property
    def iterable(self) -> bool:
        """Whether the dataset is iterable-style."""
        return self.description.get("kind") == "iterable"

    def costs_of(self, setting: LoaderSettings) -> Costs:
        """What the work costs with these settings: without workers, as recorded without them.

        Where samples were seen to wait for one another, more workers wait as much longer. Where
        other processes wanted the CPUs, more workers get a larger part of them.
        """
        if not setting.num_workers and self.costs_without_workers is not None:
            return self.costs_without_workers
        costs = replace(self.costs, cores=self._cores_of(max(1, setting.num_workers)))
        if not self.shared or setting.num_workers <= self.n_readers:
            return costs
        longer = setting.num_workers / self.n_readers
        waiting_s = costs.sample_s * (1 - costs.cpu_share)
        sample_s = costs.sample_s + (longer - 1) * waiting_s
        cpu_s = costs.sample_s - waiting_s
        share = np.divide(cpu_s, sample_s, out=np.zeros_like(sample_s), where=sample_s > 0)
        return replace(costs, sample_s=sample_s, cpu_share=share)

    def _cores_of(self, n_processes: int) -> float:
        """How many CPUs so many processes get beside the others that wanted them.

        The kernel gives each process that can run an equal part. More processes than CPUs, or than
        were recorded, would get more, at the cost of others: that is not counted on.
        """
        others = self.n_readers * max(0.0, self.cores / self.cores_left - 1)
        processes = min(n_processes, max(self.n_readers, self.cores))
        return self.cores * processes / (processes + others)

    @property
    def shown_per_s(self) -> float:
        """Samples a second that what samples wait for is known to serve; infinite if for nothing.

        As many as were read at once: a lock, a disk or a server need not serve more.
        """
        waiting_s = float(np.mean(self.costs.sample_s * (1 - self.costs.cpu_share)))
        return self.n_readers / waiting_s if waiting_s > 0 else math.inf

    def deliveries_per_sample(self, setting: LoaderSettings) -> int:
        """How often each sample is delivered."""
        return max(1, setting.num_workers) if self.naive else 1

    @property
    def cores(self) -> float:
        """How many CPUs the loader may use."""
        return self.cpus_allowed or self.cores_left

    @property
    def crowded_out(self) -> bool:
        """Whether other processes used a good part of the CPUs."""
        return self.cores_left < CROWDED_OUT * self.cores

    @property
    def cores_left(self) -> float:
        """How many of them it had while it was recorded: other processes may have used the rest."""
        assert self.costs.cores is not None
        return self.costs.cores


def evidence_from_trace(
    trace: Trace,
    *,
    loader: int | None = None,
    step_s: float | None = None,
    step_cpu_share: float = 0.0,
    n_batches: int | None = None,
) -> Evidence:
    """What a trace shows of one loader, in the first rank that took batches of it.

    Args:
        trace: a recording.
        loader: which of its loaders; None: the one that is waited for longest. Those that are made
            anew at one line of code are one, under the number of the first.
        step_s: seconds of a step, in place of the recorded ones.
        step_cpu_share: the part of a step, 0 to 1, that keeps a CPU busy.
        n_batches: batches of an epoch; None: as the trace tells.

    Raises:
        LoaderVizError: for a trace that shows nothing to predict from.
    """
    whole = as_one(trace)
    if loader is None or _has(whole, loader):
        trace = whole  # else it is the number of one life among several
    loader, of_several = _loader_number(trace, loader)
    cpu_allowance = trace.meta.get("cpu_allowance")
    batches = trace.batches[trace.batches["loader"] == loader]
    delivered = batches[batches["delivered_s"].notna()]
    first_rank = int((batches if delivered.empty else delivered)["rank"].min())
    n_ranks = max(machine.local_world_size() or 1, ranks_beside(trace, first_rank))
    if trace.batches["rank"].nunique() > 1:  # the others' settings are the same
        trace = trace.of_ranks([first_rank])
    costs = Costs.from_trace(
        trace,
        loader=loader,
        step_cpu_share=step_cpu_share,
        cores=cpu_allowance / n_ranks if cpu_allowance else None,
    )
    if step_s is not None:
        costs = replace(costs, step_s=step_s)
    batches = trace.batches[trace.batches["loader"] == loader]
    delivered = batches[batches["delivered_s"].notna()]
    description = loader_description(trace.meta, loader)
    if description.get("num_workers") is None:
        description["num_workers"] = int(
            delivered.loc[delivered["worker"] >= 0, "worker"].nunique()
        )
    present = LoaderSettings.of(description)
    if present.max_tasks > MOST_AHEAD:
        raise LoaderVizError(
            f"{present} are asked for {present.max_tasks:,} batches ahead, too many to simulate: "
            f"record with a prefetch_factor that makes it {MOST_AHEAD:,} at most"
        )
    loading_s = (batches["ready_s"] - batches["started_s"]).dropna().to_numpy()
    queued = float(batches["queued_s"].sum() / max(loading_s.sum(), 1e-12))
    if not batches["queued_s"].mean() >= WAKING_S:
        queued = 0.0
    rss = batches.loc[batches["worker"] >= 0, "rss_bytes"]
    return Evidence(
        trace=trace.of_loader(loader),
        costs=costs,
        description=description,
        present=present,
        batch_size=max(1, round(float(delivered["n_samples"].mean()))),
        n_recorded=len(delivered),
        error=_relative_error(loading_s),
        n_batches=n_batches if n_batches is not None else _epoch_length(delivered),
        # One that is made anew begins its epochs with workers of its own, whatever its settings.
        epochs=max(1, int(delivered["epoch"].nunique()) // lives(trace.meta, loader)),
        leaves_early=leaves_early(batches),
        unlike=_unlike(delivered, description),
        recorded_per_s=_recorded_per_s(delivered),
        has_device=bool(batches["device_start_s"].notna().any()),
        batch_bytes=_batch_bytes(batches),
        worker_bytes=max(map(int, rss), default=0) or None,
        n_ranks=n_ranks,
        n_readers=max(1, int(batches["worker"].nunique())),
        cpus_allowed=cpu_allowance / n_ranks if cpu_allowance else None,
        queued=queued,
        reading_s=_reading_by_epoch(delivered),
        main_is_kept=_main_is_kept(trace.of_loader(loader)),
        of_several=of_several,
        with_others=part_with_others(trace, first_rank, loader),
        shared=float(np.mean(Reading.of(trace.of_loader(loader)).by_cause["unknown"])) > MOSTLY,
    )


def _has(trace: Trace, loader: int) -> bool:
    return bool((trace.batches["loader"] == loader).any())


def _loader_number(trace: Trace, loader: int | None) -> tuple[int, str]:
    """The loader asked for, or the one most waited for; and a sentence that says so.

    Raises:
        LoaderVizError: where that is not in the trace.
    """
    loaders = sorted({int(number) for number in trace.batches["loader"]})
    if not loaders:
        raise LoaderVizError(
            "this trace holds no batch: iterate the loader for a few seconds while it is recorded"
        )
    if loader is None:
        return _most_waited_for(trace, loaders)
    if loader not in loaders:
        listed = _listed(as_one(trace))
        raise LoaderVizError(
            f"loader={loader!r}: this recording has no such loader. It has\n{listed}"
        )
    return loader, ""


def _most_waited_for(trace: Trace, loaders: list[int]) -> tuple[int, str]:
    """Of those that delivered a batch, where any did."""
    if len(loaders) == 1:
        return loaders[0], ""
    shares = [share for share in loader_shares(trace) if share.loader in loaders]
    delivering = [share for share in shares if share.n_batches] or shares
    most = max(delivering, key=lambda share: share.waited_s)
    if len(delivering) == 1:
        return most.loader, ""
    others = sorted(delivering, key=lambda share: -share.waited_s)[1:]
    named = "; ".join(f"loader={each.loader} is {each.name}" for each in others[:MOST_NAMED])
    more = f"; and {len(others) - MOST_NAMED:,} more" if len(others) > MOST_NAMED else ""
    return most.loader, (
        f"This is {most.name}, the one of {len(delivering):,} loaders that is waited for most. "
        f"loader=NUMBER, or --loader NUMBER, asks for another: {named}{more}."
    )


def _listed(trace: Trace) -> str:
    """A line for each loader that is waited for most: its number, name, and what was waited."""
    shares = sorted(loader_shares(trace), key=lambda share: -share.waited_s)
    lines = [f"  {share.loader}  {share}" for share in shares[:MOST_LISTED]]
    more = len(shares) - len(lines)
    return "\n".join([*lines, f"  and {more:,} more"] if more else lines)


def _reading_by_epoch(delivered: pd.DataFrame) -> tuple[float, ...]:
    """Seconds to read a sample in each epoch that has half as many batches as the longest."""
    read = delivered.dropna(subset=["started_s", "collate_s"])
    took_s = (read["collate_s"] - read["started_s"]).groupby(read["epoch"]).sum()
    by_epoch = read.groupby("epoch")["n_samples"]
    is_long = by_epoch.count() >= by_epoch.count().max() / 2
    return tuple((took_s / by_epoch.sum().clip(lower=1))[is_long])


def _unlike(delivered: pd.DataFrame, description: Mapping[str, Any]) -> str:
    """How the workers are unlike, as a sentence without its full stop; empty where they are not."""
    slow, large = slow_worker(delivered), None
    if description.get("kind") == "iterable":
        large = largest_share(delivered)
    if large is not None:
        worker, part = large
        return f"Worker {worker} reads {percent(part)} of the stream, and the end waits for it"
    if slow is not None:
        worker, times = slow
        return f"Worker {worker} takes {times:.1f} times as long for a sample as the others"
    return ""


def _main_is_kept(trace: Trace) -> bool:
    """Whether small batches that lie ready are handed over slowly."""
    return keeps_small_batches(trace.batches, handed_over_s(trace, attribute(trace)))


def _recorded_per_s(delivered: pd.DataFrame) -> float:
    first = delivered[delivered["epoch"] == delivered["epoch"].min()]
    took_s = float(first["released_s"].max() - first["requested_s"].min())
    return float(first["n_samples"].sum()) / took_s if took_s > 0 else math.inf


def _epoch_length(delivered: pd.DataFrame) -> int | None:
    """Batches of the first epoch, where a second one shows that the first was complete."""
    epochs = delivered["epoch"]
    return int((epochs == epochs.min()).sum()) if epochs.nunique() > 1 else None


def _batch_bytes(batches: pd.DataFrame) -> int | None:
    """Of the largest batch; None where the trace does not tell."""
    n_bytes = batches["n_bytes"].dropna()
    return int(n_bytes.max()) if len(n_bytes) else None


def _relative_error(loading_s: Any) -> float:
    """Two standard errors of the mean, as a part of it."""
    if len(loading_s) < 2 or not np.mean(loading_s) > 0:
        return UNKNOWN_ERROR
    return float(2 * np.std(loading_s, ddof=1) / np.sqrt(len(loading_s)) / np.mean(loading_s))
