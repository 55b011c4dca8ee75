"""What it takes to say how well a stream is mixed, and to draw it: `python benchmarks/mixing.py`.

Seconds of CPU for ``Audit.mixing()`` and for its figure, and the most memory that they take beyond
what the audit holds (Linux only). The order of delivery is drawn here: no loader runs. The score
beside them is a check: 1 for a shuffle, and for a buffer 1 - (1 - its share) ** e.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from loaderviz._audit.audit_of_numbers import simulate_audit
from loaderviz._audit.audit_result import Audit

BATCH, WORKERS = 64, 8
ORDERS = {
    "shuffled": lambda n, rng: rng.permutation(n),
    "a buffer of a tenth": lambda n, rng: buffered(n, n // 10, rng),
    "labels, equal ones": lambda n, rng: rng.permutation(n) % 1000,
}


def buffered(n: int, size: int, rng: Any) -> Any:
    """How a shuffle buffer leaves 0 to n - 1: each stays in it for a geometric time."""
    leaves = np.maximum(np.arange(n) - size, 0) + rng.geometric(1 / size, n)
    return np.argsort(leaves, kind="stable")


def audit_of(order: Any) -> Audit:
    """An audit that delivered these keys, a batch from each worker in turn."""
    n = len(order)
    batch = np.arange(n) // BATCH
    deliveries = pd.DataFrame(
        {
            "epoch": np.zeros(n, np.int64),
            "rank": np.zeros(n, np.int64),
            "worker": batch % WORKERS,
            "batch": batch,
            "position": np.arange(n) % BATCH,
            "sample": order,
        }
    )
    found = simulate_audit(None, 1, num_workers=1, batch_size=1)
    fields = {**vars(found), "deliveries": deliveries, "keys": order}
    return Audit(**fields)


def peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000_000)
    n = parser.parse_args().samples
    audit_of(np.arange(1000)).mixing().figure()  # what is imported once
    print("order                  mixing s   figure s   MB more   score")
    for name, make in ORDERS.items():
        found = audit_of(make(n, np.random.default_rng(0)))
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew (proc(5))
        before, start = peak(), time.process_time()
        mixing = found.mixing()
        took, start = time.process_time() - start, time.process_time()
        mixing.figure()
        drawn = time.process_time() - start
        more = (peak() - before) / 1e6
        print(f"{name:20} {took:10.2f} {drawn:10.2f} {more:9.0f} {mixing.score:7.2f}", flush=True)


if __name__ == "__main__":
    main()
