"""What an audit of a million samples costs: `python benchmarks/audit.py`.

Seconds, and the most memory that this process takes beyond what it held before (Linux only), each
case in a process of its own. Trivial samples in batches of 64, so that all that is left is the
loader's own work and the audit's; the loader alone is in the first column.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from loaderviz import audit, record, shard

CASES = {
    "map-style, in order": ("map", {}),
    "map-style, shuffled": ("map", {"shuffle": True}),
    "iterable, shared out": ("shared", {}),
    "iterable, each worker all": ("naive", {}),
    "iterable, texts": ("texts", {}),
    "a trace alone": ("trace", {"shuffle": True}),
}


class Numbers(Dataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[Any]):
    """Yields numbers or texts; each worker its share, or all of them."""

    def __init__(self, n: int, *, share: bool = True, texts: bool = False) -> None:
        self.n, self.share, self.texts = n, share, texts

    def __iter__(self) -> Iterator[Any]:
        own = shard(range(self.n)) if self.share else range(self.n)
        return (f"sample number {i}" for i in own) if self.texts else iter(own)


def first(samples: list[Any]) -> Any:
    """A collate step that is as trivial as the samples."""
    return samples[0]


def peak() -> int:
    """Of this process alone, unlike getrusage's, which begins with its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def run(kind: str, options: dict[str, Any], n: int, workers: int) -> None:
    def loader(n: int) -> DataLoader[Any]:
        dataset: Dataset[Any] = {
            "map": lambda: Numbers(n),
            "trace": lambda: Numbers(n),
            "shared": lambda: Stream(n),
            "naive": lambda: Stream(n, share=False),
            "texts": lambda: Stream(n, texts=True),
        }[kind]()
        return DataLoader(dataset, batch_size=64, num_workers=workers, collate_fn=first, **options)

    def given(n: int) -> Any:
        if kind != "trace":
            return loader(n)
        with record(own := loader(n)) as rec:
            for _ in own:
                pass
        return rec.trace

    audit(given(1000))  # what is imported once
    start = time.perf_counter()
    for _ in loader(n):
        pass
    alone = time.perf_counter() - start
    subject = given(n)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew (proc(5))
    before = peak()
    start = time.perf_counter()
    found = audit(subject)
    took = time.perf_counter() - start
    more = peak() - before
    start = time.perf_counter()
    found.figure()
    drawn = time.perf_counter() - start
    print(alone, took, more / 1e6, drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.case:
        run(*CASES[chosen.case], chosen.samples, chosen.workers)
        return
    print("loader                      workers   loader s   audit s   MB more   figure s")
    for name in CASES:
        for workers in (0, 2):
            command = [sys.executable, __file__, "--case", name, "--workers", str(workers)]
            command += ["--samples", str(chosen.samples)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            alone, took, more, drawn = map(float, done.stdout.split())
            print(
                f"{name:27} {workers:7} {alone:10.1f} {took:9.1f} {more:9.0f} {drawn:10.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
