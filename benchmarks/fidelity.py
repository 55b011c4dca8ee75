"""Predicted against measured epoch times: `python benchmarks/fidelity.py [--seed N]`.

Each workload is recorded in one configuration, and `Costs.from_trace` is fitted to that: for about
two seconds. Samples that are uneven repeat after the 1500 that are recorded: what others cost, no
recording tells. Then a real loader runs in another configuration, never used for fitting, for about
two seconds, and `simulate` says beforehand how long that takes: from `iter()` until the loop is
over, workers shut down. Both are done three times in turns, as a virtual machine may be a fifth
slower a minute later, and the error is the median of the three pairs'. What other processes compute
meanwhile is measured too (Linux only); a run during which that is much does not count. The cases of
`fresh()` were added when the simulator was finished, and are reported apart. `--seed N` draws
configurations that nobody has seen, two for each workload, and runs those alone. Those in which
workers stand in line for CPUs are reported apart: there `explore` says that only a run tells.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import math
import os
import random
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import torch
from causes import SlowSampler
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from loaderviz import Costs, Trace, record, simulate
from loaderviz.widgets.prediction import cpus_are_full

BLOCK = b"x" * 50_000  # hashed without Python's global lock, as images are decoded
TRIES = 12

most_foreign = 0.04  # CPUs that others may use during a run that counts
UNEVEN = 1500  # samples, after which uneven ones repeat


@dataclass(frozen=True)
class Work:
    """What samples cost: blocks to hash and seconds to sleep for each, values to return."""

    name: str
    blocks: np.ndarray
    sleep_s: np.ndarray
    values: int
    step_s: float
    recorded: dict[str, Any]  # the configuration that the costs are fitted to
    busy_step: bool = False
    n_recorded: int = 480  # samples
    loops: int = 0  # of pure Python a sample, which holds the GIL
    threads: int = 1  # that hash the blocks, each all of them
    draw_s: float = 0.0  # that the sampler takes for each index

    def read(self, index: int) -> torch.Tensor:
        index %= len(self.blocks)
        if self.sleep_s[index]:
            time.sleep(self.sleep_s[index])
        if self.threads == 1:
            self.hash(index)
        else:
            helpers = [Thread(target=self.hash, args=(index,)) for _ in range(self.threads)]
            for helper in helpers:
                helper.start()
            for helper in helpers:
                helper.join()
        if self.loops:
            count_for(self.loops)
        return torch.zeros(self.values)

    def hash(self, index: int) -> None:
        for _ in range(self.blocks[index]):
            hashlib.sha256(BLOCK).digest()


@dataclass(frozen=True)
class Case:
    work: str
    batch_size: int
    n_samples: int
    settings: dict[str, Any] = field(default_factory=dict)  # as for DataLoader
    epochs: int = 1
    shards: tuple[int, ...] | None = None
    step_s: float | None = None


class Map(Dataset[torch.Tensor]):
    def __init__(self, work: Work, n: int) -> None:
        self.work, self.n = work, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.work.read(index)


class Stream(IterableDataset[torch.Tensor]):
    """Worker w of n yields ``shards[w]`` samples: w, w + n, w + 2n, ..."""

    def __init__(self, work: Work, shards: tuple[int, ...]) -> None:
        self.work, self.shards = work, shards

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        own, n = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(self.shards[own]):
            yield self.work.read(i * n + own)


def count_for(loops: int) -> float:
    """Seconds that so many turns of pure Python take."""
    start = time.perf_counter()
    total = 0
    for i in range(loops):
        total += i & 3
    return time.perf_counter() - start


def workloads() -> list[Work]:
    await_quiet()
    start = time.perf_counter()
    for _ in range(2000):
        hashlib.sha256(BLOCK).digest()
    per_ms = 2.0 / (time.perf_counter() - start)
    loops = int(0.002 * 200_000 / count_for(200_000))
    rng = np.random.default_rng(0)
    n = UNEVEN

    def blocks(ms: Any) -> np.ndarray:
        return np.rint(np.broadcast_to(np.asarray(ms) * per_ms, n)).astype(int)

    def sleep(ms: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(ms) / 1000.0, n)

    spiky = np.where(rng.random(n) < 0.1, 20.0, 2.0)  # ms: one in ten takes ten times as long
    varied = rng.gamma(4.0, 1.0, n)  # ms: 4 +- 2
    slow = np.where(np.arange(n) // 100 % 3 == 1, 8.0, 3.0)  # ms: slow regions
    return [
        Work("cpu", blocks(4), sleep(0), 1000, 0.005, {"num_workers": 1, "batch_size": 8}),
        Work("io", blocks(0), sleep(5), 1000, 0.005, {"num_workers": 0, "batch_size": 8}),
        Work("mixed", blocks(2), sleep(2), 1000, 0.005, {"num_workers": 2, "batch_size": 8}),
        Work("cpu spiky", blocks(spiky), sleep(0), 1000, 0.010,
             {"num_workers": 2, "batch_size": 4}, n_recorded=UNEVEN),
        Work("io spiky", blocks(0), sleep(spiky), 1000, 0.005,
             {"num_workers": 3, "batch_size": 4}, n_recorded=UNEVEN),
        Work("mixed varied", blocks(varied / 2), sleep(varied / 2), 1000, 0.005,
             {"num_workers": 4, "batch_size": 8}, n_recorded=UNEVEN),
        Work("io regions", blocks(0.3), sleep(slow), 1000, 0.010,
             {"num_workers": 2, "batch_size": 8}, n_recorded=UNEVEN),
        Work("large", blocks(0.2), sleep(0), 3 * 128 * 128, 0.002,
             {"num_workers": 1, "batch_size": 32}, n_recorded=4800),
        Work("busy step", blocks(2), sleep(1), 1000, 0.015,
             {"num_workers": 1, "batch_size": 8}, busy_step=True),
        Work("images", blocks(rng.gamma(9.0, 0.4, n)), sleep(1.5), 3 * 96 * 96, 0.008,
             {"num_workers": 3, "batch_size": 16}, n_recorded=UNEVEN),
        Work("decoded", blocks(rng.gamma(4.0, 0.75, n)), sleep(0), 3 * 64 * 64, 0.012,
             {"num_workers": 2, "batch_size": 16}, n_recorded=UNEVEN),
        Work("python", blocks(0), sleep(0), 100, 0.010, {"num_workers": 1, "batch_size": 8},
             n_recorded=600, loops=loops),
        Work("helpers", blocks(2), sleep(1), 100, 0.005, {"num_workers": 1, "batch_size": 8},
             threads=2),
        Work("sampler", blocks(0), sleep(2), 100, 0.010, {"num_workers": 2, "batch_size": 8},
             n_recorded=600, draw_s=0.002),
    ]  # fmt: skip


def cases() -> list[Case]:
    return [
        Case("cpu", 8, 512, {"num_workers": 0}),
        Case("cpu", 8, 1024, {"num_workers": 2}),
        Case("cpu", 16, 1024, {"num_workers": 4}),
        Case("cpu", 1, 1024, {"num_workers": 8, "prefetch_factor": 4}),
        Case("cpu", 8, 640, {"num_workers": 2, "persistent_workers": True}, epochs=2),
        Case("cpu", 8, 0, {"num_workers": 3}, shards=(500, 300, 200)),
        Case("cpu", 8, 512, {"num_workers": 3}, step_s=0.040),
        Case("io", 8, 512, {"num_workers": 1}),
        Case("io", 8, 2400, {"num_workers": 6}),
        Case("io", 64, 4096, {"num_workers": 8}),
        Case("io", 1, 1600, {"num_workers": 4}),
        Case("io", 8, 0, {"num_workers": 4, "prefetch_factor": 4}, shards=(800, 400, 400, 100)),
        Case("io", 8, 800, {"num_workers": 3}, step_s=0.030),
        Case("mixed", 8, 512, {"num_workers": 0}),
        Case("mixed", 8, 1024, {"num_workers": 3}),
        Case("mixed", 4, 1600, {"num_workers": 6}),
        Case("mixed", 32, 1600, {"num_workers": 8}),
        Case("mixed", 8, 0, {"num_workers": 2}, shards=(400, 400)),
        Case("cpu spiky", 4, 500, {"num_workers": 1}),
        Case("cpu spiky", 4, 1000, {"num_workers": 4}),
        Case("cpu spiky", 4, 1000, {"num_workers": 4, "in_order": False}),
        Case("io spiky", 4, 1600, {"num_workers": 4}),
        Case("io spiky", 4, 2400, {"num_workers": 8, "prefetch_factor": 1}),
        Case("io spiky", 4, 1600, {"num_workers": 4, "in_order": False}),
        Case("io spiky", 4, 1200, {"num_workers": 6, "persistent_workers": True}, epochs=2),
        Case("mixed varied", 8, 600, {"num_workers": 1}),
        Case("mixed varied", 16, 1200, {"num_workers": 3}),
        Case("mixed varied", 8, 1200, {"num_workers": 8, "in_order": False}),
        Case("io regions", 8, 1200, {"num_workers": 4}),
        Case("io regions", 8, 800, {"num_workers": 2, "prefetch_factor": 8}),
        Case("large", 32, 6400, {"num_workers": 0}),
        Case("large", 64, 12800, {"num_workers": 2}),
        Case("large", 256, 12800, {"num_workers": 3}),
        Case("large", 16, 9600, {"num_workers": 1}),
        Case("busy step", 8, 640, {"num_workers": 2}),
        Case("busy step", 8, 800, {"num_workers": 4}),
        Case("images", 16, 384, {"num_workers": 0}),
        Case("images", 32, 960, {"num_workers": 2}),
        Case("images", 8, 960, {"num_workers": 6, "persistent_workers": True}),
        Case("python", 8, 600, {"num_workers": 0}),
        Case("python", 8, 1000, {"num_workers": 2}),
        Case("python", 8, 1000, {"num_workers": 4}),
        Case("helpers", 8, 480, {"num_workers": 0}),
        Case("helpers", 8, 640, {"num_workers": 2}),
        Case("sampler", 8, 800, {"num_workers": 0}),
        Case("sampler", 8, 800, {"num_workers": 4}),
    ]


def fresh() -> list[Case]:
    return [
        Case("cpu", 32, 1024, {"num_workers": 2, "prefetch_factor": 1}),
        Case("io", 32, 3200, {"num_workers": 5}),
        Case("mixed", 16, 1280, {"num_workers": 4, "in_order": False}),
        Case("cpu spiky", 8, 1000, {"num_workers": 3}),
        Case("mixed varied", 4, 1000, {"num_workers": 2}),
        Case("decoded", 8, 640, {"num_workers": 0}),
        Case("decoded", 32, 800, {"num_workers": 1}),
        Case("decoded", 16, 1200, {"num_workers": 4, "in_order": False}),
        Case("python", 16, 1000, {"num_workers": 1}),
        Case("python", 8, 0, {"num_workers": 3}, shards=(400, 300, 200)),
        Case("python", 8, 800, {"num_workers": 2}, step_s=0.030),
        Case("helpers", 16, 640, {"num_workers": 4}),
        Case("helpers", 8, 480, {"num_workers": 1, "prefetch_factor": 4}, step_s=0.020),
        Case("sampler", 16, 800, {"num_workers": 1}),
    ]


def drawn(seed: int, work: Work) -> Iterator[Case]:
    """Two configurations of a workload, other than the recorded one, of about two seconds each."""
    rng = random.Random(f"{seed} {work.name}")
    costs = fitted(work)
    workers = [n for n in range(9) if n != work.recorded["num_workers"]]
    for n in rng.sample(workers, 2):
        settings: dict[str, Any] = {"num_workers": n}
        epochs = 1
        if n:
            settings["prefetch_factor"] = rng.choice((1, 2, 2, 4))
        if n > 1 and rng.random() < 0.25:
            settings["in_order"] = False
        if n and rng.random() < 0.25:
            settings["persistent_workers"] = True
            epochs = 2
        step_s = rng.choice((None, 0.5, 2.0, 4.0))
        step_s = None if step_s is None or work.busy_step else step_s * work.step_s
        case = Case(work.name, rng.choice((4, 8, 16, 32)), 640, settings, epochs, step_s=step_s)
        n_batches = max(20, round(case.n_samples / case.batch_size * 2 / predicted(costs, case)[0]))
        yield dataclasses.replace(case, n_samples=n_batches * case.batch_size)


def step(seconds: float, *, busy: bool) -> None:
    if not busy:
        time.sleep(seconds)
        return
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        hashlib.sha256(BLOCK).digest()


def stepped(seconds: float) -> float:
    """How long such a step takes as a recording has it, on this machine.

    With what `next()` does once a batch is delivered, which takes 0.2 to 0.5 ms in a process that
    has just slept.
    """
    loader = DataLoader(torch.arange(20))
    with record(loader) as rec:
        for _ in loader:
            step(seconds, busy=False)
    batches = rec.trace.batches
    return float((batches["released_s"] - batches["delivered_s"]).median())


def others_cpu_s() -> float:
    """CPU seconds of this machine so far, those of this process and its children left out."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _io, irq, softirq, steal = map(int, fields)
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:4])


