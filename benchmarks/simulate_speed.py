"""How fast the simulator is: `python benchmarks/simulate_speed.py`.

Batches a second on one core, the tables of the trace included, where processes have cores to spare
and where they share them; then what one what-if of 200 batches takes, and with its timeline. The
best of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from loaderviz import Costs, simulate, timeline

REPEATS = 5


def best(act: Callable[[], Any]) -> float:
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        act()
        took.append(time.perf_counter() - start)
    return min(took)


def main() -> None:
    times = np.random.default_rng(0).gamma(4.0, 0.00025, 10_000)
    rest: dict[str, Any] = {
        "step_s": 0.004,
        "dispatch_s": 3e-5,
        "take_s": 1e-4,
        "transport_s": 3e-4,
        "collate_s": 1e-4,
        "startup_s": 0.005,
    }
    kinds = {
        "waiting, cores to spare": Costs(sample_s=times, cores=64, **rest),
        "computing, 2 cores": Costs(sample_s=times, cpu_share=1.0, cores=2, **rest),
        "half of each, 2 cores": Costs(sample_s=times, cpu_share=0.5, cores=2, **rest),
    }
    print("4 workers                  batch size   order   kind       batches/s")
    for name, costs in kinds.items():
        for size, in_order, kind in (
            (1, True, "map"),
            (8, True, "map"),
            (8, False, "map"),
            (8, True, "iterable"),
            (64, True, "map"),
        ):
            n = 20_000
            more: dict[str, Any] = {"n_batches": n}
            if kind == "iterable":
                more = {"kind": kind, "shards": [n // 4 * size] * 4}
            settings = {"num_workers": 4, "batch_size": size, "in_order": in_order, **more}
            took = best(lambda costs=costs, settings=settings: simulate(costs, **settings))
            order = "kept" if in_order else "free"
            print(f"{name:26} {size:10} {order:>7}   {kind:8} {n / took:11,.0f}")
    print("\n200 batches                batch size   simulate ms   and timeline ms")
    for name, costs in kinds.items():
        for size in (8, 64):
            settings = {"num_workers": 4, "batch_size": size, "n_batches": 200}
            alone = best(lambda costs=costs, settings=settings: simulate(costs, **settings))
            both = best(
                lambda costs=costs, settings=settings: timeline(simulate(costs, **settings))
            )
            print(f"{name:26} {size:10} {1000 * alone:13.1f} {1000 * both:17.1f}")


if __name__ == "__main__":
    main()
