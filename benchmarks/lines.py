"""Are lines of code told their time, and what does it cost? `python benchmarks/lines.py`.

Each dataset below times its own marked lines, `# a`, `# b` and so on, and returns that as its
sample; what `trace.lines()` says of them, with the functions that they call, is held against it, in
points of the time of all marked lines. The first ten were there while the recorder was made. The
other ten were written before any was run, and nothing was changed for them.

`--cost` records batches of about 1 ms and of 1 s with lines and without, in turns. `--saving` makes
the longest line of ten loops half as long, and compares what that saves with what was said.
`--known` times the sick and the cured loader on each page of a line that is known to cost much.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import pickle
import re
import statistics
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from loaderviz import record
from loaderviz._explain import explanation
from loaderviz.why.causes.costly_lines import KNOWN, costly_lines

MOST = 8  # lines that a sample marks
DATA = np.random.default_rng(0).bytes(1 << 21)
TEXT = json.dumps({f"key {n}": [n / 7] * 20 for n in range(400)})


def busy(seconds: float) -> None:
    """Keep the CPU, in Python."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Timed(Dataset[Any]):
    """A dataset that times its own lines: ``lap()`` after each."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, key: int) -> Any:
        self.laps = [time.perf_counter()]
        self.read(key)
        took = np.diff(self.laps)
        return torch.from_numpy(np.pad(took, (0, MOST - len(took))))

    def lap(self) -> None:
        self.laps.append(time.perf_counter())

    def read(self, key: int) -> None:
        raise NotImplementedError


class BusyLoops(Timed):
    def read(self, key):
        busy(0.007)  # a
        self.lap()
        busy(0.003)  # b
        self.lap()


class SleepAndBusy(Timed):
    def read(self, key):
        time.sleep(0.006)  # a
        self.lap()
        busy(0.004)  # b
        self.lap()


class LetsTheGilGo(Timed):
    def read(self, key):
        hashlib.sha256(DATA).digest()  # a
        self.lap()
        busy(0.003)  # b
        self.lap()


class HoldsTheGil(Timed):
    numbers = np.random.default_rng(0).random(40_000).tolist()

    def read(self, key):
        sorted(self.numbers)  # a
        self.lap()
        busy(0.004)  # b
        self.lap()


class ReadsAFile(Timed):
    def __init__(self) -> None:
        self.path = Path(tempfile.gettempdir()) / f"loaderviz-lines-{os.getpid()}"
        self.path.write_bytes(DATA * 4)

    def read(self, key):
        data = self.path.read_bytes()  # a
        self.lap()
        zlib.crc32(data)  # b
        self.lap()
        sum(data[:60_000])  # c
        self.lap()


class OwnFunctions(Timed):
    def read(self, key):
        self.parse(key)  # a
        self.lap()
        self.augment(key)  # b
        self.lap()

    def parse(self, key):
        for _ in range(20):
            json.loads('{"a": [1, 2, 3]}')
            busy(0.0002)

    def augment(self, key):
        busy(0.002)
        time.sleep(0.002)


class Operators(Timed):
    matrix = np.random.default_rng(0).random((300, 300))

    def read(self, key):
        product = self.matrix @ self.matrix  # a
        self.lap()
        total = 0
        for n in range(30_000):  # b
            total += n * n  # b
        self.lap()
        product = product * 2.0 + self.matrix  # c
        self.lap()


class ParsesJson(Timed):
    def read(self, key):
        found = json.loads(TEXT)  # a
        self.lap()
        sum(len(each) for each in found.values())  # b
        self.lap()
        np.asarray([*found.values()], np.float32)  # c
        self.lap()


class RowsOfATable(Timed):
    table = pd.DataFrame(np.random.default_rng(0).random((1000, 30)))

    def read(self, key):
        row = self.table.iloc[key % 1000]  # a
        self.lap()
        row.to_numpy(np.float32)  # b
        self.lap()
        busy(0.0002)  # c
        self.lap()


class ShortSamples(Timed):
    def read(self, key):
        busy(0.0007)  # a
        self.lap()
        busy(0.0003)  # b
        self.lap()


# From here on they are kept apart.


class SearchesText(Timed):
    def read(self, key):
        re.sub(r"(\d+)\.(\d)", r"\2", TEXT)  # a
        self.lap()
        time.sleep(0.003)  # b
        self.lap()


class FiveAlike(Timed):
    def read(self, key):
        busy(0.002)  # a
        self.lap()
        busy(0.002)  # b
        self.lap()
        busy(0.002)  # c
        self.lap()
        busy(0.002)  # d
        self.lap()
        busy(0.002)  # e
        self.lap()


class Stream(IterableDataset[Any]):
    """A stream, whose lines are in a generator."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            begun = time.perf_counter()
            busy(0.002)  # a
            middle = time.perf_counter()
            time.sleep(0.004)  # b
            took = [middle - begun, time.perf_counter() - middle]
            yield torch.tensor([*took, *[0.0] * (MOST - 2)], dtype=torch.float64)


