"""Pickles what a loader sends to its workers, part by part: counts the bytes, and keeps none."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import context
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

from loaderviz._doctor.checks import look
from loaderviz._doctor.loader_setup import Setup
from loaderviz.loaders.held_objects import Part, attributes

SENT: Final = ("dataset", "collate_fn", "worker_init_fn")  # settings that each worker is sent
MOST_DEPTH = 6  # datasets within datasets
MOST_ITEMS = 8  # of a list whose items have names of their own: a longer one is named as a whole
MOST_PARTS = 200  # of one object
MOSTLY = 0.5  # of an object's bytes: a part that has them is named in its place


@dataclass(frozen=True)
class SentPart:
    """The innermost part that cannot be pickled; where all can, the one that is most of it."""

    path: str  # such as "dataset.items"
    kind: str  # such as "list of 1,000"
    n_bytes: int = 0  # without what tensors hold: workers share that
    seconds: float = 0.0  # to pickle it once, by itself
    error: str = ""  # why it cannot be pickled


@look(SentPart, after_failure=True)
def weigh_what_is_sent(setup: Setup, until: float) -> SentPart | None:
    """Pickle what workers are sent; None where they are forked. TimeoutError: there is no time."""
    if not setup.num_workers or setup.forks:
        return None
    best: SentPart | None = None
    parts = [Part(name, setup.settings[name]) for name in SENT]
    for _ in range(MOST_DEPTH):
        weighed = []
        for part in parts:
            try:
                weighed.append((_weigh(part, until), part))
            except TimeoutError:
                if best is None:
                    raise
                return best
            if weighed[-1][0].error:
                break  # the first that fails is the one to name
        if not weighed:
            break
        found, part = max(weighed, key=lambda each: (bool(each[0].error), each[0].n_bytes))
        is_less = best is not None and found.n_bytes <= MOSTLY * best.n_bytes
        if not found.error and (is_less or (best is not None and best.error)):
            break
        best, parts = found, _pickled_parts(part)
    return best


def _weigh(part: Part, until: float) -> SentPart:
    """Pickle it as a worker's arguments are; raises TimeoutError when ``until`` is over."""
    counter = _Counter(until)
    begun_s = time.perf_counter()
    try:
        with _as_if_starting_a_worker():
            ForkingPickler(counter).dump(part.value)
    except TimeoutError:
        raise
    except Exception as error:
        return SentPart(part.path, _kind(part.value), error=str(error))
    seconds = time.perf_counter() - begun_s
    return SentPart(part.path, _kind(part.value), counter.n_bytes, seconds)


class _Counter:
    """A file that keeps nothing."""

    def __init__(self, until: float) -> None:
        self.n_bytes, self._until = 0, until

    def write(self, data: Any) -> None:
        self.n_bytes += memoryview(data).nbytes
        if time.monotonic() > self._until:
            raise TimeoutError("it takes too long to pickle")


class _NoWorker:
    """Takes the place of the process that is being started: handles stay where they are."""

    def duplicate_for_child(self, handle: int) -> int:
        return handle

    DupFd = DupHandle = staticmethod(lambda handle: handle)


@contextlib.contextmanager
def _as_if_starting_a_worker() -> Iterator[None]:
    """Locks, shared numbers and tensors let themselves be pickled only then."""
    context.set_spawning_popen(_NoWorker())  # type: ignore[arg-type]
    try:
        yield
    finally:
        context.set_spawning_popen(None)


def _pickled_parts(part: Part) -> list[Part]:
    """What is pickled of an object with attributes or of a short list; else nothing."""
    path, value = part
    if type(value) in (list, tuple) and len(value) <= MOST_ITEMS:
        return [Part(f"{path}[{i}]", item) for i, item in enumerate(value)]
    if not attributes(value) or isinstance(value, type):
        return []
    with contextlib.suppress(Exception):  # of the user's __getstate__ or __reduce__
        reduced = value.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
        state = reduced[2] if type(reduced) is tuple and len(reduced) > 2 else None
        if type(state) is dict:
            names = [name for name in state if type(name) is str][:MOST_PARTS]
            return [Part(f"{path}.{name}", state[name]) for name in names]
    return []


def _kind(value: Any) -> str:
    """Such as "list of 1,000" or "ndarray of 3 x 4"."""
    name = type(value).__name__
    shape = getattr(value, "shape", None) if hasattr(type(value), "__array__") else None
    if isinstance(shape, tuple) and shape:
        return f"{name} of {' x '.join(f'{n:,}' for n in shape)}"
    if type(value) in (list, tuple, dict, set, str, bytes):
        return f"{name} of {len(value):,}"
    return name
