"""What the processes of a resume trial do: go on, stop and save, or go on from what was saved.

Each is forked before anything was iterated.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset

from loaderviz._contents.one_sample import seeder
from loaderviz._doctor.loader_setup import resumable
from loaderviz._doctor.run_epochs import MOST_BATCHES
from loaderviz.errors import error_text
from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.forked_run import run_forked
from loaderviz.loaders.held_objects import is_a
from loaderviz.loaders.random_state import global_states, held_states
from loaderviz.recorder import Recording
from loaderviz.trace import Trace, load

MOST_KEYS = 4  # of a state, that are named
STATE_FILE, TRACE_FOLDER = "state.pt", "run"


@dataclass(frozen=True)
class SeenBatch:
    """A batch, as far as two runs can be compared by it."""

    digest: int | None  # of its contents; None if it has none
    keys: tuple[Any, ...] = ()  # that it was made from; empty for a stream

    @property
    def identity(self) -> Hashable:
        """What tells it from other batches: its keys, or its contents where it has none."""
        return self.keys or self.digest


@dataclass(frozen=True)
class Way:
    """What is saved, and how a new process goes on from it."""

    saved: str  # in words
    by_state: bool = False  # from the loader's state_dict
    generators: str = ""  # restored ones: as they were at "start" of the epoch, at the "stop"


BY_STATE = Way("state_dict()", by_state=True)
BY_NUMBER = Way("the number of batches")


@dataclass(frozen=True)
class Run:
    """The batches of one process, from the start of an epoch or from where it resumed."""

    batches: tuple[SeenBatch, ...]
    delivered_s: tuple[float, ...]  # since iter(), or since skipping began
    ended: bool = False  # whether that was the whole epoch
    failure: str = ""


NO_RUN = Run((), ())


def run_in_process(
    work: Callable[..., Run], loader: Any, folder: Path, *args: Any, until: float
) -> Run:
    """What ``work(loader, folder, *args)`` returns in a fork of this process."""
    folder.mkdir()
    timeout_s = max(until - time.monotonic(), 0.1)
    forked = run_forked(_send_run, work, loader, folder, args, timeout_s=timeout_s)
    if forked.sent:
        run: Run = forked.sent[0]
        return run
    late = f"it took longer than {timeout_s:.2g} s"
    reason = late if not forked.in_time else f"its process died (exit code {forked.exit_code})"
    return Run((), (), failure=reason)


def _send_run(work: Any, loader: Any, folder: Path, args: tuple[Any, ...], send: Any) -> None:
    try:
        send(work(loader, folder, *args))
    except Exception as error:
        send(Run((), (), failure=error_text(error)))


def run_and_save(loader: Any, folder: Path, most: int, until: float = math.inf) -> Run:
    """Begin a second epoch; at its end, at ``until`` or after ``most`` batches, save the state.

    It is saved as soon as the last batch is there, as a training loop does.
    """
    seeder()(1)  # two runs draw the same numbers where they begin with the same seed
    saved: dict[str, Any] = {}

    def note_start() -> None:
        _begin_second_epoch(loader)
        saved["start"] = _generators(loader)

    def save() -> None:
        saved["stop"] = _generators(loader)
        saved["state"] = loader.state_dict() if resumable(loader) else None

    run = _iterate(loader, folder, most, until, at_the_start=note_start, at_the_end=save)
    torch.save(saved, folder / STATE_FILE)
    return run


def resume(loader: Any, folder: Path, way: Way, file: Path, n_before: int, most: int) -> Run:
    """Go on from what ``run_and_save`` has saved to ``file``, for at most so many batches."""
    saved = _load(file)
    seeder()(2)  # a new process draws other numbers
    _set_epoch(loader)
    if way.generators == "start":
        _restore_generators(loader, saved["start"])
    if way.by_state:
        loader.load_state_dict(saved["state"])
    at_stop = saved["stop"] if way.generators == "stop" else None
    skipped = 0 if way.by_state else n_before
    return _iterate(loader, folder, most, skipped=skipped, generators=at_stop)


def load_given(loader: Any, folder: Path, file: Path, given: Mapping[str, Any]) -> Run:
    """Resume from a state that was saved elsewhere; a failure says why it does not fit."""
    own = _load(file)["state"]
    seeder()(2)  # a new process draws other numbers
    _set_epoch(loader)
    try:
        loader.load_state_dict(given)
        run = _iterate(loader, folder, MOST_BATCHES)
    except Exception as error:
        return Run((), (), failure=why_it_does_not_fit(given, own, error_text(error)))
    return run


def why_it_does_not_fit(given: Mapping[str, Any], own: Any, error: str) -> str:
    """What was raised when it was loaded, and where it differs from the loader's own state."""
    difference = first_difference(given, own)
    if not difference and error.startswith("StopIteration"):
        difference = "It was saved further on than this loader goes: its dataset was longer"
    return f"{error.rstrip(': ')}{f'. {difference}' if difference else ''}"


