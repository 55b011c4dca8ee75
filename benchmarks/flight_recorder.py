"""A recording that is left on: what it costs, how large it stays, and whether it finds shifts.

    python benchmarks/flight_recorder.py --overhead   beside `record` without a ring, in turns
    python benchmarks/flight_recorder.py --size 72 100 8   hours by a clock that runs ahead, of so
                                                      many batches a second, by so many workers
    python benchmarks/flight_recorder.py --kills 20   killed at a random moment, then opened
    python benchmarks/flight_recorder.py --shifts     slower for a while, for good, in one worker
    python benchmarks/flight_recorder.py --soak 3600  so many seconds with four workers
    python benchmarks/flight_recorder.py --ranks 64   three days of so many ranks, opened

RESULTS.md has what it printed.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

PAIRS, N_BATCHES = 5, 20_000
DAYS_ROWS = 3 * 24 * 60
HERE = Path(__file__)
RUN_S, FROM_S, WHILE_S = 32.0, 15.0, 5.0  # of --shifts: windows are of a second
LEFT = 1 << 30  # bytes that are free at first, as a leak is told
KINDS = [  # times as long; for how long; which workers
    *((times, length, "all") for times in (1.5, 3.0, 20.0) for length in (WHILE_S, RUN_S)),
    *((20.0, RUN_S, "one"), (3.0, RUN_S, "one"), (1.0, WHILE_S, "pause")),
    *((3.0, RUN_S, "rank"), (1.0, RUN_S, "leak")),  # one of two; of a tenth of a MB a sample
    *((1.0, 0.0, "none"), (1.0, 0.0, "none")),
]


def overhead() -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import loaderviz

    for workers in (0, 2):
        data = TensorDataset(torch.arange(N_BATCHES))
        ratios = []
        for _ in range(PAIRS + 1):
            took = []
            for last_s in (None, 10):
                loader = DataLoader(data, num_workers=workers)
                with loaderviz.record(loader, last_s=last_s):
                    begun = time.perf_counter()
                    for _batch in loader:
                        pass
                    took.append(time.perf_counter() - begun)
            ratios.append(took[1] / took[0])
        each = took[0] / N_BATCHES * 1e6
        print(
            f"{workers} workers, batches of {each:.0f} us: with a ring "
            f"{statistics.median(ratios[1:]):.3f} of the time without, "
            f"{min(ratios[1:]):.3f} to {max(ratios[1:]):.3f}"
        )


def size(hours: int, per_s: int, workers: int) -> None:
    """By a clock that all processes share, and that each batch of the loop puts forward."""
    ahead_ns = memoryview(mmap.mmap(-1, 8)).cast("q")
    real = time.perf_counter_ns
    time.perf_counter_ns = lambda: real() + ahead_ns[0]
    import psutil
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import loaderviz

    loader = DataLoader(TensorDataset(torch.arange(3600 * per_s)), num_workers=workers)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with loaderviz.record(loader, last_s=600, path=path):
            for hour in range(1, hours + 1):
                for _batch in loader:
                    ahead_ns[0] += 10**9 // per_s
                if hour in (1, 2, hours // 2, hours):
                    # Without the copies that incidents have made.
                    n = sum(each.stat().st_size for each in path.iterdir() if each.is_file())
                    rss = psutil.Process().memory_info().rss
                    told = f"hour {hour}: {n / 1e6:.2f} MB of files, {rss / 1e6:.0f} MB of memory"
                    print(told, flush=True)
        begun = time.perf_counter()
        trace = loaderviz.load(path)
        loaderviz.figures.run(trace)
        took = time.perf_counter() - begun
        print(f"{len(trace.windows):,} windows, {trace.windows['batches'].sum():,} batches; "
              f"from the folder to the picture {took:.2f} s")  # fmt: skip


def loop(path: str, times: float, length_s: float, who: str) -> None:
    """Training of ``--kills`` and ``--shifts``: writes down how far it is."""
    import torch
    from torch.utils.data import DataLoader, Dataset, get_worker_info

    import loaderviz
    from loaderviz import machine

    begun = time.time()
    if who == "leak":
        free = machine.memory_available_bytes
        most = free(files_are_free=True)
        machine.memory_available_bytes = lambda **how: LEFT + free(**how) - most

    class Samples(Dataset[torch.Tensor]):
        kept: ClassVar[list[bytes]] = []

        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, key: int) -> torch.Tensor:
            info = get_worker_info()
            if who == "leak":
                self.kept.append(bytes([1]) * 100_000)
            slow = FROM_S < time.time() - begun < FROM_S + length_s
            if slow and who == "pause":
                time.sleep(FROM_S + length_s - (time.time() - begun))
            slow = slow and (
                who == "all"
                or (who == "one" and info is not None and info.id == 0)
                or (who == "rank" and os.environ["RANK"] == "1")
            )
            time.sleep(0.004 * (times if slow else 1.0))
            return torch.tensor(key)

    loader = DataLoader(Samples(), batch_size=2, num_workers=2)
    with loaderviz.record(loader, last_s=10, path=path), Path(f"{path}.at").open("w") as at:
        for i, _batch in enumerate(loader):
            time.sleep(0.002)
            at.seek(0)
            at.write(f"{i + 1}\n")
            at.flush()
            if time.time() - begun > RUN_S:
                break


def kills(n: int) -> None:
    import loaderviz

    good = 0
    for seed in range(n):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            process = start(path, 1.0, 0.0, "none")
            time.sleep(random.Random(seed).uniform(1, 14))
            while not Path(f"{path}.at").exists():
                time.sleep(1)
            time.sleep(1)
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(6)  # until torch's workers have seen that they are alone
            at = int(Path(f"{path}.at").read_text().split()[0])
            trace = loaderviz.load(path)
            told, last = int(trace.windows["batches"].sum()), int(trace.batches["batch"].max())
            right = at - 1 <= told <= at + 1 and last >= at - 1
            good += right
            print(f"killed at batch {at}: windows tell of {told}, the ring's last is {last}", right)
    print(f"{good} of {n} whole")


def shifts(seeds: int) -> None:
    import loaderviz

    found, false, healthy_s = 0, 0, 0.0
    cases = [(*kind, seed) for seed in range(seeds) for kind in KINDS]
    for times, length_s, who, _seed in cases:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            of_ranks = [str(rank) for rank in range(2)] if who == "rank" else [None]
            for each in [start(path, times, length_s, who, rank) for rank in of_ranks]:
                each.wait()
            trace = loaderviz.load(path)
            kinds = ["step", "reading", "wait", "memory"]
            rows = trace.incidents[trace.incidents["kind"].isin(kinds)]
            within = rows["start_s"].between(FROM_S - 2.5, FROM_S + length_s + 2.5)
            within &= ~rows["kind"].eq("memory")
            if who == "leak":
                within = rows["kind"].eq("memory")
            if who == "rank":
                within &= rows["rank"].eq(1)
            hit = bool(within.any()) and who != "none"
            found += hit
            false += int((~within).sum()) if who != "none" else len(rows)
            healthy_s += FROM_S if who != "none" else RUN_S
            print(f"{times:g} times for {length_s:g} s in {who}: {rows['text'].tolist()}", hit)
    n = sum(who != "none" for _, _, who, _ in cases)
    print(f"{found} of {n} shifts found; {false} false alarms in {healthy_s:.0f} healthy windows")


def soak(seconds: float) -> None:
    """Four workers and 100 batches a second: CPU time for a batch, memory and files as it goes."""
    import psutil
    import torch
    from torch.utils.data import DataLoader, Dataset

    import loaderviz

    class Samples(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 100_000_000

        def __getitem__(self, key: int) -> torch.Tensor:
            time.sleep(0.005)
            return torch.full((1000,), key)

    def cpu_s() -> float:
        process = psutil.Process()
        every = [process, *process.children(recursive=True)]
        return sum(sum(each.cpu_times()[:2]) for each in every)

    def minutes(until_s: float, path: Path | None) -> None:
        begun = time.monotonic()
        loader = DataLoader(Samples(), batch_size=4, num_workers=4)
        told = sorted({60.0, min(600.0, until_s), min(1800.0, until_s), until_s})
        n, cpu, at = 0, 0.0, 0.0
        recording = loaderviz.record(loader, last_s=600, path=path) if path else nullcontext()
        with recording:
            for i, _batch in enumerate(loader):
                time.sleep(0.008)
                now = time.monotonic() - begun
                if now > told[0] - 50 and not cpu:
                    n, cpu, at = i, cpu_s(), now
                if now > told[0]:
                    each = (cpu_s() - cpu) / (i - n) * 1e6
                    every = [psutil.Process(), *psutil.Process().children(recursive=True)]
                    rss = sum(process.memory_info().rss for process in every) / 1e6
                    files = [f for f in path.iterdir() if f.is_file()] if path else []
                    size = sum(f.stat().st_size for f in files) / 1e6
                    print(
                        f"{'recorded' if path else 'alone'}, at {now:.0f} s: "
                        f"{(i - n) / (now - at):.0f} batches/s, {each:.0f} us of CPU a batch, "
                        f"{rss:.0f} MB of memory in all processes, {size:.2f} MB of files",
                        flush=True,
                    )
                    told, cpu = told[1:], 0.0
                    if not told:
                        break
        if path:
            print(recording.trace.incidents[["kind", "start_s", "text"]].to_string())

    minutes(60, None)
    with tempfile.TemporaryDirectory() as folder:
        minutes(seconds, Path(folder) / "run")
    minutes(60, None)


def ranks(n: int) -> None:
    """Three days of windows of each rank, beside 10,000 batches of its ring."""
    from torch.utils.data import DataLoader

    import loaderviz
    from loaderviz.trace import Trace

    loader = DataLoader(range(10_000))
    with loaderviz.record(loader, last_s=600) as rec:
        for _batch in loader:
            pass
    kept = rec.trace.meta["windows"]
    days = {name: [values[0]] * DAYS_ROWS for name, values in kept.items()}
    days["start_s"] = [60.0 * i for i in range(DAYS_ROWS)]
    days["end_s"] = [60.0 * (i + 1) for i in range(DAYS_ROWS)]
    days["epoch"] = [i // 60 for i in range(DAYS_ROWS)]
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(n):
            own = {**days, "rank": [rank] * DAYS_ROWS}
            tables = {name: getattr(rec.trace, name) for name in ("batches", "samples", "workers")}
            for table in tables.values():
                table["rank"] = rank
            columns = {name: {c: v.to_numpy() for c, v in table.items()}
                       for name, table in tables.items()}  # fmt: skip
            meta = {**rec.trace.meta, "windows": own, "begins_s": 60.0 * (DAYS_ROWS - 10)}
            Trace.from_columns(**columns, meta=meta).save(Path(folder) / f"rank-{rank:05d}.parquet")
        begun = time.perf_counter()
        trace = loaderviz.load(folder)
        loaded = time.perf_counter()
        loaderviz.figures.run(trace)
        drawn = time.perf_counter()
        print(
            f"{n} ranks, {len(trace.windows):,} windows, {len(trace.batches):,} batches: "
            f"load {loaded - begun:.2f} s, picture {drawn - loaded:.2f} s"
        )


def start(
    path: Path, times: float, length_s: float, who: str, rank: str | None = None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HERE), "--loop", str(path), str(times), str(length_s), who]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    if rank is not None:
        environment |= {"RANK": rank, "WORLD_SIZE": "2"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--size", nargs=3, type=int)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--shifts", type=int, nargs="?", const=1, default=0)
    parser.add_argument("--soak", type=float, default=0)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--loop", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.loop:
        path, times, length_s, who = given.loop
        loop(path, float(times), float(length_s), who)
    if given.size:  # before anything has imported loaderviz, which takes the clock as it finds it
        size(*given.size)
    elif given.overhead:
        overhead()
    if given.soak:
        soak(given.soak)
    if given.ranks:
        ranks(given.ranks)
    if given.kills:
        kills(given.kills)
    if given.shifts:
        shifts(given.shifts)


if __name__ == "__main__":
    main()
