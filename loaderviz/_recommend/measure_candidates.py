"""Settings that are run for real: a short while each, in turns, so that a drift hits all alike."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.run_pace import Step, pace_of_run
from loaderviz._recommend.trial_recording import PATIENCE
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.batches_ahead import n_ahead
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.forked_run import may_fork, run_forked
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.recorder import record
from loaderviz.text import count, wrapped
from loaderviz.trace import Trace

ROUNDS = 2  # in each of which every setting runs once
COUNTED_ROUNDS = 4  # of one batch a worker, at least, after those that were asked for at the start
MORE_ROUNDS = 3  # of the best, where the runs of one of them differ
DIFFER = 0.04  # of their mean: more than the difference between two settings that may matter
NEAR = 0.1  # longer than the best: such a setting may be the best after all
LATE = 3  # times the seconds of a run, after which it ends though a round of workers is not over
UNEVEN = 0.1  # of their mean time, that so many batches leave unsure: a few of them tell too little


def measure(
    loader: DataLoader[Any],
    evidence: Evidence,
    settings: Sequence[LoaderSettings],
    seconds: float,
    epochs: int,
) -> dict[LoaderSettings, Any]:
    """Seconds a batch of each setting, an array of one value a run; infinite where none came.

    A run goes on for about ``seconds`` from its first batch, or for an epoch. Where batches are
    uneven it is as many batches as were recorded, up to three times as long: a fast setting would
    otherwise go through others than a slow one. A step takes as long as in the prediction: it
    sleeps, or works on the CPU. Where it is known how long an epoch is, the start of the workers
    counts, as in the prediction. Without workers a copy of this process runs: the dataset is not
    touched here.

    Raises:
        Exception: whatever the loader or its dataset raises, unchanged.
    """
    how_long = (
        f"until {count(evidence.n_recorded, 'batch', 'batches')} came, as were recorded, for "
        f"{LATE * seconds:.2g} s at most"
        if _is_uneven(evidence)
        else f"for {seconds:.2g} s from the first batch"
    )
    said = (
        f"recommend: measures {count(len(settings), 'setting')}, {count(ROUNDS, 'time')} each, "
        f"{how_long}: {'; '.join(map(str, settings))}."
    )
    print(wrapped(said, hanging=2))
    measured: dict[LoaderSettings, list[float]] = {setting: [] for setting in settings}
    for _ in range(ROUNDS):
        for setting, batch_s in measured.items():
            if math.inf not in batch_s:
                batch_s.append(_measured_s(loader, evidence, setting, seconds, epochs))
    return {setting: np.array(batch_s) for setting, batch_s in measured.items()}


def measure_again(
    loader: DataLoader[Any],
    evidence: Evidence,
    batch_s: Mapping[LoaderSettings, Any],
    seconds: float,
    epochs: int,
) -> dict[LoaderSettings, Any]:
    """The same, with more runs of the best settings where the runs of one of them differ.

    Then other work on the machine was in the way of some, or its speed varies. All runs count.
    Raises as ``measure`` does.
    """
    measured = {setting: list(each) for setting, each in batch_s.items()}
    best_s = min(map(np.mean, batch_s.values()), default=math.inf)
    near = [each for each in batch_s if np.mean(batch_s[each]) < (1 + NEAR) * best_s]
    if len(near) < 2 or not any(_differ(measured[each]) for each in near):
        return dict(batch_s)
    rounds = 1 if _is_uneven(evidence) else MORE_ROUNDS  # of runs that are longer
    said = (
        f"recommend: measures {count(len(near), 'setting')} {count(rounds, 'time')} more, because "
        "runs of the same setting differ."
    )
    print(wrapped(said, hanging=2))
    for _ in range(rounds):
        for setting in near:
            measured[setting].append(_measured_s(loader, evidence, setting, seconds, epochs))
    return {setting: np.array(each) for setting, each in measured.items()}


def _is_uneven(evidence: Evidence) -> bool:
    """Whether the batches of a short run would tell too little of the others."""
    return evidence.error > UNEVEN


def _differ(batch_s: Sequence[float]) -> bool:
    return max(batch_s) - min(batch_s) > DIFFER * float(np.mean(batch_s))


def _measured_s(
    loader: DataLoader[Any],
    evidence: Evidence,
    setting: LoaderSettings,
    seconds: float,
    epochs: int,
) -> float:
    """Seconds a batch of one run; infinite where none came."""
    args = (_copy(loader, setting, seconds), evidence, setting, seconds, epochs)
    if setting.num_workers:
        with keep_random_state(loader):
            return _batch_s(*args)
    timeout_s = (LATE + PATIENCE) * seconds
    done = run_forked(_send_batch_s, *args, timeout_s=timeout_s, threads=True)
    return float(done.sent[0]) if done.sent else math.inf


def may_be_run(setting: LoaderSettings) -> bool:
    """Whether a setting can be measured here; without workers that takes a copy of this process."""
    return setting.num_workers > 0 or may_fork(0)


def record_run(
    loader: DataLoader[Any], evidence: Evidence, setting: LoaderSettings, seconds: float
) -> Trace:
    """A recording of one such run."""
    copied = _copy(loader, setting, seconds)
    with keep_random_state(loader), record(copied) as recording:
        _batch_s(copied, evidence, setting, seconds, epochs=1)
    return recording.trace


def _copy(loader: DataLoader[Any], setting: LoaderSettings, seconds: float) -> DataLoader[Any]:
    return copy_loader(loader, **setting.options(), timeout=loader.timeout or PATIENCE * seconds)


def _send_batch_s(*args: Any) -> None:
    """``_batch_s`` in a copy of this process; the last argument is the function to send it with."""
    warnings.simplefilter("ignore")  # the user has seen them with workers, or will
    args[-1](_batch_s(*args[:-1]))


def _batch_s(
    loader: DataLoader[Any],
    evidence: Evidence,
    setting: LoaderSettings,
    seconds: float,
    epochs: int,
) -> float:
    """Seconds a batch; short epochs are run again until the time is over, and all of them count."""
    n, begun = 0, time.perf_counter()
    while True:
        steps: list[Step] = []
        epoch_begun = time.perf_counter()
        try:
            is_over = _run(loader, evidence, setting, seconds, steps)
        except RuntimeError as error:
            # torch/utils/data/dataloader.py, ``_try_get_data`` and ``_get_data``: a worker was
            # killed, or no batch came in time.
            if not str(error).startswith("DataLoader "):
                raise
            return math.inf
        if not is_over:
            break
        n += len(steps)
        elapsed_s = time.perf_counter() - begun
        if elapsed_s > seconds or not steps:
            return elapsed_s / max(n, 1)
    if n:
        return (epoch_begun - begun) / n
    return _batch_s_of_part(steps, epoch_begun, evidence, setting, epochs)


def _batch_s_of_part(
    steps: Sequence[Step], begun: float, evidence: Evidence, setting: LoaderSettings, epochs: int
) -> float:
    """Seconds a batch of a long epoch, from the steps of its beginning."""
    pace_s, first = pace_of_run(steps, setting)
    if evidence.n_batches is None:
        return pace_s
    start_s = max(steps[first - 1].end_s - begun - first * pace_s, 0.0)
    starts = 1 if setting.persistent_workers else epochs
    return pace_s + starts * start_s / (epochs * evidence.n_batches)


def _run(
    loader: DataLoader[Any],
    evidence: Evidence,
    setting: LoaderSettings,
    seconds: float,
    steps: list[Step],
) -> bool:
    """Append what each step was; whether the epoch was over before the run was."""
    step_s = float(np.mean(evidence.costs.step_s))
    busy_s = step_s * evidence.costs.step_cpu_share
    recorded = evidence.n_recorded if _is_uneven(evidence) else 1
    least = max(setting.in_flight + COUNTED_ROUNDS * setting.num_workers, recorded)
    first_s = 0.0
    iterator = iter(loader)
    for n, _ in enumerate(iterator, 1):
        if n == 1:
            first_s = time.perf_counter()
        _step(busy_s, step_s - busy_s)
        n_ready: int | None = 0
        if setting.num_workers:  # each round, as to look takes longer than to get a small batch
            n_ready = n_ahead(iterator) if n % setting.num_workers == 0 else None
        end_s = time.perf_counter()
        steps.append(Step(end_s, n_ready))
        late = end_s - first_s > LATE * seconds and n > 1
        if late or (end_s - first_s > seconds and n > least):
            return False
    return True


def _step(busy_s: float, idle_s: float) -> None:
    """In place of the model: work on the CPU, then sleep."""
    until = time.thread_time() + busy_s
    while time.thread_time() < until:
        pass
    if idle_s > 0:
        time.sleep(idle_s)
