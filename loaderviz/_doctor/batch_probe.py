"""What goes along with each batch of an examination: a note by the process that made it.

A ``Probe`` stands in place of the loader's ``collate_fn``, and a ``Start`` in place of its
``worker_init_fn``, on a copy of the loader that only the doctor iterates. Both call the user's own.
"""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import get_worker_info

from loaderviz._doctor.process_state import (
    cpus,
    handles_of,
    run_delay_s,
    shared_bytes,
    states_of,
    values_of,
)
from loaderviz.loaders.content_hash import digest_or_none

MEMORY_EVERY_S = 0.1
_started: dict[str, int] = {}  # of this worker process: the state of each generator at its start


class Note(NamedTuple):
    """One batch, as the process that made it saw it."""

    worker: int  # -1: the main process
    pid: int
    n_samples: int
    seed: int  # of this worker, as torch gave it; of the main process -1
    at_s: float
    cpu_s: float  # this process's CPU time until now
    delay_s: float  # and how long it was ready to run and had no CPU (NaN: unknown)
    cpus: tuple[int, ...]  # that it may run on
    cuda: bool  # whether it uses CUDA
    digests: tuple[int | None, ...]  # of the samples' contents, where asked for
    digest_s: float  # what that took
    values: dict[str, int]  # "len of dataset.x" and "dataset.epoch", where they have changed
    states: dict[str, int]  # of random generators, by path, after a worker's first two batches
    started: dict[str, int]  # the same at the worker's start, with the first batch
    shared: tuple[int, int] | None  # bytes it shares with other processes, and has for its own
    handles: dict[str, int]  # identities of open files and the like, with the first batch
    fault: str = ""  # of the doctor's own


class Probe:
    """In place of a ``collate_fn``: returns the user's batch and a Note."""

    def __init__(self, collate_fn: Any, dataset: Any, *, batched: bool, digest: bool) -> None:
        self._collate_fn = collate_fn
        self._dataset = dataset  # where the main process loads; a worker knows its own
        self._batched, self._digest = batched, digest
        self._calls = 0
        self._measured_s = 0.0
        self._sent: dict[str, int] = {}

    def __call__(self, samples: Any) -> tuple[Any, Note]:
        digests: tuple[int | None, ...] = ()
        begun = time.perf_counter()
        n = len(samples) if self._batched and type(samples) in (list, tuple) else 1
        if self._digest:
            each = samples if self._batched and type(samples) in (list, tuple) else [samples]
            digests = tuple(map(digest_or_none, each))
        took = time.perf_counter() - begun
        batch = self._collate_fn(samples)
        try:
            return batch, self._note(n, digests, took)
        except Exception as error:
            return batch, _faulty(f"{type(error).__name__}: {error}")

    def _note(self, n: int, digests: tuple[int | None, ...], took: float) -> Note:
        info = get_worker_info()
        dataset = self._dataset if info is None else info.dataset
        self._calls += 1
        first = self._calls == 1
        values = values_of(dataset)
        changed = {path: each for path, each in values.items() if self._sent.get(path) != each}
        self._sent = values
        return Note(
            worker=-1 if info is None else info.id,
            pid=os.getpid(),
            n_samples=n,
            seed=-1 if info is None else info.seed,
            at_s=time.monotonic(),
            cpu_s=time.process_time(),
            delay_s=run_delay_s(),
            cpus=cpus(),
            cuda=torch.cuda.is_initialized(),
            digests=digests,
            digest_s=took,
            values=changed,
            states=states_of(dataset) if self._calls <= 2 else {},
            started=_started if first else {},
            shared=self._memory(),
            handles=handles_of(dataset) if first else {},
        )

    def _memory(self) -> tuple[int, int] | None:
        """To look takes milliseconds in a large process: at the start, and now and then."""
        at = time.monotonic()
        if self._calls & (self._calls - 1) and at - self._measured_s < MEMORY_EVERY_S:
            return None
        self._measured_s = at
        return shared_bytes()


def _faulty(fault: str) -> Note:
    nan = float("nan")
    return Note(
        -1, os.getpid(), 0, -1, nan, nan, nan, (), False, (), 0.0, {}, {}, {}, None, {}, fault
    )


class Start:
    """In place of a ``worker_init_fn``: runs the user's own, then notes how the worker begins."""

    def __init__(self, init: Callable[[int], None] | None, folder: Path, stuck_s: float) -> None:
        self._init, self._folder, self._stuck_s = init, folder, stuck_s

    def __call__(self, worker_id: int) -> None:
        # If this process is stuck by then, it says where; the file is kept open for that.
        stack = (self._folder / f"stack-{os.getpid()}").open("w")
        faulthandler.dump_traceback_later(self._stuck_s, file=stack)
        global _kept
        _kept = stack
        if self._init is not None:
            self._init(worker_id)
        info = get_worker_info()
        if info is not None:
            _started.clear()
            _started.update(states_of(info.dataset))


_kept: Any = None
