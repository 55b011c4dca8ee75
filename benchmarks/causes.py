"""Is the cause named? Loaders slowed on purpose: `python benchmarks/causes.py [NAME ...]`.

Each loader below is slowed by one cause that is known, or by two, and has a cured twin that differs
in that cause alone. The sick one is recorded; what `trace.summary().causes` names first is held
against the truth. Then the cured one runs, unrecorded, as does the sick one once more: how much
time the cure really saves is held against what the table said that it would.

Thresholds were chosen with `--size small` in view, and once more after a look at `--size large`:
other numbers of samples, other times, other settings. `--seed N` draws them anew, between the two
sizes and a little beyond: what is reported are such loaders, which nobody has seen before.
`--causes` prints the table of each loader.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    SequentialSampler,
    get_worker_info,
)

from loaderviz import record

HEALTHY = 0.02  # of the time: more of any cause is a false alarm
BLOCK = b"x" * 50_000  # hashed in some 30 us, without Python's global lock
LOCK = Path(tempfile.gettempdir()) / f"loaderviz-causes-{os.getpid()}.lock"


# What samples do.


def compute(seconds: float) -> None:
    """Keep one CPU busy, without the GIL: CPU seconds, not seconds of the clock."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(BLOCK).digest()


def count(n: int) -> int:
    """Pure Python, which holds the GIL."""
    total = 0
    for i in range(n):
        total += i & 3
    return total


def in_two_threads(seconds: float) -> None:
    helpers = [threading.Thread(target=compute, args=(seconds,)) for _ in range(2)]
    for helper in helpers:
        helper.start()
    for helper in helpers:
        helper.join()


def under_a_lock(seconds: float) -> None:
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(seconds)


@dataclass
class Works(Dataset[Any]):
    """Map-style: sample i does ``work(i)`` and is a tensor of 100 numbers, or what is given."""

    n: int
    work: Callable[[int], Any]
    sample: Any = field(default_factory=lambda: torch.zeros(100))
    state_s: float = 0.0  # to unpickle it
    ballast: Any = None

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        self.work(index)
        return list(self.sample) if isinstance(self.sample, list) else self.sample

    def __setstate__(self, state: dict[str, Any]) -> None:
        time.sleep(state["state_s"])
        self.__dict__.update(state)


def sleeps(seconds: float) -> Callable[[int], Any]:
    return partial(_sleeps, seconds=seconds)


def _sleeps(index: int, seconds: float) -> None:
    time.sleep(seconds)


def computes(seconds: float) -> Callable[[int], Any]:
    return lambda _: compute(seconds)


def in_a_child(seconds: float) -> Callable[[int], Any]:
    """As where a decoder is called: it computes as long, and takes some ms to start."""
    program = f"import time\nwhile time.process_time() < {seconds}: pass"
    return lambda _: subprocess.run([sys.executable, "-S", "-c", program], check=True)


