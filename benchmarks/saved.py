"""What a saved trace costs: `python benchmarks/saved.py`.

Bytes a sample, for recordings with 64 samples a batch, keys in random order and samples that vary
in time; then seconds to save and to open the largest, and the memory that opening takes at its
peak, in a process of its own, beside what the tables hold in the end (Linux only).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from traces import recorded

# Run alone. The first trace, a small one, takes the imports and what pyarrow sets up once.
OPEN = """
import sys, time
import loaderviz

def peak():  # of this process alone, unlike getrusage's, which begins with its parent's
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

loaderviz.load(sys.argv[1])
before = peak()
start = time.perf_counter()
trace = loaderviz.load(sys.argv[2])
took = time.perf_counter() - start
more = peak() - before
tables = trace.batches, trace.samples, trace.workers, trace.spans
held = sum(table.memory_usage(index=False).sum() for table in tables)
print(took, more / held)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--most", type=int, default=10_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder) / "small.parquet", Path(folder) / "run.parquet"
        recorded(1_000).save(small)
        print("a sample takes    samples   bytes a sample   save s   open s   peak / tables")
        for name, mean_ns, spread, n in (
            ("150 ns +- 30 %", 150, 0.3, chosen.samples),
            ("1 ms +- 10 %", 1e6, 0.1, chosen.samples),
            ("10 ms +- 50 %", 1e7, 0.5, chosen.samples),
            ("1 ms +- 10 %", 1e6, 0.1, chosen.most),
        ):
            trace = recorded(n, mean_ns=mean_ns, spread=spread)
            start = time.perf_counter()
            trace.save(path)
            saving = time.perf_counter() - start
            del trace
            done = subprocess.run(
                [sys.executable, "-c", OPEN, small, path],
                capture_output=True,
                text=True,
                check=True,
            )
            opening, memory = map(float, done.stdout.split())
            size = path.stat().st_size / n
            print(
                f"{name:14} {n:10,} {size:16.2f} {saving:8.2f} {opening:8.2f} {memory:15.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
