"""What recording costs per sample, beside its peers: `python benchmarks/overhead.py`.

All variants run in turns in one process; each figure is the median over the rounds of what a
variant adds to the unrecorded epoch of the same round, divided by the samples. Trivial samples, so
that nothing hides the cost; then samples that work for 10 us and 1 ms, for what is left of the
throughput. The time to start workers and to make the trace at the end is not in it
(`footprint.py` has the latter).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info
from viztracer import VizTracer

from loaderviz import record


class Trivial(Dataset[int]):
    """Samples that cost next to nothing."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index


class Busy(Trivial):
    """Samples that keep the CPU busy for a while."""

    def __init__(self, n: int, seconds: float) -> None:
        super().__init__(n)
        self.seconds = seconds

    def __getitem__(self, index: int) -> int:
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return index


class Profiled(Dataset[int]):
    """The peer: ``torch.profiler.record_function`` around each sample."""

    def __init__(self, inner: Trivial) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> int:
        with torch.profiler.record_function("sample"):
            return self.inner[index]


class Timed(Profiled):
    """The peer: each sample carries its times and its worker inside the batch."""

    def __getitem__(self, index: int) -> Any:
        start = time.perf_counter()
        sample = self.inner[index]
        info = get_worker_info()
        return sample, start, time.perf_counter(), -1 if info is None else info.id


class Viztraced:
    """The peer: viztracer without C functions, started by hand in the worker too.

    A circular buffer of events: what does not fit is lost, which keeps the cost the same.
    """

    def __init__(self) -> None:
        self.tracer: VizTracer | None = None

    def __call__(self, worker: int = -1) -> None:
        self.tracer = VizTracer(ignore_c_function=True, verbose=0, log_torch=False)
        self.tracer.start()

    def run(self, loader: DataLoader[Any]) -> float:
        if loader.num_workers:
            return run(loader)
        self()
        assert self.tracer is not None
        try:
            return run(loader)
        finally:
            self.tracer.stop()
            self.tracer.clear()
            self.tracer.terminate()


def first(samples: list[Any]) -> int:
    """A collate step that is as trivial as the samples."""
    return samples[0]


def run(loader: DataLoader[Any]) -> float:
    """Seconds from the first to the last batch: what a worker's start costs is left out."""
    batches = iter(loader)
    next(batches)
    start = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - start


def run_recorded(loader: DataLoader[Any]) -> float:
    with record(loader):
        return run(loader)


PEERS = ("record_function", "viztracer", "times in batch")


def compare(
    dataset: Trivial, batch_size: int, workers: int, rounds: int, *, peers: bool = True
) -> dict[str, float]:
    """Median extra seconds a sample of each variant, and ``plain``: the epoch's own."""

    def loader(dataset: Dataset[Any], **more: Any) -> DataLoader[Any]:
        settings = {"batch_size": batch_size, "num_workers": workers, "collate_fn": first}
        return DataLoader(dataset, **{**settings, **more})

    def viztraced() -> float:
        tracer = Viztraced()
        init = {"worker_init_fn": tracer} if workers else {}
        return tracer.run(loader(dataset, **init))

    variants: dict[str, Callable[[], float]] = {
        "plain": lambda: run(loader(dataset)),
        "loaderviz": lambda: run_recorded(loader(dataset)),
        "record_function": lambda: run(loader(Profiled(dataset))),
        "viztracer": viztraced,
        "times in batch": lambda: run(loader(Timed(dataset), collate_fn=default_collate)),
    }
    if not peers:
        for name in PEERS:
            del variants[name]
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, variant in variants.items():
            taken[name].append(variant())
    n = len(dataset) - batch_size
    extra = {
        name: statistics.median(
            (own - plain) / n for own, plain in zip(taken[name], taken["plain"], strict=True)
        )
        for name in variants
        if name != "plain"
    }
    return {"plain": statistics.median(taken["plain"]) / n, **extra}


def floor(n: int = 1_000_000) -> float:
    """One clock read and one append, in seconds."""
    stamps: list[int] = []
    append, now = stamps.append, time.perf_counter_ns
    start = time.perf_counter()
    for _ in range(n):
        append(now())
    return (time.perf_counter() - start) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--samples", type=int, default=100_000)
    chosen = parser.parse_args()
    print(f"torch {torch.__version__}; floor {1e6 * floor():.3f} us a sample")
    print("extra us a sample   workers  batch      plain  loaderviz  " + "  ".join(PEERS))
    for workers in (0, 1, 2):
        for batch_size in (8, 64, 512):
            found = compare(Trivial(chosen.samples), batch_size, workers, chosen.rounds)
            cells = "  ".join(f"{1e6 * each:9.3f}" for each in found.values())
            print(f"trivial             {workers:7}  {batch_size:5}  {cells}", flush=True)
    for seconds, n in ((10e-6, 50_000), (1e-3, 1_500)):
        for workers in (0, 1, 2):
            found = compare(Busy(n, seconds), 64, workers, chosen.rounds, peers=False)
            share = found["plain"] / (found["plain"] + found["loaderviz"])
            name = f"{1e6 * seconds:.0f} us samples"
            print(f"{name:18}  {workers:7}     64  throughput x {share:.4f}", flush=True)


if __name__ == "__main__":
    main()