def await_quiet() -> None:
    """Until nothing else computes, or for half an hour."""
    for _ in range(1800):
        others, start = others_cpu_s(), time.perf_counter()
        time.sleep(1)
        if (others_cpu_s() - others) / (time.perf_counter() - start) < most_foreign:
            return


def loader_of(work: Work, case: Case) -> DataLoader[torch.Tensor]:
    dataset = Map(work, case.n_samples) if case.shards is None else Stream(work, case.shards)
    sampler = SlowSampler(case.n_samples, work.draw_s) if work.draw_s else None
    return DataLoader(dataset, batch_size=case.batch_size, sampler=sampler, **case.settings)


def run(work: Work, case: Case) -> tuple[float, float]:
    """Seconds that the loop takes, and CPUs that others used meanwhile."""
    loader = loader_of(work, case)
    step_s = work.step_s if case.step_s is None else case.step_s
    others, start = others_cpu_s(), time.perf_counter()
    for _ in range(case.epochs):
        for _ in loader:
            step(step_s, busy=work.busy_step)
    took = time.perf_counter() - start
    del loader
    return took, (others_cpu_s() - others) / took


def in_turns(work: Work, case: Case) -> tuple[list[tuple[float, bool]], list[float]]:
    """What is predicted from a recording, and the seconds of the run right after it: three of each.

    Those between which other processes did not do much.
    """
    heard: list[tuple[float, tuple[float, bool], float]] = []
    while len(heard) < TRIES and sum(each[0] < most_foreign for each in heard) < 3:
        expected = predicted(fitted(work), case)
        await_quiet()
        took, foreign = run(work, case)
        heard.append((foreign, expected, took))
    kept = [each for each in heard if each[0] < most_foreign][:3]
    if len(kept) < 3:
        print("  (others computed all the time)", file=sys.stderr)
        kept = sorted(heard, key=lambda each: each[0])[:3]
    return [expected for _, expected, _ in kept], [took for _, _, took in kept]


