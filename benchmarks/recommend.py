"""Recommended against measured settings: `python benchmarks/recommend.py [--only NAME]`.

For each loader `recommend` is asked first. Then every setting of a sweep runs for two seconds.
Those that matter run three times more, in turns, without much of other processes meanwhile (Linux
only): the best three of the sweep, the recommended one, and those of the usual rules (no workers,
four for a GPU, one for each CPU). Printed is the throughput of each as a part of the best one's,
and the time of `recommend` as a part of the sweep's. *Off* is the throughput that `recommend` names
against what the same settings gave in those runs. The last column is how many CPUs other processes
used while the runs that count went on.

Whichever came out best of many was lucky, too: where it is not the recommended one, these two run
six times more, in turns. The recommended one's part of the best is the median of these six
ratios and their standard error, and nothing of the runs that chose the best counts. Both get the
same samples to the last of them: out of order, a run that is stopped would leave out slow ones.

In some loaders samples share something: a lock, a disk, a server, the CPUs, the memory. What more
workers gain there, only runs show.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fidelity import others_cpu_s, step
from torch.utils.data import DataLoader, Dataset, IterableDataset

from loaderviz import recommend, shard
from loaderviz.course.datasets import JpegImages, SourceFiles

SECONDS = 2.0  # of each run
MOST_WORKERS = 8
ROUNDS, MOST_ROUNDS = 3, 7
PAIRS, MOST_PAIRS = 6, 12
MOST_FOREIGN = 0.08  # CPUs that others may use during a run that counts
BLOCK = b"x" * 50_000
LONG = 1_000_000  # samples: no run comes to the end


class Over(Dataset[Any]):
    """A dataset again and again."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return LONG

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index % len(self.dataset)]


@dataclass
class Work(Dataset[Any]):
    """Seconds to sleep and blocks to hash for each sample, in turn, and what it returns."""

    sleep_s: Any = ()
    blocks: int = 0
    sample: Any = field(default_factory=lambda: torch.zeros(100))

    def __len__(self) -> int:
        return LONG

    def __getitem__(self, index: int) -> Any:
        if len(self.sleep_s):
            time.sleep(self.sleep_s[index % len(self.sleep_s)])
        for _ in range(self.blocks):
            hashlib.sha256(BLOCK).digest()
        return self.sample


class Large(Dataset[Any]):
    def __len__(self) -> int:
        return LONG

    def __getitem__(self, index: int) -> Any:
        return torch.full((3, 256, 256), float(index))


class Lists(Dataset[Any]):
    """Samples that are Python lists, which the main process has to unpickle."""

    def __len__(self) -> int:
        return LONG

    def __getitem__(self, index: int) -> Any:
        return [index + i for i in range(2000)]


