"""Which lane each row of a trace is drawn in: the consumer on top, a lane for each worker below.

In between, where there are such: what the device did of the steps, and the thread that pins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

Lane = tuple[int, int, int]  # rank, loader, worker
MAIN_PROCESS = -1
WORKER_PX = {1: 52, 2: 52, 3: 48, 4: 44, 6: 38, 8: 34, 12: 30}  # a lane's height, by number


@dataclass(frozen=True)
class Lanes:
    """Lane numbers from top to bottom; the consumer's is 0, and it is a little taller."""

    positions: dict[Lane, float]  # of the workers
    devices: dict[int, float]  # by rank
    pins: dict[tuple[int, int], float]  # by rank and loader
    labels: list[str]
    has_workers: bool

    @classmethod
    def of(cls, trace: Trace) -> Lanes:
        columns = ["rank", "loader", "worker"]
        tables = [trace.batches[columns], trace.workers[columns]]
        lanes: list[Lane] = sorted(
            {(int(r), int(ld), int(w)) for table in tables for r, ld, w in table.to_numpy()}
        )
        ranks, loaders = {lane[0] for lane in lanes}, {lane[1] for lane in lanes}
        on_device = trace.batches[trace.batches["device_start_s"].notna()]
        devices = sorted({int(rank) for rank in on_device["rank"]})
        pinned = trace.batches[trace.batches["pinned_s"].notna()]
        pins = sorted({(int(r), int(ld)) for r, ld in pinned[["rank", "loader"]].to_numpy()})
        named: list[tuple[int, int | None, str]] = [(rank, None, "device") for rank in devices]
        named += [(rank, loader, "pin thread") for rank, loader in pins]
        named += [
            (rank, loader, "main process" if worker == MAIN_PROCESS else f"worker {worker}")
            for rank, loader, worker in lanes
        ]
        labels = ["consumer"]
        for rank, loader, label in named:
            if len(loaders) > 1 and loader is not None:
                label = f"loader {loader} · {label}"
            labels.append(f"rank {rank} · {label}" if len(ranks) > 1 else label)
        places = iter(range(1, len(labels)))
        return cls(
            devices={rank: float(next(places)) for rank in devices},
            pins={each: float(next(places)) for each in pins},
            positions={lane: float(next(places)) for lane in lanes},
            labels=labels,
            has_workers=any(lane[2] >= 0 for lane in lanes),
        )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lane_px(self) -> int:
        n = len(self) - 1
        return next((px for most, px in WORKER_PX.items() if n <= most), 25)

    @property
    def label_px(self) -> int:
        return 36 + 7 * max(map(len, self.labels))

    def positions_of(self, rows: pd.DataFrame) -> list[float]:
        """The lane of each row that has a rank, a loader and a worker."""
        keys = zip(rows["rank"], rows["loader"], rows["worker"], strict=True)
        return [self.positions[int(r), int(ld), int(w)] for r, ld, w in keys]
