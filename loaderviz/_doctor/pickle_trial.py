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

from loaderviz._doctor.loader_setup import Setup
from loaderviz.loaders.held_objects import Part, attributes

SENT: Final = ("dataset", "collate_fn", "worker_init_fn")  # settings that each worker is sent
MOST_DEPTH = 6
MOST_ITEMS = 8  # of a list that is looked into
MOST_PARTS = 200  # of one object
MOSTLY = 0.5  # of an object's bytes: a part that has them is looked into


@dataclass(frozen=True)
class Pickled:
    """One of the objects that are pickled for each worker."""

    path: str  # such as "dataset.items"
    kind: str  # such as "list of 1,000"
    n_bytes: int  # without what tensors hold: workers share that
    seconds: float  # to pickle it once, by itself


@dataclass(frozen=True)
class Unpicklable:
    """The innermost object found that cannot be pickled."""

    path: str
    kind: str
    error: str


def heaviest_part(setup: Setup, until: float) -> tuple[Pickled | None, Any]:
    """What takes most of the bytes: the innermost part that still has half of what holds it.

    Args:
        setup: the loader.
        until: when to stop, in seconds of ``time.monotonic()``.

    Returns:
        The part, None where nothing could be pickled in that time; and the object that holds it,
        None for a setting of the loader.
    """
    best: Pickled | None = None
    holder, candidates = None, []
    for setting in SENT:
        whole = Part(setting, setup.settings[setting])
        candidates += [(part, whole.value) for part in _pickled_parts(whole)] or [(whole, None)]
    for _ in range(MOST_DEPTH):
        weighed = [(_weigh(part, until), part, holds) for part, holds in candidates]
        known = [(weight, *found) for weight, *found in weighed if weight is not None]
        if not known:
            break
        heaviest, part, holds = max(known, key=lambda each: each[0].n_bytes)
        if best is not None and heaviest.n_bytes <= MOSTLY * best.n_bytes:
            break
        best, holder = heaviest, holds
        candidates = [(inner, part.value) for inner in _pickled_parts(part)]
    return best, holder


def unpicklable_part(setup: Setup, until: float) -> Unpicklable | None:
    """The first part that cannot be pickled; None where all can, or in the time given."""
    found: Unpicklable | None = None
    parts = [Part(name, setup.settings[name]) for name in SENT]
    for _ in range(MOST_DEPTH):
        for part in parts:
            try:
                _pickle(part.value, until)
            except TimeoutError:
                return found
            except Exception as error:
                found = Unpicklable(part.path, _kind(part.value), str(error))
                parts = _pickled_parts(part)
                break
        else:
            break
    return found


def _weigh(part: Part, until: float) -> Pickled | None:
    """None where it cannot be pickled in that time."""
    begun_s = time.perf_counter()
    with contextlib.suppress(Exception):
        n_bytes = _pickle(part.value, until)
        return Pickled(part.path, _kind(part.value), n_bytes, time.perf_counter() - begun_s)
    return None


def _pickle(value: Any, until: float) -> int:
    """Pickle as a worker's arguments are, and return the number of bytes.

    Raises TimeoutError when ``until`` is over, and what the user's code raises.
    """
    counter = _Counter(until)
    with _as_if_starting_a_worker():
        ForkingPickler(counter).dump(value)
    return counter.n_bytes


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
