"""Tries out how long workers take to start: as they are, and in each way that may be cheaper."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.pickle_trial import SENT, Pickled, heaviest_part
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.forked_run import forget_fork_server
from loaderviz.loaders.held_objects import attributes
from loaderviz.why.worker_starts import one_after_another, started_together, took_s

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

MUCH_BYTES = 8 << 20  # fewer are sent in no time
MUCH_S = 0.2  # that sending takes
LONG_START_S = 0.5
PICKLINGS = 4  # of all that is sent: finding the largest part may take as long
SHORTER = 0.9  # of the time of the start as it is: what takes less gains
MOST_TRIES = 3  # without the largest part: other processes may have had the CPUs
_NAN = math.nan


@dataclass(frozen=True)
class StartTrial:
    """Seconds until all workers were up, of real starts that read no sample; NaN: not measured."""

    as_it_is_s: float  # of the loader's own run, the shortest of its starts
    second_epoch_s: float = _NAN  # with persistent_workers=True, for a later epoch
    forked_s: float = _NAN
    heaviest: Pickled | None = None  # of what is sent
    without_s: float = _NAN  # without sending that
    preload: tuple[str, ...] = ()  # modules that the fork server had imported
    server_s: float = _NAN  # the first start, the server's own included
    preloaded_s: float = _NAN  # each later start

    @property
    def gains_without(self) -> bool:
        """Whether it is clearly shorter to send all but the heaviest part."""
        return self.gains(self.without_s)

    def gains(self, seconds: float) -> bool:
        """Whether a start that takes so long is clearly shorter than the loader's own."""
        return seconds <= SHORTER * self.as_it_is_s


def sending_s(workers: pd.DataFrame) -> float:
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


def longest_start(trace: Trace) -> pd.DataFrame | None:
    """The workers of the start that took longest; None if that is not known of any."""
    return max(started_together(trace.workers), key=took_s, default=None)


def is_worth_trying(setup: Setup, trace: Trace) -> bool:
    """Whether sending takes long, or each epoch starts workers that take long."""
    workers = longest_start(trace)
    if workers is None:
        return False
    often = not setup.persistent and took_s(workers) >= LONG_START_S
    return often or sending_s(workers) >= MUCH_S


def try_starts(setup: Setup, trace: Trace, until: float) -> StartTrial:
    """Start the workers in other ways, read nothing, and end them; only in a copy of the process.

    Args:
        setup: the loader.
        trace: of its own run, in which workers were started.
        until: when to stop, in seconds of ``time.monotonic()``.
    """
    starts = _Starts(setup, until, as_it_is_s=min(map(took_s, started_together(trace.workers))))
    if not torch.cuda.is_initialized():
        starts.measure("forked_s", "second_epoch_s", persistent_workers=True, **_by("fork"))
    if setup.forks:
        starts.seconds.pop("forked_s", None)
        return StartTrial(**starts.seconds)
    pickling_s = 1 + PICKLINGS * float(trace.workers["pickle_s"].max())
    heaviest, holder = heaviest_part(setup, min(until, time.monotonic() + pickling_s))
    if heaviest is not None and heaviest.n_bytes >= MUCH_BYTES:
        name = heaviest.path.rpartition(".")[2]
        if name in attributes(holder):
            with _set_to_none(vars(holder), name):
                for _ in range(MOST_TRIES):
                    starts.measure("without_s")
                    if StartTrial(**starts.seconds).gains_without:
                        break
    preload = _modules_of(setup)
    forget_fork_server()  # it may have started already, and without these
    multiprocessing.set_forkserver_preload(list(preload))
    starts.measure("server_s", **_by("forkserver"))
    starts.measure("preloaded_s", **_by("forkserver"))
    return StartTrial(**starts.seconds, heaviest=heaviest, preload=preload)


class _Starts:
    """Measures one start after the other, as long as there is time."""

    def __init__(self, setup: Setup, until: float, as_it_is_s: float) -> None:
        self.seconds: dict[str, Any] = {"as_it_is_s": as_it_is_s}
        self._setup, self._until = setup, until

    def measure(self, name: str, again: str = "", **settings: Any) -> None:
        """How long the workers take to be up, and with ``again`` to begin another epoch."""
        if time.monotonic() > self._until:
            return
        with contextlib.suppress(Exception):
            loader, ups = _idle_copy(self._setup, settings)
            begun_s = time.perf_counter()
            iterator = iter(loader)
            if not all(ups.get() for _ in range(self._setup.num_workers)):
                return  # the user's worker_init_fn failed
            took_s = time.perf_counter() - begun_s
            self.seconds[name] = min(took_s, self.seconds.get(name, took_s))
            list(iterator)
            if again:
                begun_s = time.perf_counter()
                iter(loader)
                self.seconds[again] = time.perf_counter() - begun_s


def _idle_copy(setup: Setup, settings: dict[str, Any]) -> tuple[DataLoader[Any], Any]:
    """A copy of the loader without a batch, and the queue on which its workers say they are up."""
    method = settings.get("_DataLoader__multiprocessing_context") or multiprocessing.get_context(
        setup.start_method
    )
    ups = method.SimpleQueue()
    sampler = "sampler" if setup.settings["batch_sampler"] is None else "batch_sampler"
    changes: dict[str, Any] = {
        sampler: [],
        "persistent_workers": False,
        "worker_init_fn": _SayUp(setup.settings["worker_init_fn"], ups),
        **settings,
    }
    return copy_loader(setup.loader, **changes), ups


class _SayUp:
    """Replaces ``worker_init_fn``: runs the user's own, and says whether that went well."""

    def __init__(self, user_init: Any, ups: Any) -> None:
        self._user_init, self._ups = user_init, ups

    def __call__(self, worker: int) -> None:
        went_well = False
        try:
            if self._user_init is not None:
                self._user_init(worker)
            went_well = True
        finally:
            self._ups.put(went_well)


def _by(method: str) -> dict[str, Any]:
    return {"_DataLoader__multiprocessing_context": multiprocessing.get_context(method)}


@contextlib.contextmanager
def _set_to_none(state: dict[str, Any], name: str) -> Iterator[None]:
    value = state[name]
    state[name] = None
    try:
        yield
    finally:
        state[name] = value


def _modules_of(setup: Setup) -> tuple[str, ...]:
    """What the fork server should import: torch, and where the classes come from that it sends."""
    names = ["__main__", "torch"]
    for setting in SENT:
        value = setup.settings[setting]
        module = getattr(value if callable(value) else type(value), "__module__", None)
        known = module in sys.modules and str(module).partition(".")[0] not in ("torch", "builtins")
        if value is not None and known and module not in names:
            names.append(str(module))
    return tuple(names)
