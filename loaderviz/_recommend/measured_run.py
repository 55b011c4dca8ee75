"""One real run of a loader with other settings, for a moment: how fast it is once it is at pace."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Final

import numpy as np
import psutil
from torch.utils.data import DataLoader

from loaderviz._doctor.run_outcomes import child_processes
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.batch_counts import n_ahead
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.forked_run import run_forked
from loaderviz.loaders.random_state import keep_random_state

Step = Callable[[Any], object]

# Rounds of one batch a worker. The first belongs to the start, and a pace needs two more.
LEAST_ROUNDS: Final = 3
LATE: Final = 3.0  # times the seconds of a run, after which it ends though too few rounds are over
MOST_PARTS: Final = 8  # that a run is cut into, to see how much they differ
READY: Final = 0.9  # of the rounds: workers keep up if a batch lies ready after as many
LEAST_TIMEOUT_S: Final = 0.1  # torch takes 0 for no timeout


@dataclass(frozen=True)
class Run:
    """What one run showed.

    Attributes:
        pace_s: seconds a batch, once the workers are at pace; infinite where no batch came in time.
        start_s: until the first batch, without what it takes to read one.
        step_s: of a step, as it went: a pause of 20 ms takes a little longer.
        n_batches: how many the pace rests on.
        kept_up: whether batches lay ready in time, so that more workers would gain nothing.
        ready_share: of the rounds of one batch a worker, in the later half: after how many a batch
            lay ready; NaN: not known.
        parts_s: seconds a batch in each of up to eight parts of the run, in order.
        cpus: how many CPUs this process and its workers kept busy; NaN: not known.
        main_cpus: those of this process alone.
        other_cpus: how many others, of the whole machine, other processes kept busy.
        died: whether a worker was killed.
    """

    pace_s: float = math.inf
    start_s: float = 0.0
    step_s: float = 0.0
    n_batches: int = 0
    kept_up: bool = False
    ready_share: float = math.nan
    parts_s: tuple[float, ...] = ()
    cpus: float = math.nan
    main_cpus: float = math.nan
    other_cpus: float = math.nan
    died: bool = False


def run_setting(
    loader: DataLoader[Any],
    setting: LoaderSettings,
    step: Step,
    *,
    seconds: float,
    deadline: float,
    read_s: float = 0.0,
    n_batches: int = 0,
) -> Run:
    """Run a copy of the loader for about ``seconds`` from its first step on, and see its pace.

    Without workers a copy of this process runs: the dataset is not touched here, where files that
    it opens would be shared by all workers that are forked later.

    Args:
        loader: it is left as it was, and so are random generators.
        setting: its workers do not persist, whatever it says.
        step: what is done with each batch.
        seconds: how long; longer, until each worker has made three batches, up to three times that.
        deadline: a time of ``time.monotonic`` that it does not go on after.
        read_s: that a worker takes for a batch, as far as it is known.
        n_batches: to take at least, within three times ``seconds``.

    Raises:
        Exception: whatever the loader, its dataset or ``step`` raises, unchanged. Without workers
            no batch came, then.
    """
    copied, left_s = copy_until(loader, setting, deadline)
    limits = _Limits(seconds, deadline, n_batches)
    if setting.num_workers:
        with keep_random_state(loader):
            return _run(copied, setting, step, limits, read_s)
    args = (copied, setting, step, limits, read_s)
    sent = run_forked(_send_run, *args, timeout_s=left_s, threads=True).sent
    return Run(*sent[0]) if sent else Run()


def copy_until(
    loader: DataLoader[Any], setting: LoaderSettings, deadline: float
) -> tuple[DataLoader[Any], float]:
    """A copy that waits for no batch after a deadline, and how many seconds are left until then."""
    left_s = max(deadline - time.monotonic(), LEAST_TIMEOUT_S)
    options = {**setting.options(), "persistent_workers": False}
    return copy_loader(loader, **options, timeout=min(loader.timeout or left_s, left_s)), left_s


def _send_run(*args: Any) -> None:
    """``_run`` in a copy of this process; the last argument is the function to send it with."""
    warnings.simplefilter("ignore")  # the user has seen them with workers, or will
    with contextlib.suppress(Exception):  # a worker will raise it, too, or it takes workers
        args[-1](astuple(_run(*args[:-1])))


@dataclass(frozen=True)
class _Limits:
    seconds: float
    deadline: float
    n_batches: int

    def are_reached(self, n: int, begun_s: float, n_least: int) -> bool:
        now = time.monotonic()
        seconds = 0.0 if self.n_batches else self.seconds  # so many batches are enough then
        enough = n >= max(n_least, self.n_batches) and now - begun_s > seconds
        late = now - begun_s > LATE * self.seconds and n > 1
        return now > self.deadline or enough or late


@dataclass
class _Epoch:
    """When each step of an epoch ended, and how many batches lay ready after each round."""

    begun_s: float = field(default_factory=time.monotonic)
    first_s: float = math.nan  # when the first batch came
    ends_s: list[float] = field(default_factory=list)
    steps_s: list[float] = field(default_factory=list)
    ahead: dict[int, int] = field(default_factory=dict)  # by how many batches were taken
    ended_s: float = math.nan  # when it was over; NaN where the run was over before
    # Kept busy by all of the run, by this process alone, and by others.
    cpus: tuple[float, float, float] = (math.nan, math.nan, math.nan)

    @property
    def latency_s(self) -> float:
        """From the start of its workers to the first batch."""
        return self.first_s - self.begun_s


def _run(
    loader: DataLoader[Any], setting: LoaderSettings, step: Step, limits: _Limits, read_s: float
) -> Run:
    epochs: list[_Epoch] = []
    is_over = False
    while not is_over:
        epoch = _Epoch()
        try:
            is_over = _iterate(loader, setting, step, limits, epoch)
        except RuntimeError as error:
            # torch/utils/data/dataloader.py, ``_try_get_data`` and ``_get_data``: a worker was
            # killed, or no batch came in time.
            if not str(error).startswith("DataLoader "):
                raise
            if "timed out" not in str(error):
                return Run(died=True)
            is_over = True
        if not epoch.ends_s:
            break
        epochs.append(epoch)
        over_s = time.monotonic() - epochs[0].first_s
        is_over = is_over or over_s > limits.seconds or time.monotonic() > limits.deadline
    return _run_of(epochs, setting, read_s) if epochs else Run()


def _run_of(epochs: list[_Epoch], setting: LoaderSettings, read_s: float) -> Run:
    """What the epochs of a run show, the last of which may have been left."""
    run = Run(
        start_s=max(float(np.mean([each.latency_s for each in epochs])) - read_s, 0.0),
        step_s=float(np.median(np.concatenate([each.steps_s for each in epochs]))),
        kept_up=_kept_up(epochs[-1]),
        ready_share=_ready_share(epochs[-1]),
        cpus=epochs[-1].cpus[0],
        main_cpus=epochs[-1].cpus[1],
        other_cpus=epochs[-1].cpus[2],
    )
    whole = [each for each in epochs if not math.isnan(each.ended_s)]
    if whole:
        lengths = np.array([len(each.ends_s) for each in whole])
        # Of each its own start: what other work adds to one is no part of another.
        took_s = np.array([each.ended_s - each.first_s for each in whole])
        took_s += np.minimum([each.latency_s for each in whole], read_s)
        n, parts_s = int(lengths.sum()), tuple((took_s / lengths).tolist())
        return replace(run, pace_s=float(took_s.sum()) / n, n_batches=n, parts_s=parts_s)
    first = epochs[0]
    pace_s, n, parts_s = pace_of_part(first.ends_s, first.ahead, setting)
    if n == 0:  # one batch: the time that it took
        pace_s, n = first.ends_s[-1] - first.begun_s, 1
    return replace(run, pace_s=pace_s, n_batches=n, parts_s=parts_s)


def _kept_up(epoch: _Epoch) -> bool:
    """Whether the loop hardly waited for a batch to be made, in the later half of an epoch.

    A batch lay ready after nearly each round of workers, and none in between was waited for longer
    than it takes to hand one over, which the shortest waits show.
    """
    if not _ready_share(epoch) >= READY:
        return False
    half = len(epoch.ends_s) // 2
    ends_s, steps_s = np.array(epoch.ends_s), np.array(epoch.steps_s)
    waits_s = (np.diff(ends_s) - steps_s[1:])[half:]
    if not len(waits_s):
        return False
    handing_s = float(np.quantile(waits_s, 1 - READY))  # of one that lies ready
    idle_s = np.maximum(waits_s - 2 * handing_s, 0.0).sum()
    return bool(idle_s <= (1 - READY) / 2 * (ends_s[-1] - ends_s[half]))


def _ready_share(epoch: _Epoch) -> float:
    ahead = [n > 0 for taken, n in epoch.ahead.items() if taken > len(epoch.ends_s) // 2]
    return float(np.mean(ahead)) if ahead else math.nan


def _iterate(
    loader: DataLoader[Any], setting: LoaderSettings, step: Step, limits: _Limits, epoch: _Epoch
) -> bool:
    """Fill in what each step was; whether the run was over before the epoch was."""
    round_ = max(1, setting.num_workers)
    others, workers = child_processes(), set[psutil.Process]()
    begun = np.zeros(4)
    iterator = iter(loader)
    for n, batch in enumerate(iterator, 1):
        if n == 1:
            epoch.first_s = time.monotonic()
            workers = child_processes() - others
            begun = _cpu_times(workers)
        came_s = time.monotonic()
        step(batch)
        epoch.steps_s.append(time.monotonic() - came_s)
        if setting.num_workers and n % round_ == 0:
            epoch.ahead[n] = n_ahead(iterator)
        epoch.ends_s.append(time.monotonic())
        if limits.are_reached(n, epoch.ends_s[0], LEAST_ROUNDS * round_):
            seconds, all_s, main_s, machine_s = (_cpu_times(workers) - begun).tolist()
            others_s = max(machine_s - all_s, 0.0)
            epoch.cpus = (all_s / seconds, main_s / seconds, others_s / seconds)
            return True
    epoch.ended_s = time.monotonic()  # its workers are gone, with what they took
    return False


def _cpu_times(workers: Iterable[psutil.Process]) -> Any:
    """Now: the time, CPU seconds of this process and its workers, of it alone, of the machine."""
    main_s = time.process_time()
    all_s = main_s
    for worker in workers:
        with contextlib.suppress(psutil.Error):
            times = worker.cpu_times()
            all_s += times.user + times.system
            # Of processes that it has started and waited for, such as ffmpeg; not on Windows.
            all_s += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    machine = psutil.cpu_times()
    machine_s = machine.user + machine.system + getattr(machine, "nice", 0.0)
    return np.array([time.monotonic(), all_s, main_s, machine_s])


def pace_of_part(
    ends_s: Sequence[float], ahead: dict[int, int], setting: LoaderSettings
) -> tuple[float, int, tuple[float, ...]]:
    """Seconds a batch at pace, of how many batches, and in parts, from a part of an epoch.

    Batches that were asked for before the loop began do not count, nor does anything before they
    are used up; but at least the later half of the run does. From there on, what lies ready becomes
    fewer where the workers do not keep up: only what they made meanwhile counts. Batches come in
    rounds of one from each worker, so whole rounds are looked at.

    Args:
        ends_s: when each step ended.
        ahead: how many batches lay ready, by how many were taken by then.
        setting: of the run.
    """
    round_ = max(1, setting.num_workers)
    rounds = range(round_, len(ends_s) + 1, round_)
    if len(rounds) < 2:
        rounds = range(1, len(ends_s) + 1)
    if len(rounds) < 2:
        return math.nan, 0, ()
    first = next((i for i, n in enumerate(rounds) if n >= max(setting.max_tasks, 1)), len(rounds))
    counted = rounds[min(first, (len(rounds) - 1) // 2) :]
    n = counted[-1] - counted[0]
    took_s = ends_s[counted[-1] - 1] - ends_s[counted[0] - 1]
    made = max(n - _eaten_up([ahead[each] for each in counted if each in ahead]), n / 2)
    edges = np.unique(np.linspace(0, len(counted) - 1, MOST_PARTS + 1).round().astype(int))
    marks = np.array(counted)[edges]
    parts = np.diff(np.array(ends_s)[marks - 1]) / np.diff(marks) * (n / made)
    return took_s / made, n, tuple(parts.tolist())


def _eaten_up(ahead: Sequence[int]) -> float:
    """By how many batches a queue became shorter, where that is more than it varies; else 0."""
    if len(ahead) < 4:  # two halves of two
        return max(float(ahead[0] - ahead[-1]), 0.0) if len(ahead) > 1 else 0.0
    halves = np.array_split(np.array(ahead, float), 2)
    shorter = float(halves[0].mean() - halves[1].mean())
    error = math.sqrt(sum(half.var(ddof=1) / len(half) for half in halves))
    return 2 * shorter if shorter > 2 * error else 0.0
