"""What a run of a thousand ranks costs to open: `python benchmarks/ranks.py`.

Writes 1,000 recordings of 100,000 samples each (0.7 GB; some minutes, not counted), then opens the
folder and takes its summary: seconds, and the most memory that took, each in a process of its own
(Linux only). Beside it two plain ways to such tables: ``pandas.read_parquet`` of some of the files,
whose time and memory grow with their number, and Arrow's dataset engine reading the rows of all
batches, without checking what it reads. With ``--folder`` the recordings stay, and are used again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from traces import recorded

PANDAS_FILES = 50
SLOW = 3  # the rank whose loader is slow
SECOND_NS = 1_000_000_000

# Run alone, each. What is imported, and what pyarrow sets up once, comes before.
MEASURE = """
import sys, time
from pathlib import Path
import pandas, pyarrow.dataset, pyarrow.parquet
import loaderviz
from loaderviz import schema
from loaderviz.trace.parquet.columns import stored_name

def peak():  # of this process alone, unlike getrusage's, which begins with its parent's
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

def threads():
    return len(list(Path("/proc/self/task").iterdir()))

paths = sorted(map(str, Path(sys.argv[2]).glob("*.parquet")))
loaderviz.load(paths[0])
before, had, start = peak(), threads(), time.perf_counter()
{code}
print(time.perf_counter() - start, peak() - before, peak(), threads() - had)
print(said)
"""
WAYS = {
    "loaderviz": """
trace = loaderviz.load(sys.argv[2])
said = trace.summary()
""",
    "pandas": f"""
table = pandas.read_parquet(paths[:{PANDAS_FILES}])
said = f"{{len(table):,}} rows"
""",
    "dataset": """
field = pyarrow.dataset.field
table = pyarrow.dataset.dataset(paths).to_table(
    columns=[stored_name(each) for each in schema.BATCHES],
    filter=field("table") == "batches",
    use_threads=False,
).to_pandas()
said = f"{len(table):,} rows"
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1_000)
    parser.add_argument("--samples", type=int, default=100_000, help="of each rank")
    parser.add_argument("--folder", type=Path, help="keep the recordings here, or use them again")
    parser.add_argument("--write-only", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, chosen.ranks, chosen.samples)
        if not chosen.write_only:
            report(folder)


def write(folder: Path, n_ranks: int, n_samples: int) -> None:
    """One recording a rank, alike but for their pace, as many as are not there already."""
    random = np.random.default_rng(0)
    like = recorded(n_samples)
    for rank in range(n_ranks):
        pace = random.normal(1, 0.01)
        path = folder / f"rank-{rank:05d}.parquet"
        if path.exists():
            continue
        batches = {name: like.batches[name] * pace for name in like.batches if name.endswith("_s")}
        samples = {name: like.samples[name] * pace for name in ("start_s", "end_s")}
        gap_s = np.diff(batches["delivered_s"], prepend=0.0)
        waits = 0.4 if rank == SLOW else 0.02  # the others wait for the slow one, in their steps
        batches["requested_s"] = batches["delivered_s"] - waits * gap_s
        batches["released_s"] = np.append(batches["requested_s"][1:], batches["released_s"].max())
        host = rank // 8
        meta = {
            "rank": rank,
            "world_size": n_ranks,
            "host": f"node{host}",
            "clock_domain": f"boot {host}",
            "started": [host * SECOND_NS + rank * 1000, 10**18 + rank * 1000],
            "clock": {
                "reference": "node0",
                "offset_ns": -host * SECOND_NS,
                "uncertainty_ns": 40_000,
            },
            "loaders": [{"kind": "map", "num_workers": 4, "batch_size": 64}],
            "problems": [],
            "complete": True,
            "left_out": 0,
        }
        keys = like.samples["key"] * n_ranks + rank  # as DistributedSampler deals them
        replace(
            like,
            batches=like.batches.assign(rank=rank, **batches),
            samples=like.samples.assign(rank=rank, key=keys, **samples),
            workers=like.workers.assign(rank=rank),
            meta=meta,
        ).save(path)


def report(folder: Path) -> None:
    files = sorted(folder.glob("*.parquet"))
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files):,} recordings, {size / 1e9:.2f} GB", flush=True)
    for name, code in WAYS.items():
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", MEASURE.replace("{code}", code), "", str(folder)],
            capture_output=True,
            text=True,
            check=True,
        )
        numbers, said = done.stdout.split("\n", 1)
        took, more, peak, threads = map(float, numbers.split())
        files_read = min(PANDAS_FILES, len(files)) if name == "pandas" else len(files)
        print(
            f"{name}: {files_read:,} files in {took:.1f} s; {more / 1e6:,.0f} MB more than before, "
            f"{peak / 1e6:,.0f} MB in all; {threads:.0f} threads stay "
            f"(the process took {time.perf_counter() - start:.1f} s)"
        )
        print("    " + said.strip().replace("\n", "\n    "), flush=True)


if __name__ == "__main__":
    main()
