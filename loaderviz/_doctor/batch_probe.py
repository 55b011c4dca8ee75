"""The note that goes along with each batch of an examination, by the process that made it.

A ``Probe`` replaces the loader's ``collate_fn`` and a ``WorkerStart`` its ``worker_init_fn``, on a
copy of the loader that only the doctor iterates. Both call the user's own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import get_worker_info

from loaderviz._contents.deliveries import NO_LIMIT, Collated, most_rows, numbers_of_samples
from loaderviz._doctor.batch_contents import Padding, labels_of, padding_of
from loaderviz._doctor.process_state import (
    generator_states,
    handing_over_cpu_s,
    handle_ids,
    lengths_and_epoch,
    shared_and_own_bytes,
)
from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.random_state import numpy_generators, stream_being_read
from loaderviz.machine import children_cpu_ns
from loaderviz.recorder.batch_signature import walk
from loaderviz.recorder.signature_text import signature_text

MEMORY_EVERY_S = 0.1
NAN = float("nan")
_states_at_start: dict[str, int] = {}  # of the generators, when this worker process began


class Note(NamedTuple):
    """One batch, as the process that made it saw it."""

    worker: int = -1  # -1: the main process
    n_samples: int = 0
    seed: int = -1  # that torch gave to this worker; -1 in the main process
    cpu_s: float = NAN  # CPU time until now, of this process and children that it has waited for
    handing_s: float = NAN  # CPU time of threads that hand over, until now (NaN: unknown)
    cuda: bool = False  # whether this process uses CUDA
    digests: tuple[int | None, ...] = ()  # of the samples' contents
    n_rows: int = NO_LIMIT  # samples that the batch may hold, by its shape
    digest_s: float = 0.0  # how long looking at the samples took
    values: Mapping[str, int] = {}  # see lengths_and_epoch(): those that have changed
    states: Mapping[str, int] = {}  # see generator_states(): after each process's first two batches
    started: Mapping[str, int] = {}  # the same at the worker's start; with its first batch only
    made: Mapping[str, int] = {}  # see Probe._made_here()
    memory: tuple[int, int] | None = None  # see shared_and_own_bytes(); None where not measured
    handles: Mapping[str, int] = {}  # see handle_ids(); with the first batch only
    labels: Mapping[str, tuple[int, ...]] = {}  # see labels_of(); where asked for
    signature: str = ""  # see signature_text(); empty where it is not known
    padding: Padding | None = None  # see padding_of()
    fault: str = ""  # an error of the doctor itself

    @property
    def held(self) -> Collated:
        """What the batch held; whether it arrived so is not known."""
        return Collated(self.digests, None, self.n_rows)


class Probe:
    """Replaces a ``collate_fn``: returns the user's batch and a Note.

    It looks at what takes time only where it is told to: at the samples of a batch of several
    (``batched``), at their labels, at the memory of its process (``weigh``).
    """

    def __init__(
        self,
        collate_fn: Any,
        dataset: Any,
        *,
        batched: bool,
        labels: bool,
        weigh: bool,
    ) -> None:
        self._collate_fn = collate_fn
        self._dataset = dataset  # where the main process loads; a worker knows its own
        self._batched, self._labels, self._weigh = batched, labels, weigh
        self._calls = 0
        self._measured_s = 0.0
        self._values: dict[str, int] = {}
        self._stream: Any = None
        self._calls_of_stream = 0
        self._generators: dict[str, np.random.Generator] = {}

    def __call__(self, samples: Any) -> tuple[Any, Note]:
        """Collate the samples with the user's function, whose errors are not caught."""
        begun_s = time.perf_counter()
        several = self._batched and type(samples) in (list, tuple)
        digests = tuple(numbers_of_samples(samples, batched=self._batched))
        digest_s = time.perf_counter() - begun_s
        batch = self._collate_fn(samples)
        try:
            note = self._note(digests, digest_s)
            begun_s = time.perf_counter()
            with contextlib.suppress(Exception):  # of the user's containers: no more is known then
                labels = labels_of(samples, several=several) if self._labels else {}
                padding = padding_of(samples, batch) if several else None
                signature = signature_text(batch) if walk(batch) else ""
                note = note._replace(n_rows=most_rows(batch))
                note = note._replace(labels=labels, signature=signature, padding=padding)
            return batch, note._replace(digest_s=digest_s + time.perf_counter() - begun_s)
        except Exception as error:
            return batch, Note(fault=f"{type(error).__name__}: {error}")

    def _note(self, digests: tuple[int | None, ...], digest_s: float) -> Note:
        info = get_worker_info()
        dataset = self._dataset if info is None else info.dataset
        self._calls += 1
        first = self._calls == 1
        values = lengths_and_epoch(dataset)
        changed = {path: value for path, value in values.items() if self._values.get(path) != value}
        self._values = values
        return Note(
            worker=-1 if info is None else info.id,
            n_samples=len(digests),
            seed=-1 if info is None else info.seed,
            cpu_s=time.process_time() + children_cpu_ns() / 1e9,
            handing_s=handing_over_cpu_s(),
            cuda=torch.cuda.is_initialized(),
            digests=digests,
            digest_s=digest_s,
            values=changed,
            states=generator_states(dataset, self._collate_fn) if self._calls <= 2 else {},
            started=_states_at_start if first else {},
            made=self._made_here(dataset),
            memory=self._memory() if self._weigh else None,
            handles=handle_ids(dataset) if first else {},
        )

    def _made_here(self, dataset: Any) -> dict[str, int]:
        """The state of each of ``numpy_generators``, after the first two batches of each stream.

        After the second, only of those that are still the same: one made for each sample is not.
        """
        stream = stream_being_read()
        if stream is not self._stream:  # the next epoch of a worker that stays
            self._stream, self._calls_of_stream, self._generators = stream, 0, {}
        self._calls_of_stream += 1
        if self._calls_of_stream > 2:
            return {}
        before, self._generators = self._generators, numpy_generators(dataset, stream)
        digests = {
            path: content_number(generator.bit_generator.state)
            for path, generator in self._generators.items()
            if self._calls_of_stream == 1 or before.get(path) is generator
        }
        return {path: digest for path, digest in digests.items() if digest is not None}

    def _memory(self) -> tuple[int, int] | None:
        """Measured often at first, then seldom: it takes milliseconds in a large process."""
        now_s = time.monotonic()
        if self._calls & (self._calls - 1) and now_s - self._measured_s < MEMORY_EVERY_S:
            return None
        self._measured_s = now_s
        return shared_and_own_bytes()


class WorkerStart:
    """Replaces a ``worker_init_fn``: runs the user's own, then notes how the worker begins."""

    def __init__(
        self, worker_init_fn: Callable[[int], None] | None, collate_fn: Callable[[Any], Any]
    ) -> None:
        self._worker_init_fn, self._collate_fn = worker_init_fn, collate_fn

    def __call__(self, worker_id: int) -> None:
        """Start this worker process; errors of the user's function are not caught."""
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker_id)
        info = get_worker_info()
        if info is not None:
            _states_at_start.clear()
            _states_at_start.update(generator_states(info.dataset, self._collate_fn))
