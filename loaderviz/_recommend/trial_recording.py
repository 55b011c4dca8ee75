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
from loaderviz._recommend.evidence import Evidence, of_trace
from loaderviz._recommend.memory_budget import Room
from loaderviz._recommend.without_workers import without_workers
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.content_hash import digest_or_none
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.describe_loader import describe
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.recorder import record
from loaderviz.simulator import Costs
from loaderviz.text import count

MOST_BATCHES = 500
MOST_SAMPLES = 100_000
PATIENCE = 10  # times the seconds of the recording, until a batch has to have come
PREFETCH = 4
# Before these batches the loop rests, so that some lie ready: what it takes to take one is seen
# then, and in between how long one is on its way.
RESTS = frozenset({4, 12, 24, 40, 60, 90, 130, 180})
LONGEST_REST_S = 0.5
MARGIN_S = 0.06  # a batch that lay so long was there
COMPARED = 4  # batches, by content: does each of two workers deliver the same?
ALONE = 0.25  # of the seconds, for a recording without workers
NEARLY = 0.1  # an error that is smaller hardly matters
PLENTY = 1 << 30  # bytes of shared memory that surely hold some batches


def rehearse(
    loader: DataLoader[Any],
    seconds: float,
    *,
    step_s: float | None,
    step_cpu_share: float,
    n_batches: int | None,
) -> Evidence:
    """Record the loader for so long, and say first what is about to run.

    Raises:
        LoaderVizError: where no batch came.
        Exception: whatever the loader or its dataset raises, unchanged.
    """
    setup = Setup(loader)
    present = LoaderSettings.of(describe(loader))
    workers = 2 if setup.iterable else 1  # two: does each deliver the same?
    name = type(loader).__name__
    length = n_batches if n_batches is not None else _length(loader)
    print(
        f"recommend: records the {name} with {count(workers, 'worker')} for "
        f"{seconds:g} s from its first batch, and for {ALONE * seconds:g} s without; at most "
        f"{MOST_BATCHES} batches. Gives up where none comes in {PATIENCE * seconds:g} s."
    )
    with keep_random_state(loader):
        if _is_tight(loader):
            workers = 0
        seen = _record(loader, workers, seconds, pins=present.pin_memory)
    if not seen.n_batches:
        raise LoaderVizError(_too_slow(seconds) if seen.timed_out else _empty(setup))
    evidence = of_trace(
        seen.trace,
        step_s=0.0 if step_s is None else step_s,
        step_cpu_share=step_cpu_share,
        n_batches=length,
    )
    return replace(
        evidence,
        alone=_alone_costs(setup, seconds, evidence) if workers else None,
        present=present,
        steps_known=step_s is not None,
        worker_bytes=seen.worker_bytes or evidence.worker_bytes,
        worker_bytes_shared=seen.worker_bytes is None,
        batch_bytes=seen.batch_bytes,
        has_device=torch.accelerator.is_available(),
        naive=setup.iterable and _repeats(seen.digests),
    )


@dataclass
class _Seen:
    trace: Any = None
    n_batches: int = 0
    timed_out: bool = False
    batch_bytes: int = 0
    worker_bytes: int | None = None
    digests: list[int | None] = field(default_factory=list)


def _alone_costs(setup: Setup, seconds: float, evidence: Evidence) -> Costs | None:
    """Of the main process alone: it has no shared memory to fill, and memory that it used before.

    None where that was not seen, or too little of it to be better than what a worker showed.
    """
    trace = without_workers(setup, seconds * ALONE)
    try:
        seen = None if trace is None else of_trace(trace)
    except LoaderVizError:
        return None
    if seen is None or seen.error > max(NEARLY, evidence.error):
        return None
    same = ("step_s", "step_cpu_share", "cores")
    return replace(seen.costs, **{name: getattr(evidence.costs, name) for name in same})


def _record(loader: DataLoader[Any], workers: int, seconds: float, *, pins: bool) -> _Seen:
    setting = LoaderSettings(workers, PREFETCH if workers else None, pin_memory=pins)
    timeout_s = loader.timeout or PATIENCE * seconds
    copied = copy_loader(loader, **setting.options(), timeout=timeout_s)
    seen, before = _Seen(), child_processes()
    with record(copied) as recording:
        try:
            _iterate(copied, seconds, seen, before)
        except RuntimeError as error:
            # Of torch/utils/data/dataloader.py, ``_get_data``.
            if loader.timeout or "DataLoader timed out after" not in str(error):
                raise
            seen.timed_out = True
    seen.trace = recording.trace
    return seen


def _iterate(loader: DataLoader[Any], seconds: float, seen: _Seen, before: Any) -> None:
    n_samples, begun = 0, time.monotonic()
    for batch in loader:
        now = time.monotonic()
        if seen.n_batches == 0:
            begun = now
            seen.batch_bytes = contents_of(batch).tensor_bytes
        if len(seen.digests) < COMPARED:
            seen.digests.append(digest_or_none(batch))
        seen.n_batches += 1
        n_samples += loader.batch_size or 1
        over = now - begun > seconds or seen.n_batches >= MOST_BATCHES or n_samples >= MOST_SAMPLES
        resting = seen.n_batches in RESTS and not over and loader.num_workers > 0
        if over or resting or seen.n_batches == 1:
            seen.worker_bytes = max(seen.worker_bytes or 0, _own_bytes(before)) or None
        if over:
            return
        if resting:
            each_s = (time.monotonic() - begun) / seen.n_batches
            time.sleep(min(PREFETCH * each_s + MARGIN_S, LONGEST_REST_S))


def _own_bytes(before: set[psutil.Process]) -> int:
    """What the worker has that takes the most for its own; 0 where the system does not tell."""
    found = [0]
    for child in child_processes() - before:
        with contextlib.suppress(psutil.Error, AttributeError):
            found.append(int(child.memory_full_info().uss))
    return max(found)


def _repeats(digests: list[int | None]) -> bool:
    """Whether the batches of two workers, which take turns, are the same, and yet not all are."""
    pairs = list(zip(digests[::2], digests[1::2], strict=False))
    firsts = digests[::2]
    same = all(one == other and one is not None for one, other in pairs)
    return bool(pairs) and same and (len(firsts) == 1 or len(set(firsts)) == len(firsts))


def _is_tight(loader: DataLoader[Any]) -> bool:
    """Whether so few batches fit into shared memory that a worker might not live."""
    room = Room.here().shm
    if room is None or room > PLENTY:
        return False
    for batch in copy_loader(loader, **LoaderSettings(0).options()):
        return contents_of(batch).tensor_bytes * (2 * PREFETCH + 1) > room
    return False


def _length(loader: DataLoader[Any]) -> int | None:
    """Batches of an epoch, where the loader tells."""
    try:
        return len(copy.copy(loader))  # an iterable-style one remembers that it was asked
    except Exception:  # of the user's own
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