class Unpickles(Timed):
    pickled = pickle.dumps([{"n": n, "x": [n] * 10} for n in range(3000)])

    def read(self, key):
        found = pickle.loads(self.pickled)  # a
        self.lap()
        pickle.dumps(found)  # b
        self.lap()


class ReturnsAnOperator(Timed):
    image = np.random.default_rng(0).random((400, 400, 3))

    def read(self, key):
        self.scaled()  # a
        self.lap()
        busy(0.002)  # b
        self.lap()

    def scaled(self):
        return (self.image - 0.5) / 0.25


class ManySmallReads(Timed):
    def __init__(self) -> None:
        self.fd = os.open("/dev/zero", os.O_RDONLY)

    def read(self, key):
        for _ in range(400):  # a
            os.read(self.fd, 8192)  # a
        self.lap()
        for _ in range(4000):  # b
            key = hash(str(key))  # b
        self.lap()


class NumpyFunctions(Timed):
    numbers = np.random.default_rng(0).random(40_000)

    def read(self, key):
        np.sort(self.numbers)  # a
        self.lap()
        np.fft.rfft(self.numbers)  # b
        self.lap()
        np.random.default_rng(key).normal(size=60_000).astype(np.float32)  # c
        self.lap()


class Comprehensions(Timed):
    def read(self, key):
        words = [f"{n}-{key}" for n in range(6000)]  # a
        self.lap()
        sorted(words, key=lambda word: word[::-1])  # b
        self.lap()
        {word: len(word) for word in words}  # c
        self.lap()


class WaitsForThreads(Timed):
    def read(self, key):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:  # a
            [*pool.map(time.sleep, [0.005] * 2)]  # a
        self.lap()
        busy(0.005)  # b
        self.lap()


class AnOperatorThenACall(Timed):
    """What cannot be told apart: both have half."""

    image = np.random.default_rng(0).random((600, 600))

    def read(self, key):
        scaled = self.image * 2.0  # a
        hash(scaled.data.tobytes())  # b

    def __getitem__(self, key):
        begun = time.perf_counter()
        self.image * 2.0
        middle = time.perf_counter()
        self.read(key)
        first = middle - begun
        took = [first, max(time.perf_counter() - middle - first, 0.0)]
        return torch.tensor([*took, *[0.0] * (MOST - 2)], dtype=torch.float64)


TUNED = (
    *(BusyLoops, SleepAndBusy, LetsTheGilGo, HoldsTheGil, ReadsAFile),
    *(OwnFunctions, Operators, ParsesJson, RowsOfATable, ShortSamples),
)
HELD_OUT = (
    *(SearchesText, FiveAlike, Stream, Unpickles, ReturnsAnOperator),
    *(ManySmallReads, NumpyFunctions, Comprehensions, WaitsForThreads, AnOperatorThenACall),
)