def now_and_then(usual_s: float, slow_s: float, every: int) -> Callable[[int], Any]:
    return lambda i: time.sleep(slow_s if i % every == every // 2 else usual_s)


def drifting(first_s: float, last_s: float, n: int) -> Callable[[int], Any]:
    return lambda i: time.sleep(first_s + (last_s - first_s) * i / n)


@dataclass
class SetsUp:
    """Opens its files on first use, in each process that reads."""

    first_s: float
    usual_s: float
    process: int = 0

    def __call__(self, index: int) -> None:
        if self.process != os.getpid():
            self.process = os.getpid()
            time.sleep(self.first_s)
        time.sleep(self.usual_s)


class Shards(IterableDataset[Any]):
    """Each worker has a stream of its own length."""

    def __init__(self, sizes: list[int], seconds: float) -> None:
        self.sizes, self.seconds = sizes, seconds

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        for _ in range(self.sizes[info.id] if info else sum(self.sizes)):
            time.sleep(self.seconds)
            yield torch.zeros(100)


class SlowSampler(Sampler[int]):
    def __init__(self, n: int, seconds: float) -> None:
        self.n, self.seconds = n, seconds

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        for index in range(self.n):
            time.sleep(self.seconds)
            yield index


class Fills(IterableDataset[Any]):
    """A stream that yields nothing before its shuffle buffer is full."""

    def __init__(self, n: int, seconds: float, buffer: int) -> None:
        self.n, self.seconds, self.buffer = n, seconds, buffer

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        held = 0
        for _ in range(self.n // (info.num_workers if info else 1)):
            time.sleep(self.seconds)
            held += 1
            if held > self.buffer:
                held -= 1
                yield torch.zeros(100)
        for _ in range(held):
            yield torch.zeros(100)


@dataclass
class Caches:
    """Reads each sample once in each process."""

    seconds: float
    known: dict[int, set[int]] = field(default_factory=dict)  # by process

    def __call__(self, index: int) -> None:
        known = self.known.setdefault(os.getpid(), set())
        if index not in known:
            known.add(index)
            time.sleep(self.seconds)


class DrawsAllAtFirst(SlowSampler):
    def __iter__(self) -> Iterator[int]:
        time.sleep(self.seconds)
        yield from range(self.n)


class StopsNowAndThen(SlowSampler):
    """Draws quickly, but for a few keys before which it stops."""

    stops: int = 6

    def __iter__(self) -> Iterator[int]:
        every = self.n // self.stops
        for index in range(self.n):
            if index % every == every // 2:
                time.sleep(self.seconds)
            yield index


@contextmanager
def counting() -> Iterator[None]:
    """A thread that computes in Python, and keeps the GIL as long as it may."""
    over = threading.Event()

    def count() -> None:
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def slow_collate(samples: list[Any], seconds: float) -> Any:
    time.sleep(seconds)
    return torch.stack(samples)


def slow_init(worker: int, seconds: float) -> None:
    time.sleep(seconds)


def slow_first_init(worker: int, seconds: float) -> None:
    if worker == 0:
        time.sleep(seconds)


def one_is_slow(index: int, seconds: float) -> None:
    info = get_worker_info()
    time.sleep(4 * seconds if info and info.id == 1 else seconds)


# The loaders.


@dataclass
class Loop:
    """A loader and what is done with it."""

    dataset: Any
    step_s: float = 0.0
    epochs: int = 1
    steps: Callable[[int], float] | None = None  # of batch i, where they differ
    batch_size: int | None = 8
    settings: dict[str, Any] = field(default_factory=dict)
    cpus: int | None = None  # that it may use; None: all
    then: Loop | None = None  # after each epoch, such as a validation
    beside: Loop | None = None  # whose batches it takes too, one with each of its own
    most_batches: int | None = None  # that it takes of an epoch; None: all
    busy: bool = False  # a thread of this process runs Python meanwhile

    def loaders(self) -> list[DataLoader[Any]]:
        """Its own, and that of the loop that follows each epoch, or goes on beside it."""
        settings = dict(self.settings)
        if "batch_sampler" not in settings:
            settings["batch_size"] = self.batch_size
        own = DataLoader(self.dataset, **settings)
        other = self.then or self.beside
        return [own, *(other.loaders() if other else [])]

    def go(self, loaders: list[DataLoader[Any]]) -> float:
        """Seconds that the loop takes."""
        with counting() if self.busy else nullcontext():
            begin = time.perf_counter()
            for _ in range(self.epochs):
                together = loaders if self.beside else loaders[:1]
                for i, _batches in enumerate(zip(*together, strict=True)):
                    step_s = self.steps(i) if self.steps else self.step_s
                    if step_s:
                        time.sleep(step_s)
                    if i + 1 == self.most_batches:
                        break
                if self.then:
                    self.then.go(loaders[1:])
            return time.perf_counter() - begin

    @contextmanager
    def on_its_cpus(self) -> Iterator[None]:
        """Only as many CPUs as it may use (Linux); workers inherit that."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, set(sorted(before)[: self.cpus]))
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


@dataclass
class Case:
    name: str
    causes: tuple[str, ...]  # what was done to it; none: it is healthy
    sick: Loop
    cured: Loop | None = None


class Size:
    """Picks the numbers of a loader: those of a size, or with a seed some around both."""

    def __init__(self, size: str, seed: int | None) -> None:
        self.large = size == "large"
        self.random = None if seed is None else random.Random(seed)

    def __call__(self, small: Any, big: Any) -> Any:
        if self.random is None:
            return big if self.large else small
        if isinstance(small, tuple):
            return tuple(map(self, small, big))
        value = small + (big - small) * self.random.uniform(-0.3, 1.3)
        return round(value) if isinstance(small, int) else value


def cases(pick: Size) -> list[Case]:
    """All loaders, in numbers of this size."""
    n = pick(320, 600)
    step = pick(0.02, 0.03)
    size = pick(8, 10)
    cores = os.cpu_count() or 2

    def loop(work: Any, workers: int, *, step_s: float = step, **options: Any) -> Loop:
        settings = options.pop("settings", {})
        number = options.pop("n", n)
        dataset = Works(number, work, **options.pop("dataset", {}))
        return Loop(
            dataset,
            step_s,
            batch_size=options.pop("batch_size", size),
            settings={"num_workers": workers, **settings},
            **options,
        )

    s = pick(0.008, 0.006)
    two = pick(0.004, 0.005)
    many = pick(4, 5)
    slow, every = pick((0.6, 160), (0.9, 200))
    spawn = {"multiprocessing_context": "spawn"}
    pure = pick(30_000, 40_000)
    several = pick(2, 3)
    short, often = pick((40, 12), (60, 16))
    epochs, first_s = pick((4, 0.8), (6, 1.2))
    kept = {"persistent_workers": True}
    found: list[Case] = [
        Case("too few workers", ("workers",), loop(sleeps(s), 1), loop(sleeps(s), 2)),
        Case("two are too few", ("workers",), loop(sleeps(2 * s), 2), loop(sleeps(2 * s), 3)),
        Case("one computes", ("workers",), loop(computes(s), 1), loop(computes(s), 2)),
        Case("no workers", ("main_process",), loop(sleeps(s), 0), loop(sleeps(s), 2)),
        Case(
            "no workers, computes",
            ("main_process",),
            loop(computes(two), 0),
            loop(computes(two), 2),
        ),
        Case(
            "helper threads, one CPU",
            ("cpu",),
            loop(lambda _: in_two_threads(two), 1, step_s=0.005, cpus=1),
            loop(lambda _: in_two_threads(two), 1, step_s=0.005),
        ),
        Case(
            "helper threads",
            ("cpu",),
            loop(lambda _: in_two_threads(two), 2, step_s=0.005),
        ),
        Case(
            "two workers on one CPU",
            ("cpu",),
            loop(computes(two), 2, step_s=0.005, cpus=1),
            loop(computes(two), 2, step_s=0.005),
        ),
        Case("more workers than CPUs", ("cpu",), loop(computes(two), 2 * cores, step_s=0.005)),
        Case(
            "child processes fill the CPUs",
            ("cpu",),
            loop(in_a_child(two), 2 * cores, n=n // 4, step_s=0.005),
        ),
        Case(
            "a child process for each sample",
            ("workers",),
            loop(in_a_child(two), 1, n=n // 4, step_s=0.005),
            loop(in_a_child(two), 2, n=n // 4, step_s=0.005),
        ),
        Case("as many workers as CPUs", ("cpu",), loop(computes(two), cores, step_s=0.005)),
        Case(
            "rare slow samples",
            ("slow_samples",),
            loop(now_and_then(0.002, slow, every), 2),
            loop(sleeps(0.002), 2),
        ),
        Case(
            "rare slow samples, four workers",
            ("slow_samples",),
            loop(now_and_then(0.004, slow, every // 2), 4),
            loop(sleeps(0.004), 4),
        ),
        Case(
            "file lock",
            ("unknown",),
            loop(lambda _: under_a_lock(0.004), many, step_s=0.005),
            loop(sleeps(0.004), many, step_s=0.005),
        ),
        Case("drift", ("drift",), loop(drifting(0.002, 0.03, n), 2), loop(sleeps(0.002), 2)),
        Case(
            "drift, four workers",
            ("drift",),
            loop(drifting(0.004, 0.05, n), 4),
            loop(sleeps(0.004), 4),
        ),
        Case(
            "pickled into spawned workers",
            ("start",),
            loop(sleeps(0.001), 2, settings=spawn, dataset={"state_s": pick(1.5, 2.5)}),
            loop(sleeps(0.001), 2),
        ),
        Case(
            "spawned workers",
            ("start",),
            loop(sleeps(0.001), several, settings=spawn),
            loop(sleeps(0.001), several),
        ),
        Case(
            "slow worker_init_fn",
            ("start",),
            loop(
                sleeps(0.001),
                2,
                settings={"worker_init_fn": partial(slow_init, seconds=pick(1.0, 1.5))},
            ),
            loop(sleeps(0.001), 2),
        ),
        Case(
            "workers start anew",
            ("restart",),
            loop(sleeps(0.001), 4, n=short, epochs=often, step_s=0.004),
            loop(sleeps(0.001), 4, n=short, epochs=often, step_s=0.004, settings=kept),
        ),
        Case(
            "workers start anew, slowly",
            ("restart",),
            loop(
                sleeps(0.001),
                2,
                epochs=epochs,
                n=120,
                settings={"worker_init_fn": partial(slow_init, seconds=0.3)},
            ),
            loop(
                sleeps(0.001),
                2,
                epochs=epochs,
                n=120,
                settings={"worker_init_fn": partial(slow_init, seconds=0.3), **kept},
            ),
        ),
        Case(
            "each worker sets something up",
            ("start",),
            loop(SetsUp(first_s, 0.001), 2),
            loop(SetsUp(0.0, 0.001), 2),
        ),
        Case(
            "workers set up anew",
            ("restart",),
            loop(SetsUp(first_s / 2, 0.001), 2, epochs=epochs, n=120),
            loop(SetsUp(first_s / 2, 0.001), 2, epochs=epochs, n=120, settings=kept),
        ),
        Case(
            "unequal shares of three",
            ("uneven",),
            Loop(
                Shards([n - 40, 20, 20], 0.006), 0.01, batch_size=size, settings={"num_workers": 3}
            ),
            Loop(Shards([n // 3] * 3, 0.006), 0.01, batch_size=size, settings={"num_workers": 3}),
        ),
        Case(
            "unequal shares of four",
            ("uneven",),
            Loop(
                Shards([n // 2, n // 2 - 40, 20, 20], 0.01),
                0.01,
                batch_size=size,
                settings={"num_workers": 4},
            ),
            Loop(Shards([n // 4] * 4, 0.01), 0.01, batch_size=size, settings={"num_workers": 4}),
        ),
        Case(
            "slow sampler",
            ("sampler",),
            loop(sleeps(0.001), 2, settings={"sampler": SlowSampler(n, 0.003)}),
            loop(sleeps(0.001), 2),
        ),
        Case(
            "slow batch sampler",
            ("sampler",),
            loop(
                sleeps(0.001), 3, settings={"batch_sampler": SlowBatches(n, size, pick(0.03, 0.05))}
            ),
            loop(sleeps(0.001), 3),
        ),
        Case(
            "slow collate_fn",
            ("collate",),
            loop(
                sleeps(0.0005),
                1,
                step_s=0.01,
                settings={"collate_fn": partial(slow_collate, seconds=0.03)},
            ),
            loop(sleeps(0.0005), 1, step_s=0.01),
        ),
        Case(
            "slow collate_fn, two workers",
            ("collate",),
            loop(
                sleeps(0.001),
                2,
                step_s=0.01,
                settings={"collate_fn": partial(slow_collate, seconds=pick(0.06, 0.08))},
            ),
            loop(sleeps(0.001), 2, step_s=0.01),
        ),
        Case(
            "the GIL at hand-over",
            ("handover",),
            loop(lambda _: count(pure), 1, step_s=0.01),
            loop(lambda _: count(pure), 1, step_s=0.01, settings={"worker_init_fn": switch_soon}),
        ),
        Case(
            "lists of numbers are sent",
            ("handover",),
            loop(
                sleeps(0.001),
                2,
                n=n // 2,
                step_s=0.005,
                dataset={"sample": list(range(pick(20_000, 30_000)))},
                settings={"collate_fn": list},
            ),
            loop(
                sleeps(0.001),
                2,
                n=n // 2,
                step_s=0.005,
                dataset={"sample": torch.zeros(20_000)},
                settings={"collate_fn": list},
            ),
        ),
        Case(
            "many small tensors are sent",
            ("handover",),
            loop(
                sleeps(0.001),
                2,
                n=n // 2,
                step_s=0.005,
                dataset={"sample": [torch.zeros(3)] * pick(60, 80)},
            ),
            loop(sleeps(0.001), 2, n=n // 2, step_s=0.005, dataset={"sample": torch.zeros(70, 3)}),
        ),
        Case(
            "prefetch_factor=1, steps in bursts",
            ("prefetch",),
            loop(
                sleeps(0.003),
                2,
                steps=lambda i: 0.3 if i % 12 == 11 else 0.001,
                settings={"prefetch_factor": 1},
            ),
            loop(
                sleeps(0.003),
                2,
                steps=lambda i: 0.3 if i % 12 == 11 else 0.001,
                settings={"prefetch_factor": 8},
            ),
        ),
    ]
    validation = loop(sleeps(0.001), 2, n=40, step_s=0.002, settings=kept)
    waiting_s, buffer = pick((0.8, 150), (1.2, 250))
    found += [
        Case(
            "workers start anew, and a validation",
            ("restart",),
            loop(sleeps(0.001), 4, n=short, epochs=often, step_s=0.004, then=validation),
            loop(
                *(sleeps(0.001), 4),
                n=short,
                epochs=often,
                step_s=0.004,
                then=validation,
                settings=kept,
            ),
        ),
        Case(
            "a cache that is empty at first",
            ("workers",),
            loop(Caches(s), 1, n=16 * size, epochs=4, step_s=0.01, settings=kept),
            loop(Caches(s), 2, n=16 * size, epochs=4, step_s=0.01, settings=kept),
        ),
        Case(
            "large samples first",
            ("workers",),
            loop(drifting(0.02, 0.0005, n), 2, step_s=0.015),
            loop(drifting(0.02, 0.0005, n), 3, step_s=0.015),
        ),
        Case(
            "all keys are drawn at first",
            ("sampler",),
            loop(
                sleeps(0.001),
                2,
                epochs=3,
                n=120,
                settings={"sampler": DrawsAllAtFirst(120, waiting_s)},
            ),
            loop(sleeps(0.001), 2, epochs=3, n=120),
        ),
        Case(
            "each stream fills a buffer",
            ("start",),
            Loop(Fills(n, 0.004, buffer // 2), 0.04, batch_size=size, settings={"num_workers": 2}),
            Loop(Fills(n, 0.004, 0), 0.04, batch_size=size, settings={"num_workers": 2}),
        ),
        Case(
            "too few workers, and another loader beside",
            ("workers",),
            loop(sleeps(s), 1, step_s=0.005, beside=loop(sleeps(0.6 * s), 1)),
            loop(sleeps(s), 2, step_s=0.005, beside=loop(sleeps(0.6 * s), 1)),
        ),
        Case(
            "a thread of Python beside the loop",
            ("handover",),
            loop(sleeps(0.0005), 2, n=n // 2, step_s=0.005, busy=True),
            loop(sleeps(0.0005), 2, n=n // 2, step_s=0.005),
        ),
        Case(
            "all keys are drawn at first, workers are kept",
            ("sampler",),
            loop(
                sleeps(0.001),
                2,
                epochs=4,
                n=120,
                settings={"sampler": DrawsAllAtFirst(120, waiting_s), **kept},
            ),
            loop(sleeps(0.001), 2, epochs=4, n=120, settings=kept),
        ),
        Case(
            "worker 0 alone sets something up",
            ("start",),
            loop(
                sleeps(0.002),
                2,
                settings={"worker_init_fn": partial(slow_first_init, seconds=pick(1.0, 1.5))},
            ),
            loop(sleeps(0.002), 2),
        ),
        Case(
            "a sampler that stops now and then",
            ("sampler",),
            loop(sleeps(0.001), 2, settings={"sampler": StopsNowAndThen(n, pick(0.2, 0.3))}),
            loop(sleeps(0.001), 2),
        ),
        Case(
            "too few workers, epochs are left early",
            ("workers",),
            loop(sleeps(s), 2, epochs=6, most_batches=6, step_s=0.005),
            loop(sleeps(s), 3, epochs=6, most_batches=6, step_s=0.005),
        ),
        Case(
            "one worker is slow",
            ("workers",),
            loop(partial(one_is_slow, seconds=0.003), 3),
            loop(partial(one_is_slow, seconds=0.003), 3, settings={"in_order": False}),
        ),
    ]
    mixed = [
        Case(
            "collate_fn and slow samples",
            ("collate", "slow_samples"),
            loop(
                now_and_then(0.001, slow, every),
                1,
                settings={"collate_fn": partial(slow_collate, seconds=0.04)},
            ),
        ),
        Case(
            "start and too few workers",
            ("start", "workers"),
            loop(sleeps(s), 1, settings={"worker_init_fn": partial(slow_init, seconds=1.0)}),
        ),
        Case(
            "slow sampler and a slow start",
            ("sampler", "start"),
            loop(
                sleeps(0.001),
                2,
                settings={
                    "sampler": SlowSampler(n, 0.003),
                    "worker_init_fn": partial(slow_init, seconds=pick(0.7, 1.2)),
                },
            ),
        ),
        Case(
            "drift and slow samples",
            ("drift", "slow_samples"),
            loop(lambda i: time.sleep(0.6 if i % every == every // 2 else 0.002 + 0.02 * i / n), 2),
        ),
    ]
    healthy = [
        Case("healthy, waits for a disk", (), loop(sleeps(0.002), 4, step_s=0.12, n=n)),
        Case("healthy, computes", (), loop(computes(0.001), 1, step_s=0.12, n=n)),
        Case(
            "healthy, a stream",
            (),
            Loop(
                Shards([n // 2, n // 2], 0.002), 0.12, batch_size=size, settings={"num_workers": 2}
            ),
        ),
    ]
    return [*found, *mixed, *healthy]


class SlowBatches(BatchSampler):
    def __init__(self, n: int, batch_size: int, seconds: float) -> None:
        super().__init__(SequentialSampler(range(n)), batch_size, drop_last=False)
        self.seconds = seconds

    def __iter__(self) -> Iterator[list[int]]:
        for batch in super().__iter__():
            time.sleep(self.seconds)
            yield batch


def switch_soon(worker: int) -> None:
    sys.setswitchinterval(1e-4)


@dataclass
class Row:
    case: Case
    first: str
    right: bool
    said: str
    real: float = float("nan")  # part of the time that the cure saves
    predicted: float = float("nan")


def examine(case: Case, *, runs: int, show: bool) -> Row:
    sick, cured = case.sick, case.cured
    with sick.on_its_cpus():
        loaders = sick.loaders()
        with record(*loaders) as recording:
            recorded_s = sick.go(loaders)
    summary = recording.trace.summary()
    causes = summary.causes
    if show:
        print(causes.drop(columns="loader").to_string(index=False))
    named = list(causes["cause"])
    if not case.causes:
        right = bool((causes["share"] <= HEALTHY).all())
    elif len(case.causes) == 1:
        right = named[:1] == list(case.causes)
    else:
        right = set(case.causes) <= set(named[:3])
    row = Row(case, " ".join(named[:1]), right, summary.verdict)
    if cured is not None and runs:
        sick_s, cured_s = [recorded_s], []
        for _ in range(runs):
            with cured.on_its_cpus():
                cured_s.append(cured.go(cured.loaders()))
            with sick.on_its_cpus():
                sick_s.append(sick.go(sick.loaders()))
        before = statistics.median(sick_s)
        row.real = (before - statistics.median(cured_s)) / before
        own = causes[causes["cause"] == case.causes[0]]
        if len(own):
            row.predicted = float(own["saves_s"].iloc[0]) / recorded_s
    return row


def part(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only loaders whose name holds one of these")
    parser.add_argument("--size", choices=["small", "large"], default="large")
    parser.add_argument("--seed", type=int, help="other numbers for each seed, in place of a size")
    parser.add_argument("--runs", type=int, default=2, help="of each loader without a recording")
    parser.add_argument("--causes", action="store_true", help="print the table of each loader")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    rows = []
    print("| loader | true cause | named first | | cure saves | predicted |")
    print("| --- | --- | --- | --- | ---: | ---: |")
    for case in cases(Size(options.size, options.seed)):
        if options.names and not any(name in case.name for name in options.names):
            continue
        row = examine(case, runs=options.runs, show=options.causes)
        rows.append(row)
        truth = " + ".join(case.causes) or "none"
        print(
            f"| {case.name} | `{truth}` | `{row.first}` | {'right' if row.right else '**wrong**'} "
            f"| {part(row.real)} | {part(row.predicted)} |",
            flush=True,
        )
        if options.causes:
            print("    ", row.said, flush=True)
    sick = [row for row in rows if len(row.case.causes) == 1]
    errors = [abs(row.predicted - row.real) for row in sick]
    errors = [error for error in errors if not np.isnan(error)]
    print(f"\nFirst cause right: {sum(row.right for row in sick)} of {len(sick)}")
    others = [row for row in rows if len(row.case.causes) != 1]
    print(f"Mixtures and healthy ones right: {sum(row.right for row in others)} of {len(others)}")
    if errors:
        print(
            f"Saving, predicted against real, in parts of the time: median "
            f"{100 * statistics.median(errors):.1f} %, 90th percentile "
            f"{100 * float(np.quantile(errors, 0.9)):.1f} %, worst {100 * max(errors):.1f} %"
        )
    LOCK.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
