"""What thousands of loaders, and of epochs with workers of their own, cost a recording.

Run it alone on a machine: python benchmarks/lifetimes.py [--loaders 10000] [--epochs 200]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from torch.utils.data import DataLoader

from loaderviz import record

MIB = 1 << 20


class EveryLoader:
    """In its recording every loader that is iterated is recorded."""

    def __iter__(self) -> Iterator[None]:
        yield from ()


def many_loaders(n: int) -> float:
    begun_s = time.perf_counter()
    for _ in range(n):
        for _batch in DataLoader(range(4), batch_size=4):
            pass
    return time.perf_counter() - begun_s


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def loaders(n: int) -> None:
    many_loaders(n // 10)
    print("| loaders | plain, s | recorded, s | 2 x plain + 1 s | memory gained, MiB |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for count in (n // 10, n):
        plain_s = many_loaders(count)
        before_mib = peak_mib()
        with record(EveryLoader()):
            recorded_s = many_loaders(count)
            gained_mib = peak_mib() - before_mib
        limit_s = 2 * plain_s + 1
        print(
            f"| {count:,} | {plain_s:.2f} | {recorded_s:.2f} | {limit_s:.2f} | {gained_mib:.1f} |"
        )


def epochs(n: int, n_workers: int) -> None:
    loader = DataLoader(range(2 * n_workers), batch_size=1, num_workers=n_workers)
    print("\n| epochs | files | bytes on disk, MiB | plain, s | recorded, s |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    plain_s = -time.perf_counter()
    for _ in range(n):
        list(loader)
    plain_s += time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        recorded_s = -time.perf_counter()
        with record(loader, path=path):
            for epoch in range(1, n + 1):
                list(loader)
                if epoch in (n // 4, n // 2, n):
                    files = list(path.iterdir())
                    mib = sum(512 * file.stat().st_blocks for file in files) / MIB
                    took_s = recorded_s + time.perf_counter()
                    plain = f"{plain_s:.1f}" if epoch == n else ""
                    print(f"| {epoch} | {len(files)} | {mib:.2f} | {plain} | {took_s:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loaders", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=8)
    given = parser.parse_args()
    loaders(given.loaders)
    epochs(given.epochs, given.workers)


if __name__ == "__main__":
    main()