class Shared(Dataset[Any]):
    """Each sample does ``work``, which it shares with those of other workers."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work

    def __len__(self) -> int:
        return LONG

    def __getitem__(self, index: int) -> Any:
        self.work()
        return torch.zeros(100)


def under_a_lock(seconds: float) -> Callable[[], None]:
    """One process at a time."""
    path = Path(tempfile.gettempdir()) / f"loaderviz-recommend-{os.getpid()}.lock"

    def work() -> None:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(seconds)

    return work


def of_a_server(connections: int, seconds: float) -> Callable[[], None]:
    """A server that answers so many at a time; who asks beyond that waits."""
    free = multiprocessing.get_context("fork").BoundedSemaphore(connections)

    def work() -> None:
        with free:
            time.sleep(seconds)

    return work


def of_a_disk(latency_s: float, per_s: float) -> Callable[[], None]:
    """A disk that reads so many samples a second, whoever asks, each after a latency."""
    next_s = multiprocessing.get_context("fork").Value("d", 0.0)

    def work() -> None:
        now = time.monotonic()
        with next_s.get_lock():
            next_s.value = max(next_s.value, now) + 1 / per_s
            until = next_s.value
        time.sleep(max(until - now, latency_s))

    return work


def in_threads(n: int, blocks: int) -> Callable[[], None]:
    """Helper threads that hash at the same time, as those of OpenCV or OpenMP do."""

    def work() -> None:
        helpers = [threading.Thread(target=hashing, args=(blocks,)) for _ in range(n)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()

    return work


def hashing(blocks: int) -> None:
    for _ in range(blocks):
        hashlib.sha256(BLOCK).digest()


def copying(n_bytes: int) -> Callable[[], None]:
    """Memory bandwidth: bytes that fit into no cache are copied."""
    source = torch.zeros(n_bytes, dtype=torch.uint8)
    copies: list[torch.Tensor] = []  # one a process

    def work() -> None:
        if not copies:
            copies.append(torch.empty_like(source))
        copies[0].copy_(source)

    return work


class Stream(IterableDataset[Any]):
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        for index in shard(range(LONG)):
            yield self.dataset[index]


def as_it_is(samples: Any) -> Any:
    return samples


@dataclass(frozen=True)
class Case:
    name: str
    dataset: Any
    batch_size: int
    step_s: float = 0.0
    busy: bool = False
    collate_fn: Any = None
    cpus: int | None = None  # that it may use; None: all
    settings: Any = None  # of the loader as it is asked about; None: no workers

    def loader(self, **settings: Any) -> DataLoader[Any]:
        return DataLoader(
            self.dataset, batch_size=self.batch_size, collate_fn=self.collate_fn, **settings
        )


def cases() -> list[Case]:
    random = np.random.default_rng(0)
    spiky = np.where(random.random(20_000) < 0.1, 0.020, 0.002)
    jpeg = Over(JpegImages(300))
    return [
        Case("JPEG decode", jpeg, 16),
        Case("tokenising", Over(SourceFiles()), 16),
        Case("sleeping I/O", Work([0.005]), 8, 0.010),
        Case("tiny samples", Work(), 64),
        Case("spiky I/O", Work(spiky), 4, 0.005),
        Case("large tensors", Large(), 16, 0.002),
        Case("slow step", jpeg, 16, 0.060),
        Case("iterable, read and hashed", Stream(Work([0.002], 12)), 8, 0.005),
        Case("Python lists", Lists(), 32, 0.0, collate_fn=as_it_is),
        Case("step on the CPU", Work([0.002], 12), 8, 0.015, busy=True),
        Case("shared: file lock", Shared(under_a_lock(0.004)), 8, 0.005),
        Case("shared: lock, four workers now", Shared(under_a_lock(0.003)), 8, 0.002,
             settings={"num_workers": 4}),
        Case("shared: disk, 600 reads/s", Shared(of_a_disk(0.005, 600)), 8, 0.005),
        Case("shared: server, four connections", Shared(of_a_server(4, 0.008)), 8, 0.005),
        Case("shared: two threads a sample", Shared(in_threads(2, 60)), 8, 0.005),
        Case("shared: one CPU", Work([0.002], 40), 8, 0.005, cpus=1),
        Case("shared: memory bandwidth", Shared(copying(64 << 20)), 4),
    ]  # fmt: skip


def sweep() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"num_workers": 0}]
    for workers in range(1, MOST_WORKERS + 1):
        for prefetch in (2, 8):
            for in_order in (True, False)[: min(workers, 2)]:
                found.append(
                    {"num_workers": workers, "prefetch_factor": prefetch, "in_order": in_order}
                )
    return found


def throughput(case: Case, settings: dict[str, Any]) -> float:
    """Samples a second, from the first batch that did not lie ready at the start."""
    ends: list[float] = []
    for _ in case.loader(**settings):
        if case.step_s:
            step(case.step_s, busy=case.busy)
        ends.append(time.perf_counter())
        if ends[-1] - ends[0] > SECONDS:
            break
    filled = settings["num_workers"] * settings.get("prefetch_factor", 2)
    start = min(max(filled, 1), len(ends) // 2)
    return case.batch_size * (len(ends) - start) / (ends[-1] - ends[start - 1])


def whole(case: Case, settings: dict[str, Any], n_batches: int) -> float:
    """Samples a second of an epoch of so many batches, with the start and end of its workers."""
    samples = range(n_batches * case.batch_size)
    begun = time.perf_counter()
    for _ in case.loader(sampler=samples, **settings):
        if case.step_s:
            step(case.step_s, busy=case.busy)
    return len(samples) / (time.perf_counter() - begun)


def short(settings: dict[str, Any]) -> str:
    words = [str(settings["num_workers"])]
    if (settings.get("prefetch_factor") or 2) != 2:
        words.append(f"prefetch {settings['prefetch_factor']}")
    if not settings.get("in_order", True):
        words.append("out of order")
    return ", ".join(words)


def quiet_runs(
    case: Case, finals: dict[str, dict[str, Any]]
) -> dict[str, list[tuple[float, float]]]:
    """Of each, CPUs that others used and the throughput: the three runs with the least of others.

    Three rounds; more, where others computed.
    """
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in finals}
    for _ in range(MOST_ROUNDS):
        for name, settings in finals.items():
            if sum(other < MOST_FOREIGN for other, _ in runs[name]) >= ROUNDS:
                continue
            others, start = others_cpu_s(), time.perf_counter()
            rate = throughput(case, settings)
            other = (others_cpu_s() - others) / (time.perf_counter() - start)
            runs[name].append((other, rate))
    return {name: sorted(each)[:ROUNDS] for name, each in runs.items()}


def duel(case: Case, own: dict[str, Any], best: dict[str, Any], rate: float) -> list[float]:
    """Throughput of one as a part of the other's: the pairs with the least of other processes.

    Each takes as many batches as come in six seconds at this rate, of a stream in two seconds.
    """
    pairs: list[tuple[float, float]] = []
    n_batches = max(20, round(3 * SECONDS * rate / case.batch_size))
    for nth in range(MOST_PAIRS):
        if sum(other < MOST_FOREIGN for other, _ in pairs) >= PAIRS:
            break
        others, start = others_cpu_s(), time.perf_counter()
        turn = (own, best) if nth % 2 else (best, own)
        rates = [
            throughput(case, settings)
            if isinstance(case.dataset, Stream)
            else whole(case, settings, n_batches)
            for settings in turn
        ]
        other = (others_cpu_s() - others) / (time.perf_counter() - start)
        pairs.append((other, rates[0] / rates[1] if nth % 2 else rates[1] / rates[0]))
    return [ratio for _, ratio in sorted(pairs)[:PAIRS]]


def compare(case: Case) -> str:
    """A row of the table."""
    start = time.perf_counter()
    found = recommend(
        case.loader(**(case.settings or {})),
        step_s=None if case.busy else case.step_s,
        step=(lambda batch: step(case.step_s, busy=True)) if case.busy else None,
        max_workers=MOST_WORKERS,
    )
    asked_s = time.perf_counter() - start
    own = {name: found.settings[name] for name in ("num_workers", "prefetch_factor", "in_order")}
    if not own["num_workers"]:
        own = {"num_workers": 0}
    start = time.perf_counter()
    swept = [(throughput(case, settings), settings) for settings in sweep()]
    sweep_s = time.perf_counter() - start
    swept.sort(key=lambda each: -each[0])
    print("  swept:", "; ".join(f"{short(s)}: {rate:.4g}" for rate, s in swept), file=sys.stderr)
    usual = [{"num_workers": 0}, *({"num_workers": n} for n in (4, os.cpu_count() or 1))]
    usual = [settings | {"prefetch_factor": 2} if settings["num_workers"] else settings
             for settings in usual]  # fmt: skip
    finals = {short(each): each for each in (own, *usual, *(s for _, s in swept[:3]))}
    runs = quiet_runs(case, finals)
    rates = {name: statistics.median(rate for _, rate in each) for name, each in runs.items()}
    foreign = max(other for each in runs.values() for other, _ in each)
    print("  runs:", {n: [f"{r:.4g} ({o:.2f})" for o, r in each] for n, each in runs.items()},
          file=sys.stderr)  # fmt: skip
    print(f"{found}\n", file=sys.stderr)
    best = max(rates, key=lambda name: rates[name])
    part = "100 %"
    if best != short(own):
        ratios = duel(case, own, finals[best], rates[best])
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        part = f"{statistics.median(ratios):.1%} ± {error:.1%}"
        print("  pairs:", " ".join(f"{ratio:.3f}" for ratio in ratios), file=sys.stderr)
    row = found.candidates[found.candidates["recommended"]].iloc[0]
    error = row["samples_per_s"] / rates[short(own)] - 1
    cells = [
        case.name,
        short(own),
        f"**{part}**",
        f"{best} ({rates[best]:.4g})",
        *(f"{rates[short(each)] / rates[best]:.0%}" for each in usual),
        f"{error:+.0%}",
        f"{asked_s:.1f} of {sweep_s:.0f} s ({asked_s / sweep_s:.0%})",
        f"{foreign:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="loaders whose names contain one of these, by |")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore", "This DataLoader will create")
    for case in cases():
        if any(part in case.name for part in chosen.only.split("|")):
            before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, sorted(before)[: case.cpus])
            print(compare(case), flush=True)
            os.sched_setaffinity(0, before)


if __name__ == "__main__":
    main()
