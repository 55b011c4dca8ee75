"""What a worker that reads samples is held up by: of each batch, the parts of its reading time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.array_types import Floats
from loaderviz.trace.steps import NS, groups, seconds_within
from loaderviz.why.slow_samples import FEWEST_SAMPLES, SlowSamples, slow_samples
from loaderviz.why.worker_cpus import MOSTLY, shared_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loaderviz.trace.trace import Trace


ROOM: Final = 0.5  # of what one worker takes of the CPUs: if less is left, one more gets little
QUEUED: Final = 0.1  # of its time that a worker was ready to run and had no CPU: they are full, too
FEWEST_BATCHES: Final = 16  # that show a drift: two in each period
N_PERIODS: Final = 8  # of a run, whose medians rise with a drift, but for one
DRIFTED: Final = 1.5  # times as long at the end as at the beginning
SHARED: Final = 0.5  # of what one more that reads at the same time would cost if they took turns
CROWDED: Final = 3.0  # times that at most: what takes still longer is another kind of sample
REGULAR: Final = 0.75  # of the usual distance between two ends is the least
UNLIKE: Final = 0.15  # of the usual time: as far as what samples take is apart, in the middle
FEWEST_ALIKE: Final = 3  # samples that were read by as many workers at once
ENOUGH_SAMPLES: Final = 100_000  # that tell whether samples wait for one another

_LANE = ("rank", "loader", "epoch", "worker")
_NAMES = (
    *(*_LANE, "batch", "n_samples", "dispatched_s", "started_s", "collate_s", "ready_s"),
    *("cpu_s", "process_cpu_s", "queued_s", "throttled_s"),
)


@dataclass(frozen=True)
class Reading:
    """Parts of the time in which the samples of a batch were read, 0 to 1, one of each batch.

    What they leave is due to ``workers``: samples wait, and more workers would overlap.
    """

    by_cause: Mapping[str, Floats]
    cpus_full: Any  # of each batch, whether the CPUs were full while it was made
    slow: SlowSamples

    @classmethod
    def of(cls, trace: Trace) -> Reading:
        """Of every batch of the trace, in its order."""
        batches = {name: trace.batches[name].to_numpy() for name in _NAMES}
        read_s = batches["collate_s"] - batches["started_s"]
        took_s = batches["ready_s"] - batches["started_s"]
        left = np.ones(len(read_s))
        parts: dict[str, Floats] = {}

        def take(cause: str, part: Floats) -> None:
            nonlocal left
            own = left * np.clip(np.nan_to_num(part), 0.0, 1.0)
            parts[cause] = parts.get(cause, 0.0) + own
            left = left - own

        # Whom its quota stops is ready to run and has no CPU: so it counts as queued, too.
        throttled_s = np.nan_to_num(np.minimum(batches["throttled_s"], batches["queued_s"]))
        batches["queued_s"] = batches["queued_s"] - throttled_s
        take("throttled", _ratio(throttled_s, took_s))
        ran_s = read_s * left
        slow = slow_samples(trace, batches)
        for cause, seconds in slow.by_cause.items():
            take(cause, _ratio(np.maximum(seconds - (read_s - ran_s), 0.0), ran_s))
        usual_s = _ratio(read_s * left, batches["n_samples"])
        take("drift", _drift(batches, usual_s))
        busy_s, full = _cpu(trace, batches, read_s, took_s)
        take("cpu", _ratio(busy_s, ran_s))
        take("uneven", _uneven(trace, batches))
        take("prefetch", _idle(batches, read_s))
        take("unknown", _shared(trace, batches) * (parts["drift"] == 0))
        return cls(parts, full, slow)


def _ratio(part: Any, whole: Any) -> Floats:
    return np.asarray(
        np.divide(part, whole, out=np.zeros(len(whole)), where=np.asarray(whole) > NS)
    )


def _drift(batches: Mapping[str, Any], usual_s: Floats) -> Floats:
    """Of each batch the part of its time that it would not have taken at the beginning."""
    part = np.zeros(len(usual_s))
    for number in np.unique(batches["loader"]):
        own = (batches["loader"] == number) & (usual_s > NS)
        own = np.flatnonzero(own & ~np.isnan(batches["started_s"]))
        if len(own) < FEWEST_BATCHES:
            continue
        own = own[np.argsort(batches["started_s"][own], kind="stable")]
        periods = np.array_split(usual_s[own], N_PERIODS)
        medians = np.array([np.median(period) for period in periods])
        first_s = float(np.median(usual_s[own[: max(2, len(own) // (2 * N_PERIODS))]]))
        rises = int((np.diff(medians) > 0).sum())
        if rises < N_PERIODS - 2 or medians[-1] < DRIFTED * max(first_s, medians[0]):
            continue
        ends = np.cumsum([len(period) for period in periods])
        middles = ends - np.array([len(period) for period in periods]) / 2
        now_s = np.interp(np.arange(len(own)), middles, medians)
        part[own] = np.maximum(1 - first_s / now_s, 0.0)
    return part


def _cpu(
    trace: Trace, batches: Mapping[str, Any], read_s: Floats, took_s: Floats
) -> tuple[Floats, Any]:
    """For how long each batch's worker computed, or had no CPU, while CPUs were full.

    In seconds of reading; and whether they were full.
    """
    if trace.meta.get("cpu_allowance") is None:
        return np.zeros(len(read_s)), np.zeros(len(read_s), bool)
    cores = _cpus_of(trace, batches)
    thread_s, queued_s = batches["cpu_s"], batches["queued_s"]
    process_s = np.fmax(thread_s, np.nan_to_num(batches["process_cpu_s"]))
    collate_s = np.nan_to_num(took_s - read_s)
    # Of all its threads it is known since the batch before was made: one hands that over meanwhile.
    others_s = process_s - np.nan_to_num(thread_s)
    demand = _ratio(np.nan_to_num(thread_s) + np.nan_to_num(queued_s), np.nan_to_num(took_s))
    demand += _ratio(others_s, _since_last_s(batches, took_s))
    around = _mean_over(batches, demand)
    full = (cores - around < ROOM * demand) & (around >= MOSTLY * cores)
    full |= _ratio(np.nan_to_num(queued_s), took_s) > QUEUED
    helpers = process_s > 1.2 * thread_s + 1e-4
    # Without a look at the queue for a CPU it is not known how long a worker stood in it.
    busy_s = np.where(
        np.isnan(queued_s) | helpers, read_s, np.nan_to_num(thread_s + queued_s) - collate_s
    )
    return np.where(full, busy_s, 0.0), full


def _cpus_of(trace: Trace, batches: Mapping[str, Any]) -> Floats:
    """Of each batch, how many CPUs the workers of its loader have."""
    cores = np.full(len(batches["rank"]), float(trace.meta["cpu_allowance"]))
    if trace.workers["cpus_allowed"].notna().any():
        for rank, loader in np.unique(np.stack([batches["rank"], batches["loader"]]), axis=1).T:
            shared = shared_cpus(trace, loader, rank)
            if shared is not None:
                cores[(batches["rank"] == rank) & (batches["loader"] == loader)] = len(shared)
    return cores


def _since_last_s(batches: Mapping[str, Any], took_s: Floats) -> Floats:
    """How long after a worker's batch before each was made; of the first, how long it took."""
    ready_s = batches["ready_s"]
    lane = groups(*(batches[name] for name in _LANE))
    order = np.lexsort([ready_s, lane])
    order = order[~np.isnan(ready_s[order])]
    since_s = np.nan_to_num(took_s)
    between_s = np.diff(ready_s[order])
    follows = np.diff(lane[order]) == 0
    since_s[order[1:][follows]] = np.maximum(since_s[order[1:]], between_s)[follows]
    return since_s


