"""One short recording of a loader, with one worker, on a copy that leaves the loader as it was."""

from __future__ import annotations

import contextlib
import copy
import time
from dataclasses import dataclass, field, replace
from typing import Any

import psutil
import torch
from torch.utils.data import DataLoader

from loaderviz._doctor.batch_contents import contents_of
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_outcomes import child_processes
from loaderviz._recommend.evidence import Evidence, evidence_from_trace
from loaderviz._recommend.memory_budget import FreeBytes
from loaderviz._recommend.without_workers import record_without_workers
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.content_hash import digest_or_none
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.describe_loader import describe
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.recorder import record
from loaderviz.simulator import Costs
from loaderviz.text import count, wrapped

MOST_BATCHES = 500
MOST_SAMPLES = 100_000
PATIENCE = 10  # times the seconds of the recording, within which a batch has to come
PREFETCH = 4
# After so many batches the loop rests, so that the next ones lie ready: they show how long it takes
# to take a batch. The others show how long a batch is on its way.
RESTS = frozenset({4, 12, 24, 40, 60, 90, 130, 180})
LONGEST_REST_S = 0.5
MARGIN_S = 0.06  # a batch that was ready for this long had surely arrived
MOST_COMPARED = 4  # batches whose contents tell whether two workers deliver the same
SHARE_WITHOUT_WORKERS = 0.25  # of the seconds, for a recording without workers
SMALL_ERROR = 0.1  # a smaller one hardly matters
PLENTY = 1 << 30  # bytes of shared memory that surely hold several batches


def record_trial(
    loader: DataLoader[Any],
    seconds: float,
    *,
    step_s: float | None,
    step_cpu_share: float,
    n_batches: int | None,
) -> Evidence:
    """Record the loader for ``seconds``, after printing what is about to run.

    Args:
        loader: it is left as it was.
        seconds: how long to record from the first batch.
        step_s: seconds of a step; None: unknown, taken as 0.
        step_cpu_share: the part of a step, 0 to 1, that keeps a CPU busy.
        n_batches: batches of an epoch; None: as the loader tells.

    Raises:
        LoaderVizError: where no batch came.
        Exception: whatever the loader or its dataset raises, unchanged.
    """
    setup = Setup(loader)
    present = LoaderSettings.of(describe(loader))
    num_workers = 2 if setup.iterable else 1  # two show whether both deliver the same
    name = type(loader).__name__
    epoch_length = n_batches if n_batches is not None else _epoch_length(loader)
    said = (
        f"recommend: records the {name} with {count(num_workers, 'worker')} for "
        f"{seconds:g} s from its first batch, then without workers for "
        f"{SHARE_WITHOUT_WORKERS * seconds:g} s, {MOST_BATCHES} batches at most. It gives up if no "
        f"batch comes within {PATIENCE * seconds:g} s."
    )
    print(wrapped(said, hanging=2))
    with keep_random_state(loader):
        if _is_tight(loader):
            num_workers = 0
        trial = _record(loader, num_workers, seconds, pins=present.pin_memory)
    if not trial.n_batches:
        raise LoaderVizError(_too_slow(seconds) if trial.timed_out else _empty(setup))
    evidence = evidence_from_trace(
        trial.trace,
        step_s=0.0 if step_s is None else step_s,
        step_cpu_share=step_cpu_share,
        n_batches=epoch_length,
    )
    return replace(
        evidence,
        costs_without_workers=_without_workers(setup, seconds, evidence) if num_workers else None,
        present=present,
        steps_known=step_s is not None,
        worker_bytes=trial.worker_bytes or evidence.worker_bytes,
        worker_bytes_shared=trial.worker_bytes is None,
        batch_bytes=trial.batch_bytes,
        has_device=torch.accelerator.is_available(),
        naive=setup.iterable and _repeats(trial.digests),
    )


@dataclass
class _Trial:
    """What was recorded of a loader; ``worker_bytes`` are the worker's own, None: not known."""

    trace: Any = None
    n_batches: int = 0
    timed_out: bool = False
    batch_bytes: int = 0
    worker_bytes: int | None = None
    digests: list[int | None] = field(default_factory=list)


