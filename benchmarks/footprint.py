"""What a recording takes in memory, on disk and at the start: `python benchmarks/footprint.py`.

One long epoch of trivial samples in batches of 64, read in the process itself and through a worker:
bytes a sample on disk while it runs, resident memory after each million of samples, and what it
takes to make the trace at the end. Then the time that imports add to `import torch`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil
from overhead import Trivial, first
from torch.utils.data import DataLoader

from loaderviz import load, record
from loaderviz.machine import rss_peak_bytes

MIB = 1 << 20


def epoch(n: int, workers: int) -> None:
    loader = DataLoader(Trivial(n), batch_size=64, num_workers=workers, collate_fn=first)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "run"
        recording = record(loader, path=folder, max_spans=2 * n)
        recording.__enter__()
        resident = []
        for step, _ in enumerate(loader):
            if step % 15_625 == 0:  # a million samples
                everyone = [psutil.Process(), *psutil.Process().children()]
                resident.append([each.memory_info().rss / MIB for each in everyone])
        on_disk = sum(path.stat().st_blocks * 512 for path in folder.iterdir())
        before = rss_peak_bytes()
        start = time.perf_counter()
        recording.__exit__(None, None, None)
        took = time.perf_counter() - start
        tables = recording.trace.samples.memory_usage(index=False).sum()
        more = (rss_peak_bytes() - before) / tables
        start = time.perf_counter()
        load(folder)
        again = time.perf_counter() - start
    print(f"{n:,} samples, {workers} workers: {on_disk / n:.1f} bytes a sample on disk")
    for i, name in enumerate(["this process", *[f"worker {i}" for i in range(workers)]]):
        print(f"  resident MiB of {name}: " + " ".join(f"{each[i]:.0f}" for each in resident))
    print(f"  trace made in {took:.1f} s, peak {more:.1f} x its table; load(folder) {again:.1f} s")


def import_ms(statement: str) -> float:
    """Median over nine new processes, of which each has imported torch."""
    script = (
        f"import time, torch; start = time.perf_counter(); {statement}; "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", script]
    return 1000 * statistics.median(float(subprocess.check_output(command)) for _ in range(9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000_000)
    chosen = parser.parse_args()
    for workers in (0, 1):  # each in a process of its own, whose peak is its own
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            pool.submit(epoch, chosen.samples, workers).result()
    for statement in ("import loaderviz", "from loaderviz import record"):
        print(f"{statement}, after torch: {import_ms(statement):.1f} ms")


if __name__ == "__main__":
    main()
