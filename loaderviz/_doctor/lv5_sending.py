"""LV315, LV501, LV508: what is sent to workers that are not forked, which takes time, or fails."""

from __future__ import annotations

import contextlib
import pickle
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import context
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.data import Dataset, IterableDataset

from loaderviz._doctor.checks import CHECKS, Seen, check, look, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.lv3_causes import costly_cause
from loaderviz.loaders.held_objects import Part, attributes, walk
from loaderviz.text import count, duration, size
from loaderviz.why.worker_starts import one_after_another, started_together, took_s

if TYPE_CHECKING:
    import pandas as pd

MUCH_BYTES = 8 << 20  # fewer are sent in no time
MUCH_S = 0.2  # of a start, that sending takes
_FILE_TYPES = ("ndarray", "memmap")


@check("LV501")
def _not_importable(case: Case) -> Seen | None:
    setup = case.setup
    if setup.start_method not in ("spawn", "forkserver"):
        return None
    for path, value in _sent_to_workers(setup):
        reason = _why_not_importable(value)
        if reason:
            return seen(
                f"{path} is {reason}",
                f"workers are started by {setup.start_method} and import classes and functions by "
                "name; this fails in the worker, and here you only see that it exited unexpectedly",
                fix="""
from my_data import MyDataset, my_collate  # from a module; no lambda, no local function
# or, on Linux: DataLoader(..., multiprocessing_context="fork")
""",
            )
    return None


def _sent_to_workers(setup: Setup) -> list[Part]:
    """Everything that is pickled: the dataset and the functions, and what they hold."""
    sent = []
    for name in SENT:
        hidden: list[str] = []  # beginnings of paths below which attributes are not pickled
        for part in walk(name, setup.settings[name]):
            if part.path.startswith(tuple(hidden)):
                continue
            sent.append(part)
            if _pickles_its_own_way(part.value):
                hidden += [f"{part.path}.", f"{part.path}["]
    return sent


def _pickles_its_own_way(value: Any) -> bool:
    """Whether its class decides what is pickled: then its attributes say little."""
    plain = (object, Dataset, IterableDataset, torch.nn.Module)
    for cls in type(value).__mro__:
        if cls not in plain and cls.__module__ != "typing":
            methods = {"__reduce__", "__reduce_ex__", "__getstate__"} & set(vars(cls))
            if methods and not cls.__module__.startswith("torch.utils.data"):
                return True
    return False


def _why_not_importable(value: Any) -> str:
    definition = value if type(value) in (types.FunctionType, type) else type(value)
    name, module = definition.__qualname__, definition.__module__
    if "<lambda>" in name:
        return f"a lambda, defined in {module}"
    if "<locals>" in name:
        return f"{name}, which is local to a function"
    main = sys.modules.get("__main__")
    if module == "__main__" and not hasattr(main, "__file__"):
        return f"{name}, which is defined in a notebook or a prompt"
    return ""


@check("LV508")
def _cannot_be_pickled(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or setup.forks:
        return None
    if case.trouble_of_kind("pickle") is None and any(epoch.notes for epoch in case.epochs):
        return None
    part = case.observed(SentPart)
    if part is None or not part.error:
        if case.trouble_of_kind("pickle") is None:
            case.epoch()  # raises Undecided where it did not run
        return None
    not_importable = CHECKS["LV501"].judge(case)
    if not_importable is not None and not_importable.state == "found":
        return None
    return seen(
        f"{part.path} ({part.kind}) cannot be pickled: {part.error}",
        f"workers are started by {setup.start_method}: each is sent the dataset, pickled",
        fix=_left_out(part),
    )


@check("LV315", recorded=True)
def _sent_to_each(case: Case) -> Seen | None:
    if not case.setup.num_workers or case.setup.forks:
        return None
    case.epoch()
    workers = max(started_together(case.recorded().workers), key=took_s, default=None)
    if workers is None or _sending_s(workers) < MUCH_S:
        return None
    if case.recording is not None:
        cause = costly_cause(case, "start") or costly_cause(case, "restart")
        if cause is None:
            return None
        return seen(*cause.evidence, _sent(workers), fix=_left_out(None))
    try:
        part = case.observed(SentPart)
    except Undecided:
        part = None
    if part is None:
        return seen(_sent(workers), fix=_left_out(None))
    return seen(
        _sent(workers),
        f"{part.path} ({part.kind}) is {size(part.n_bytes)} of it, pickled in "
        f"{duration(part.seconds)} by itself",
        fix=_left_out(part),
    )


def _sending_s(workers: pd.DataFrame) -> float:
    """Seconds of one start that sending to its workers takes; 0 if little is sent.

    Where that makes them start one after another, all boots but the last one count, too.
    """
    n_bytes, method = workers["pickle_bytes"].median(), workers["start_method"].iloc[0]
    if method not in ("spawn", "forkserver") or not n_bytes >= MUCH_BYTES:
        return 0.0
    seconds = float(workers["pickle_s"].sum() + workers["unpickle_s"].median())
    if one_after_another(workers):
        seconds += float(workers["boot_s"].iloc[:-1].sum())
    return seconds


def _sent(workers: pd.DataFrame) -> str:
    medians = workers[["pickle_bytes", "pickle_s", "unpickle_s"]].median()
    text = (
        f"each of {count(len(workers), 'worker')} is sent {size(medians['pickle_bytes'])}, pickled "
        f"in {duration(medians['pickle_s'])} and unpickled in {duration(medians['unpickle_s'])}"
    )
    if one_after_another(workers):
        text += "; the next is begun only when the one before has booted and reads what it is sent"
    return text


def _left_out(part: SentPart | None) -> str:
    """The code that does not send it."""
    if part is not None and not part.path.startswith("dataset."):
        return f"# make {part.path} smaller, or in the worker, on first use"
    holder, _, name = ("", "", "items") if part is None else part.path.rpartition(".")
    whose = "the dataset" if holder in ("", "dataset") else holder
    again = f"self.{name} = ...  # as __init__ does"
    if part is not None and part.kind.startswith(_FILE_TYPES):
        again = f'self.{name} = np.load("{name}.npy", mmap_mode="r")  # workers share its pages'
    hint = "# doctor(loader) names the largest attribute\n" if part is None else ""
    return f"""{hint}def __getstate__(self):  # of {whose}: what workers are sent
    return {{**self.__dict__, "{name}": None}}
def __getitem__(self, index):
    if self.{name} is None:  # in a worker, once
        {again}
    ...
# On Linux, without CUDA and other threads here, multiprocessing_context="fork" sends nothing.
"""


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