def fitted(work: Work) -> Costs:
    settings = dict(work.recorded)
    case = Case(work.name, settings.pop("batch_size"), work.n_recorded, settings)

    def recording() -> tuple[Trace, float]:
        loader = loader_of(work, case)
        others, start = others_cpu_s(), time.perf_counter()
        with record(loader) as rec:
            for _ in loader:
                step(work.step_s, busy=work.busy_step)
        took = time.perf_counter() - start
        return rec.trace, (others_cpu_s() - others) / took

    quietest, least = None, math.inf
    for _ in range(TRIES):
        await_quiet()
        trace, foreign = recording()
        if foreign < least:
            quietest, least = trace, foreign
        if least < most_foreign:
            break
    else:  # what is fitted to such a recording holds beside those others alone
        print(f"  (others used {least:.2f} CPUs of the quietest recording)", file=sys.stderr)
    assert quietest is not None
    return Costs.from_trace(quietest, step_cpu_share=float(work.busy_step))


def predicted(costs: Costs, case: Case) -> tuple[float, bool]:
    """Seconds of the loop, and whether the CPUs are full."""
    if case.step_s is not None:
        costs = dataclasses.replace(costs, step_s=stepped(case.step_s))
    settings: dict[str, Any] = {"batch_size": case.batch_size, "epochs": case.epochs}
    settings |= case.settings
    if case.shards is None:
        settings["n_samples"] = case.n_samples
    else:
        settings |= {"kind": "iterable", "shards": case.shards}
    trace = simulate(costs, **settings)
    end = float(trace.batches["released_s"].max())
    if not case.settings.get("persistent_workers") and case.settings["num_workers"]:
        end = float(trace.workers["ended_s"].max())
    return end, cpus_are_full(trace)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="the names of workloads")
    parser.add_argument(
        "--foreign", type=float, default=0.04, help="CPUs that others may use during a run"
    )
    parser.add_argument("--seed", type=int, help="draw configurations, and run those alone")
    chosen = parser.parse_args()
    global most_foreign
    most_foreign = chosen.foreign
    warnings.filterwarnings("ignore", "This DataLoader will create")
    print(f"{'workload':13} {'configuration':58} predicted  measured (spread)   error")
    errors: dict[str, list[float]] = {}
    given = [("cases", case) for case in cases()] + [("fresh", case) for case in fresh()]
    for work in workloads():
        if chosen.only and work.name not in chosen.only:
            continue
        if chosen.seed is not None:
            given = [("drawn", case) for case in drawn(chosen.seed, work)]
        for group, case in given:
            if case.work != work.name:
                continue
            expected, took = in_turns(work, case)
            expect = statistics.median(seconds for seconds, _ in expected)
            full = sum(is_full for _, is_full in expected) > len(expected) / 2
            real = statistics.median(took)
            pairs = zip(expected, took, strict=True)
            error = statistics.median(told[0] / it_was for told, it_was in pairs) - 1
            errors.setdefault(f"{group}, CPUs {'full' if full else 'free'}", []).append(abs(error))
            told = {"batch": case.batch_size, **case.settings}
            told |= {"shards": case.shards} if case.shards else {}
            told |= {"step": case.step_s} if case.step_s else {}
            told |= {"epochs": case.epochs} if case.epochs > 1 else {}
            text = " ".join(f"{name}={value}".replace(" ", "") for name, value in told.items())
            spread = (max(took) - min(took)) / real
            print(
                f"{work.name:13} {text:58} {expect:8.3f} {real:9.3f} ({spread:5.1%}) "
                f"{error:+8.1%}{'  full' * full}{f'  {group}' if group != 'cases' else ''}",
                flush=True,
            )
    for group, found in errors.items():
        print(
            f"{len(found)} {group}: error {np.median(found):.1%} (median), "
            f"{np.quantile(found, 0.9):.1%} (90th percentile), {max(found):.1%} (worst)"
        )


if __name__ == "__main__":
    main()