def shares(dataset: Any, seconds: float, workers: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Of each marked line its share: as the samples say, and as ``trace.lines()`` does."""
    loader = DataLoader(dataset, batch_size=4, num_workers=workers)
    true_s, end = np.zeros(MOST), time.perf_counter() + seconds
    with record(loader, lines=True) as rec:
        for batch in loader:
            true_s += batch.sum(dim=0).numpy()
            if time.perf_counter() > end:
                break
    lines = rec.trace.lines()
    told_s = np.zeros(MOST)
    for source, total_s in zip(lines["source"], lines["total_s"], strict=True):
        mark = re.search(r"# ([a-h])\b", source)
        if mark:
            told_s["abcdefgh".index(mark[1])] += total_s
    n = int(np.flatnonzero(true_s)[-1]) + 1
    looks = int(lines["looks"].sum())
    return true_s[:n] / true_s.sum(), told_s[:n] / max(told_s.sum(), 1e-9), looks


def accuracy(seconds: float, workers: int, names: list[str]) -> None:
    print("| dataset | true | told | off, points | looks |\n| --- | --- | --- | ---: | ---: |")
    for kind, classes in (("tuned", TUNED), ("held out", HELD_OUT)):
        offs = []
        for cls in classes:
            if names and cls.__name__ not in names:
                continue
            true, told, looks = shares(cls(), seconds, workers)
            offs.append(100 * float(abs(true - told).max()))
            told_of = [" ".join(f"{100 * each:.1f}" for each in part) for part in (true, told)]
            row = (f"{cls.__name__} ({kind})", *told_of, f"{offs[-1]:.1f}", f"{looks:,}")
            print(f"| {' | '.join(row)} |", flush=True)
        if offs:
            print(f"{kind}: {sum(off <= 3 for off in offs)} of {len(offs)} within 3 points")


class Steady(Dataset[int]):
    """Samples of a fixed amount of work."""

    def __init__(self, work: int, n: int) -> None:
        self.work, self.n = work, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, key: int) -> int:
        for _ in range(self.work):
            key = hash(str(key))
        return key


def cost(rounds: int) -> None:
    """CPU seconds of an epoch in this process, with lines and without, in turns: the least of each.

    What else the machine does only adds to them.
    """
    for name, work, n in (("1 ms", 6_000, 1500), ("1 s", 6_000_000, 2)):
        took: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(rounds):
            for lines in took:
                loader = DataLoader(Steady(work, n), batch_size=1)
                with record(loader, lines=lines):
                    begun = time.process_time()
                    for _ in loader:
                        pass
                    took[lines].append(time.process_time() - begun)
        more = 100 * (min(took[True]) / min(took[False]) - 1)
        quarters = [
            100 * (statistics.quantiles(took[True])[0] / statistics.quantiles(took[False])[0] - 1)
        ]
        print(
            f"batches of {name} ({min(took[False]) / n * 1e3:.2f} ms of CPU): {more:+.2f} % by the "
            f"least of {rounds}, {quarters[0]:+.2f} % by the lower quarter"
        )


class TwoLines(Dataset[int]):
    """Waits on one line, and computes or waits on another."""

    def __init__(self, wait_s: float, compute_s: float) -> None:
        self.wait_s, self.compute_s = wait_s, compute_s

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, key: int) -> int:
        time.sleep(self.wait_s)
        busy(self.compute_s)
        return key


# Seconds of waiting and of computing a sample, of a step after eight of them, and workers.
TO_CUT = [
    (0.004, 0.001, 0.000, 0), (0.004, 0.001, 0.020, 0), (0.001, 0.004, 0.010, 0),
    (0.008, 0.001, 0.000, 2), (0.008, 0.001, 0.020, 2), (0.010, 0.000, 0.030, 2),
    (0.004, 0.001, 0.040, 1), (0.006, 0.002, 0.010, 1), (0.020, 0.001, 0.020, 4),
    (0.012, 0.001, 0.012, 4),
]  # fmt: skip


def batch_s(dataset: Any, step_s: float, workers: int, n_batches: int) -> float:
    """What the loop takes for a batch, unrecorded, the first few left out."""
    loader = DataLoader(dataset, batch_size=8, num_workers=workers)
    begun = 0.0
    for n, _ in enumerate(loader):
        if n == 4 * max(workers, 1):
            begun = time.perf_counter()
        time.sleep(step_s)
        if n == n_batches + 4 * max(workers, 1):
            break
    return (time.perf_counter() - begun) / n_batches


def saving() -> None:
    """What half as long a line was said to save of an epoch, over what it saved."""
    for wait_s, compute_s, step_s, workers in TO_CUT:
        dataset = TwoLines(wait_s, compute_s)
        loader = DataLoader(dataset, batch_size=8, num_workers=workers)
        with record(loader, lines=True) as rec:
            for n, _ in enumerate(loader):
                time.sleep(step_s)
                if n == 150:
                    break
        first = costly_lines(rec.trace.summary())[0]
        shorter = TwoLines(
            *((wait_s / 2, compute_s) if "sleep" in first["source"] else (wait_s, compute_s / 2))
        )
        was, now = (batch_s(each, step_s, workers, 150) for each in (dataset, shorter))
        print(
            f"{workers} workers, {1000 * wait_s:g} + {1000 * compute_s:g} ms, step "
            f"{1000 * step_s:g} ms: said {first['half_saves']:6.1%}, saved {1 - now / was:6.1%}",
            flush=True,
        )


def known(rounds: int) -> None:
    """What a sample takes, sick and cured, on each page: the least of some epochs."""
    print("| page | sick, ms a sample | cured | times |\n| --- | ---: | ---: | ---: |")
    for page in dict.fromkeys(page for page, *_ in KNOWN):
        names: dict[str, Any] = {"__name__": page}
        least_ms = []
        for block in re.findall(r"```python\n(.*?)```", explanation(page), re.DOTALL):
            exec(block, names)
            took = []
            for _ in range(rounds):
                begun = time.perf_counter()
                n_samples = names["loader"].batch_size * sum(1 for _ in names["loader"])
                took.append(1000 * (time.perf_counter() - begun) / n_samples)
            least_ms.append(min(took))
        sick, cured = least_ms
        print(f"| `{page}` | {sick:.3g} | {cured:.3g} | {sick / cured:.2g} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of datasets; by default all")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each dataset")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--saving", action="store_true")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.cost:
        cost(given.rounds)
    elif given.saving:
        saving()
    elif given.known:
        known(given.rounds)
    else:
        accuracy(given.seconds, given.workers, given.names)


if __name__ == "__main__":
    main()