def _mean_over(batches: Mapping[str, Any], weight: Floats) -> Floats:
    """The weights of all that is being made in the same rank, averaged while each is made."""
    begin, end = batches["started_s"], batches["ready_s"]
    mean = np.zeros(len(begin))
    known = end > begin  # False for NaN
    for rank in np.unique(batches["rank"]):
        own = np.flatnonzero(known & (batches["rank"] == rank))
        weighted = seconds_within(begin[own], end[own], weight[own])
        mean[own] = weighted(begin[own], end[own]) / (end[own] - begin[own])
    return mean


def _uneven(trace: Trace, batches: Mapping[str, Any]) -> Floats:
    """1 for each batch of a stream that goes on when another worker's has ended."""
    is_stream = [about.get("kind") == "iterable" for about in trace.meta.get("loaders") or ()]
    iterable = np.isin(batches["loader"], np.flatnonzero(is_stream))
    part = np.zeros(len(iterable))
    if not iterable.any():
        return part
    epoch = groups(*(batches[name] for name in ("rank", "loader", "epoch")))
    lane = groups(*(batches[name] for name in _LANE))
    last = np.full(int(lane.max()) + 1, -np.inf)  # of each worker's epoch
    np.fmax.at(last, lane, np.nan_to_num(batches["ready_s"], nan=-np.inf))
    first_end = np.full(int(epoch.max()) + 1, np.inf)
    np.minimum.at(first_end, epoch, np.where(np.isinf(last), np.inf, last)[lane])
    part[iterable & (batches["started_s"] >= first_end[epoch])] = 1.0
    return part