def first_difference(given: Any, own: Any, path: str = "the state") -> str:
    """The nearest difference in keys, or in a number of workers; empty where there is none."""
    if not isinstance(given, Mapping) or not isinstance(own, Mapping):
        return ""
    for number in own:
        if str(number).endswith("num_workers") and given.get(number, own[number]) != own[number]:
            return f"It is of a loader with num_workers={given[number]}, not {own[number]}"
    for says, keys in (("lacks", own.keys() - given.keys()), ("has", given.keys() - own.keys())):
        if keys:
            names = ", ".join(sorted(map(repr, keys))[:MOST_KEYS])
            return f"{path} {says} {names}, unlike this loader's own state"
    differences = (first_difference(given[key], own[key], f"{path}[{key!r}]") for key in own)
    return next(filter(None, differences), "")


def _begin_second_epoch(loader: Any) -> None:
    """Break off the first epoch: what begins it anew is told from what goes on.

    A stream keeps its first epoch: it may hold its place, and go on from where it was left.
    """
    if not is_a(loader.dataset, IterableDataset):
        for _ in loader:
            break
    _set_epoch(loader)


def _set_epoch(loader: Any) -> None:
    """Tell the number of the second epoch to whom it may concern, as a training loop does."""
    for part in (loader.batch_sampler, loader.sampler, loader.dataset):
        with contextlib.suppress(Exception):
            part.set_epoch(1)


def _generators(loader: Any) -> dict[str, Any]:
    """The states of the global generators, and of those that the loader and its samplers hold."""
    held = (state for state in held_states(loader=loader) if ".dataset" not in state.path)
    return {state.path: state.value for state in (*global_states(), *held)}


def _restore_generators(loader: Any, values: dict[str, Any]) -> None:
    for state in (*global_states(), *held_states(loader=loader)):
        if state.path in values:
            state.restore(values[state.path])


def _load(file: Path) -> dict[str, Any]:
    saved: dict[str, Any] = torch.load(file, weights_only=False)  # from our own process
    return saved


def _iterate(
    loader: Any,
    folder: Path,
    most: int,
    until: float = math.inf,
    *,
    skipped: int = 0,
    generators: dict[str, Any] | None = None,
    at_the_start: Callable[[], None] = lambda: None,
    at_the_end: Callable[[], None] = lambda: None,
) -> Run:
    """Iterate the loader, skip so many batches, and note at most so many that follow."""
    digests: list[int | None] = []
    delivered_s: list[float] = []
    ended = False
    with Recording((loader,), path=folder / TRACE_FOLDER):
        at_the_start()
        begun_s = time.perf_counter()
        batches = iter(loader)
        if generators is not None:  # only now: iter() draws a number itself
            _restore_generators(loader, generators)
        for _ in islice(batches, skipped):
            pass
        while len(digests) < most and time.monotonic() < until:
            try:
                batch = next(batches)
            except StopIteration:
                ended = True
                break
            delivered_s.append(time.perf_counter() - begun_s)
            digests.append(content_number(batch))
            del batch
        at_the_end()
        del batches
    keys = keys_of_last_batches(load(folder / TRACE_FOLDER), len(digests))
    seen = (SeenBatch(digest, key) for digest, key in zip(digests, keys, strict=True))
    return Run(tuple(seen), tuple(delivered_s), ended)


def keys_of_last_batches(trace: Trace, n: int) -> list[tuple[Any, ...]]:
    """The keys of the last ``n`` batches that the last epoch delivered, in order of delivery.

    Empty ones where they are not known of each batch, and of a stream.
    """
    unknown: list[tuple[Any, ...]] = [()] * n
    if not n or not trace.meta["loaders"] or trace.meta["loaders"][-1]["kind"] != "map":
        return unknown
    epoch = trace.batches["epoch"].max()
    batches = trace.batches[trace.batches["epoch"] == epoch].dropna(subset="delivered_s")
    numbers = batches.sort_values("delivered_s")["batch"].tolist()[-n:]
    samples = trace.samples[trace.samples["epoch"] == epoch].sort_values(["batch", "position"])
    by_batch = {number: tuple(group["key"]) for number, group in samples.groupby("batch")}
    keys = [by_batch.get(number, ()) for number in numbers]
    return keys if len(keys) == n and all(keys) else unknown