def _without_workers(setup: Setup, seconds: float, evidence: Evidence) -> Costs | None:
    """What loading costs in the main process, which fills no shared memory and reuses its own.

    None where that was not recorded, or too briefly to tell more than the recording of a worker.
    """
    trace = record_without_workers(setup, seconds * SHARE_WITHOUT_WORKERS)
    try:
        without = None if trace is None else evidence_from_trace(trace)
    except LoaderVizError:
        return None
    if without is None or without.error > max(SMALL_ERROR, evidence.error):
        return None
    costs = evidence.costs
    # One process: what it waited for a CPU, beside others, is in its times.
    return replace(
        without.costs,
        step_s=costs.step_s,
        step_cpu_share=costs.step_cpu_share,
        cores=evidence.cores,
    )


def _record(loader: DataLoader[Any], num_workers: int, seconds: float, *, pins: bool) -> _Trial:
    setting = LoaderSettings(num_workers, PREFETCH if num_workers else None, pin_memory=pins)
    timeout_s = loader.timeout or PATIENCE * seconds
    copied = copy_loader(loader, **setting.options(), timeout=timeout_s)
    trial, children_before = _Trial(), child_processes()
    with record(copied) as recording:
        try:
            _iterate(copied, seconds, trial, children_before)
        except RuntimeError as error:
            # torch/utils/data/dataloader.py, ``_get_data``, words it so.
            if loader.timeout or "DataLoader timed out after" not in str(error):
                raise
            trial.timed_out = True
    trial.trace = recording.trace
    return trial


def _iterate(
    loader: DataLoader[Any], seconds: float, trial: _Trial, children_before: set[psutil.Process]
) -> None:
    n_samples, begun = 0, time.monotonic()
    for batch in loader:
        now = time.monotonic()
        if trial.n_batches == 0:
            begun = now
            trial.batch_bytes = contents_of(batch).tensor_bytes
        if len(trial.digests) < MOST_COMPARED:
            trial.digests.append(digest_or_none(batch))
        trial.n_batches += 1
        n_samples += loader.batch_size or 1
        enough = trial.n_batches >= MOST_BATCHES or n_samples >= MOST_SAMPLES
        is_over = enough or now - begun > seconds
        rests = trial.n_batches in RESTS and not is_over and loader.num_workers > 0
        if is_over or rests or trial.n_batches == 1:
            own_bytes = _most_own_bytes(children_before)
            trial.worker_bytes = max(trial.worker_bytes or 0, own_bytes) or None
        if is_over:
            return
        if rests:
            batch_s = (time.monotonic() - begun) / trial.n_batches
            time.sleep(min(PREFETCH * batch_s + MARGIN_S, LONGEST_REST_S))


def _most_own_bytes(children_before: set[psutil.Process]) -> int:
    """Memory that the largest worker shares with nobody; 0 where the system does not tell."""
    own_bytes = [0]
    for worker in child_processes() - children_before:
        with contextlib.suppress(psutil.Error, AttributeError):
            own_bytes.append(int(worker.memory_full_info().uss))
    return max(own_bytes)


def _repeats(digests: list[int | None]) -> bool:
    """Whether two workers, which take turns, deliver the same batches as each other.

    A worker's own batches have to differ: otherwise all samples may be alike.
    """
    of_first_worker = digests[::2]
    pairs = list(zip(of_first_worker, digests[1::2], strict=False))
    same = all(first == second and first is not None for first, second in pairs)
    differ = len(set(of_first_worker)) == len(of_first_worker)
    return bool(pairs) and same and differ


def _is_tight(loader: DataLoader[Any]) -> bool:
    """Whether so few batches fit into shared memory that a worker might be killed."""
    free = FreeBytes.now().shm
    if free is None or free > PLENTY:
        return False
    for batch in copy_loader(loader, **LoaderSettings(0).options()):
        return contents_of(batch).tensor_bytes * (2 * PREFETCH + 1) > free
    return False


def _epoch_length(loader: DataLoader[Any]) -> int | None:
    """Batches of an epoch; None where the loader does not tell."""
    try:
        return len(copy.copy(loader))  # an iterable-style loader remembers that it was asked
    except Exception:  # whatever the user's own __len__ raises
        return None


def _too_slow(seconds: float) -> str:
    return (
        f"no batch came in {PATIENCE * seconds:g} s: there is nothing to predict from. Give it "
        f"longer, recommend(loader, seconds={4 * seconds:g}), or record your own loop and pass the "
        "trace."
    )


def _empty(setup: Setup) -> str:
    size, drops = setup.settings["batch_size"], setup.settings["drop_last"]
    small = f", or smaller than batch_size={size} with drop_last=True" if drops else ""
    return (
        f"the {setup.name} delivered no batch: its dataset is empty{small}. There is nothing to "
        "predict from."
    )