def _idle(batches: Mapping[str, Any], read_s: Floats) -> Floats:
    """Of each batch, how much of its reading fell to idle workers, or could have been done before.

    A worker is idle between a batch and the moment when the next one is asked for.
    """
    part = np.zeros(len(read_s))
    lane = groups(*(batches[name] for name in _LANE))
    order = np.lexsort([batches["started_s"], lane])
    order = order[(batches["worker"][order] >= 0) & ~np.isnan(batches["started_s"][order])]
    if len(order) < 2:
        return part
    same = np.diff(lane[order]) == 0
    begin = batches["ready_s"][order[:-1]]
    end = batches["dispatched_s"][order[1:]]
    gap_s = np.where(same, np.nan_to_num(end - begin), 0.0)
    part[order[1:]] = np.clip(_ratio(np.maximum(gap_s, 0.0), read_s[order[1:]]), 0.0, 1.0)
    epoch = groups(*(batches[name] for name in ("rank", "loader", "epoch")))
    workers = np.zeros(int(epoch.max()) + 1, np.int64)
    np.maximum.at(workers, epoch, batches["worker"] + 1)
    idle = np.flatnonzero(gap_s > 0)
    for number in np.unique(epoch[order[1:][idle]]):
        gaps = idle[epoch[order[1:][idle]] == number]
        own = np.flatnonzero((epoch == number) & (read_s > NS))
        idle_within = seconds_within(begin[gaps], end[gaps])
        idle_s = idle_within(batches["started_s"][own], batches["collate_s"][own])
        others = max(1, int(workers[number]) - 1)
        part[own] = np.maximum(part[own], np.clip(idle_s / read_s[own] / others, 0.0, 1.0))
    return part


def _shared(trace: Trace, batches: Mapping[str, Any]) -> Floats:
    """1 for each batch of a loader whose samples take longer, the more of them are read at once.

    They wait for one another: for a lock, a disk, a server. More workers would wait longer, so
    nobody can tell from this recording what they would gain. Where it is simulated, they wait for
    CPUs alone.
    """
    part = np.zeros(len(batches["rank"]))
    if trace.meta.get("simulated"):
        return part
    samples = trace.samples
    for number in np.unique(batches["loader"]):
        own = samples["loader"].to_numpy() == number
        if int(batches["worker"][batches["loader"] == number].max(initial=-1)) < 1:
            continue
        begin, end = _first_read(
            samples["start_s"].to_numpy()[own], samples["end_s"].to_numpy()[own]
        )
        if _slow_each_other(begin, end) or _take_turns(begin, end):
            part[batches["loader"] == number] = 1.0
    return part


def _first_read(begin: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Begin and end of the first samples that were read: as many as it takes to tell."""
    known = end > begin  # False for NaN
    begin, end = begin[known], end[known]
    if len(begin) > ENOUGH_SAMPLES:
        early = begin <= np.partition(begin, ENOUGH_SAMPLES)[ENOUGH_SAMPLES]
        begin, end = begin[early], end[early]
    return begin, end


def _take_turns(begin: Floats, end: Floats) -> bool:
    """Whether samples take now more and now less time, and yet end at equal distances.

    So they do where only one is read at a time, and the others wait. Distances are equal by chance
    where all take equally long and workers began one after another; then this says no.
    """
    if len(end) < FEWEST_SAMPLES:
        return False
    short_s, quarter_s, usual_s, long_s = np.quantile(
        np.diff(np.sort(end)), [0.05, 0.25, 0.5, 0.75]
    )
    regular = short_s > REGULAR * usual_s and long_s - quarter_s < (1 - REGULAR) * usual_s
    low_s, median_s, high_s = np.quantile(end - begin, [0.25, 0.5, 0.75])
    return bool(regular and high_s - low_s > UNLIKE * median_s)


def _slow_each_other(begin: Floats, end: Floats) -> bool:
    """Whether samples take longer, the more of them are read at once."""
    took_s = end - begin
    if len(took_s) < 2 * FEWEST_ALIKE:
        return False
    mean = seconds_within(begin, end)(begin, end) / took_s
    level = np.round(mean).astype(np.int64)
    shown = [n for n in np.unique(level) if n > 0 and (level == n).sum() >= FEWEST_ALIKE]
    if len(shown) < 2:
        return False
    few, many = np.flatnonzero(level == shown[0]), np.flatnonzero(level == shown[-1])
    if np.quantile(took_s[few], 0.9) >= np.quantile(took_s[many], 0.25):
        return False  # they differ anyway
    # Where samples take less and less, fewer are read at once too, as workers have to wait.
    few, many = _nearest_in_time((begin + end) / 2, few, many)
    slower = float(np.median(took_s[many] / took_s[few])) - 1
    more = shown[-1] / shown[0] - 1
    return bool(SHARED * more < slower <= CROWDED * more)


def _nearest_in_time(middle: Floats, few: Any, many: Any) -> tuple[Any, Any]:
    """Pairs of one of the few and that of the many that was read next to it: the nearest pairs."""
    many = many[np.argsort(middle[many])]
    after = np.searchsorted(middle[many], middle[few])
    before, after = many[np.maximum(after - 1, 0)], many[np.minimum(after, len(many) - 1)]
    is_before = np.abs(middle[before] - middle[few]) <= np.abs(middle[after] - middle[few])
    nearest = np.where(is_before, before, after)
    by_distance = np.argsort(np.abs(middle[nearest] - middle[few]), kind="stable")
    closest = by_distance[: max(FEWEST_ALIKE, len(few) // 4)]
    return few[closest], nearest[closest]
