"""A short recording of a loader with a worker or two: what a batch costs."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import psutil
from torch.utils.data import DataLoader

from loaderviz._doctor.batch_contents import contents_of
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_outcomes import child_processes
from loaderviz._recommend.measured_run import copy_until
from loaderviz._recommend.memory_budget import FreeBytes, Sizes
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import PREFETCH_FACTOR, LoaderSettings
from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.forked_run import may_fork, run_forked
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.recorder import record
from loaderviz.trace import Trace

# Batches, two pairs: their contents tell whether two workers deliver the same, and of fewer nobody
# knows how much they differ.
LEAST_BATCHES: Final = 4
PLENTY: Final = 1 << 30  # bytes of shared memory: a container of Docker has 1 << 26 by default


@dataclass(frozen=True)
class Look:
    """What a first look at a loader shows. Times are in seconds.

    Attributes:
        batch_size: samples of a usual batch.
        sizes: of a worker and a batch.
        n_batches: of an epoch; None where the loader does not tell.
        trace: the recording; None where not even three batches fit into shared memory, so that the
            rest is not known either.
        read_s: that a worker takes for a batch, on average.
        cpu_s: of a CPU in that; 0 where it is not known.
        uneven: whether some batch took longer than a worker's queue of prefetched ones lasts.
        step_s: of the user's own ``step``, at pace; NaN where none was given.
        naive: whether every worker yields the whole iterable-style dataset.
    """

    batch_size: int
    sizes: Sizes
    n_batches: int | None
    trace: Trace | None = None
    read_s: float = math.nan
    cpu_s: float = 0.0
    uneven: bool = False
    step_s: float = math.nan
    naive: bool = False


def look_at(
    loader: DataLoader[Any],
    step: Callable[[Any], object] | None,
    *,
    seconds: float,
    deadline: float,
    budget_s: float,
) -> Look:
    """Record a copy of the loader for ``seconds`` from its first batch, with one worker.

    With two, where the dataset is iterable-style: these show whether both deliver the same.

    Args:
        loader: it is left as it was, and so are random generators.
        step: is called with each batch, where it is given, and timed.
        seconds: how long, until there are four batches at least.
        deadline: a time of ``time.monotonic`` that it does not go on after.
        budget_s: is named where no batch comes until then.

    Raises:
        LoaderVizError: where no batch came.
        Exception: whatever the loader, its dataset or ``step`` raises, unchanged.
    """
    setup = Setup(loader)
    setting = LoaderSettings(2 if setup.iterable else 1, pin_memory=loader.pin_memory)
    batch_bytes = _bytes_where_tight(loader, deadline)
    sizes = Sizes(batch=batch_bytes)
    if not sizes.fit(setting, FreeBytes.now()):
        return Look(batch_size=loader.batch_size or 1, sizes=sizes, n_batches=_length(loader))
    copied, _ = copy_until(loader, setting, deadline)
    seen, timed_out = _Seen(), False
    with keep_random_state(loader), record(copied) as recording:
        try:
            _iterate(copied, step, seconds, deadline, seen)
        except RuntimeError as error:
            # torch/utils/data/dataloader.py, ``_get_data``, words it so.
            if loader.timeout or "DataLoader timed out after" not in str(error):
                raise
            timed_out = True
    if not seen.n_batches:
        raise LoaderVizError(_too_slow(budget_s) if timed_out else _empty(setup))
    return _look(recording.trace, seen, setup, loader)


@dataclass
class _Seen:
    n_batches: int = 0
    batch_bytes: int = 0
    worker_bytes: int = 0
    digests: list[int | None] = field(default_factory=list)
    steps_s: list[float] = field(default_factory=list)


def _iterate(
    loader: DataLoader[Any],
    step: Callable[[Any], object] | None,
    seconds: float,
    deadline: float,
    seen: _Seen,
) -> None:
    others, begun = child_processes(), math.inf
    for batch in loader:
        begun = min(begun, time.monotonic())
        seen.n_batches += 1
        if seen.n_batches <= LEAST_BATCHES:
            seen.batch_bytes = max(seen.batch_bytes, contents_of(batch).tensor_bytes)
            seen.digests.append(content_number(batch))
            seen.worker_bytes = max(seen.worker_bytes, _most_own_bytes(others))
        called = time.monotonic()
        if step is not None:
            step(batch)
            seen.steps_s.append(time.monotonic() - called)
        now = time.monotonic()
        if now > deadline or (seen.n_batches >= LEAST_BATCHES and now - begun > seconds):
            return


def _look(trace: Trace, seen: _Seen, setup: Setup, loader: DataLoader[Any]) -> Look:
    made = trace.batches.dropna(subset=["started_s", "ready_s"])
    read_s = made["ready_s"] - made["started_s"]
    cpu_s = made["process_cpu_s"].fillna(made["cpu_s"]).fillna(0.0)
    later = seen.steps_s[len(seen.steps_s) // 2 :]  # the first half may compile, or fill caches
    return Look(
        batch_size=max(1, int(trace.batches["n_samples"].median())),
        sizes=Sizes(seen.worker_bytes or None, seen.batch_bytes, own=bool(seen.worker_bytes)),
        n_batches=_length(loader),
        trace=trace,
        read_s=float(read_s.mean()),
        cpu_s=float(cpu_s.mean()) if len(made) else 0.0,
        uneven=bool(read_s.max() > PREFETCH_FACTOR * read_s.mean()),
        step_s=float(np.median(later)) if later else math.nan,
        naive=setup.iterable and _repeats(seen.digests),
    )


def _most_own_bytes(before: set[psutil.Process]) -> int:
    """Memory that the largest worker shares with nobody; 0 where the system does not tell."""
    own_bytes = [0]
    for worker in child_processes() - before:
        with contextlib.suppress(psutil.Error, AttributeError):
            own_bytes.append(int(worker.memory_full_info().uss))
    return max(own_bytes)


def _repeats(digests: list[int | None]) -> bool:
    """Whether two workers, which take turns, deliver the same batches as each other.

    A worker's own batches have to differ: otherwise all samples may be alike.
    """
    first, second = digests[::2], digests[1::2]
    same = first[: len(second)] == second and None not in second
    return bool(second) and same and len(set(first)) == len(first)


def _bytes_where_tight(loader: DataLoader[Any], deadline: float) -> int | None:
    """Bytes of the first batch, where shared memory might not hold three; else None.

    Read in a copy of this process: a worker that finds no room there is killed.
    """
    free = FreeBytes.now().shm
    if free is None or free > PLENTY or not may_fork(0):
        return None
    copied, left_s = copy_until(loader, LoaderSettings(0), deadline)
    sent = run_forked(_send_bytes, copied, timeout_s=left_s, threads=True).sent
    return int(sent[0]) if sent else None


def _send_bytes(loader: DataLoader[Any], send: Callable[[int], None]) -> None:
    with contextlib.suppress(Exception):  # a worker will raise it, too
        for batch in loader:
            send(contents_of(batch).tensor_bytes)
            return


def _length(loader: DataLoader[Any]) -> int | None:
    """Batches of an epoch; None where the loader does not tell."""
    try:
        return len(copy.copy(loader))  # an iterable-style loader remembers that it was asked
    except Exception:  # whatever the user's own __len__ raises
        return None


def _too_slow(budget_s: float) -> str:
    return (
        f"no batch came in {budget_s:g} s, so nothing was measured. Give it longer, "
        f"recommend(loader, budget_s={4 * budget_s:g}), or record your own loop and pass the trace."
    )


def _empty(setup: Setup) -> str:
    size, drops = setup.settings["batch_size"], setup.settings["drop_last"]
    small = f", or smaller than batch_size={size} with drop_last=True" if drops else ""
    return (
        f"the {setup.name} delivered no batch: its dataset is empty{small}. Nothing was measured."
    )
