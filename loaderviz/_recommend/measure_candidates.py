"""Settings that are run for real: a short while each, in turns, so that a drift hits all alike."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.trial_recording import PATIENCE
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.forked_run import may_fork, run_forked
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.recorder import record
from loaderviz.text import count, wrapped
from loaderviz.trace import Trace

ROUNDS = 2  # in each of which every setting runs once
LATE = 3  # times the seconds of a run, after which it ends though a round of workers is not over


def measure(
    loader: DataLoader[Any],
    evidence: Evidence,
    settings: Sequence[LoaderSettings],
    seconds: float,
    epochs: int,
) -> dict[LoaderSettings, Any]:
    """Seconds a batch of each setting, an array of one value a run; infinite where none came.

    A run goes on for about ``seconds`` from its first batch, or for an epoch. A step takes as long
    as in the prediction: it sleeps, or works on the CPU. Where it is known how long an epoch is,
    the start of the workers counts, as in the prediction. Without workers a copy of this process
    runs: the dataset is not touched here.

    Raises:
        Exception: whatever the loader or its dataset raises, unchanged.
    """
    said = (
        f"recommend: measures {count(len(settings), 'setting')}, {count(ROUNDS, 'time')} each, "
        f"for {seconds:.2g} s from the first batch: {'; '.join(map(str, settings))}."
    )
    print(wrapped(said, hanging=2))
    measured: dict[LoaderSettings, list[float]] = {setting: [] for setting in settings}
    for _ in range(ROUNDS):
        for setting, batch_s in measured.items():
            if math.inf in batch_s:
                continue
            args = (_copy(loader, setting, seconds), evidence, setting, seconds, epochs)
            if setting.num_workers:
                with keep_random_state(loader):
                    batch_s.append(_batch_s(*args))
            else:
                done = run_forked(_send_batch_s, *args, timeout_s=(LATE + PATIENCE) * seconds)
                batch_s.append(done.sent[0] if done.sent else math.inf)
    return {setting: np.array(batch_s) for setting, batch_s in measured.items()}


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
        ends: list[float] = []
        epoch_begun = time.perf_counter()
        try:
            is_over = _run(loader, evidence, setting, seconds, ends)
        except RuntimeError as error:
            # torch/utils/data/dataloader.py, ``_try_get_data`` and ``_get_data``: a worker was
            # killed, or no batch came in time.
            if not str(error).startswith("DataLoader "):
                raise
            return math.inf
        if not is_over:
            break
        n += len(ends)
        elapsed_s = time.perf_counter() - begun
        if elapsed_s > seconds or not ends:
            return elapsed_s / max(n, 1)
    if n:
        return (epoch_begun - begun) / n
    return _batch_s_of_part(ends, epoch_begun, evidence, setting, epochs)


def _batch_s_of_part(
    ends: Sequence[float], begun: float, evidence: Evidence, setting: LoaderSettings, epochs: int
) -> float:
    """Seconds a batch of a long epoch, from when the steps ``ends`` of its beginning."""
    # Batches come in rounds of one from each worker, and those that lay ready at the beginning come
    # faster than the loader can go on.
    workers = max(1, setting.num_workers)
    n_rounds = max(1, len(ends) // workers)
    n_ready = workers * min(-(-setting.in_flight // workers), n_rounds // 2)
    first = max(n_ready, 1)
    last = first + ((len(ends) - first) // workers * workers or len(ends) - first)
    pace_s = (ends[last - 1] - ends[first - 1]) / (last - first)
    if evidence.n_batches is None:
        return pace_s
    start_s = max(ends[first - 1] - begun - first * pace_s, 0.0)
    starts = 1 if setting.persistent_workers else epochs
    return pace_s + starts * start_s / (epochs * evidence.n_batches)


def _run(
    loader: DataLoader[Any],
    evidence: Evidence,
    setting: LoaderSettings,
    seconds: float,
    ends: list[float],
) -> bool:
    """Append when each step ended; whether the epoch was over before the run was."""
    step_s = float(np.mean(evidence.costs.step_s))
    busy_s = step_s * evidence.costs.step_cpu_share
    first_s = 0.0
    for _ in loader:
        first_s = first_s or time.perf_counter()
        _step(busy_s, step_s - busy_s)
        ends.append(time.perf_counter())
        elapsed_s = ends[-1] - first_s
        enough = len(ends) > max(2 * setting.num_workers, 1)
        late = elapsed_s > LATE * seconds and len(ends) > 1
        if late or (elapsed_s > seconds and enough):
            return False
    return True


def _step(busy_s: float, idle_s: float) -> None:
    """In place of the model: work on the CPU, then sleep."""
    until = time.thread_time() + busy_s
    while time.thread_time() < until:
        pass
    if idle_s > 0:
        time.sleep(idle_s)
