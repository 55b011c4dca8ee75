"""Which lane each row of a trace is drawn in: the consumer on top, a lane for each worker below."""

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

    positions: dict[Lane, float]
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
        positions = {lane: i + 1.0 for i, lane in enumerate(lanes)}
        labels = ["consumer"]
        for rank, loader, worker in lanes:
            label = "main process" if worker == MAIN_PROCESS else f"worker {worker}"
            label = f"loader {loader} · {label}" if len(loaders) > 1 else label
            labels.append(f"rank {rank} · {label}" if len(ranks) > 1 else label)
        return cls(positions, labels, any(lane[2] >= 0 for lane in lanes))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lane_px(self) -> int:
        n = len(self.positions)
        return next((px for most, px in WORKER_PX.items() if n <= most), 25)

    @property
    def label_px(self) -> int:
        return 36 + 7 * max(map(len, self.labels))

    def positions_of(self, rows: pd.DataFrame) -> list[float]:
        """The lane of each row that has a rank, a loader and a worker."""
        keys = zip(rows["rank"], rows["loader"], rows["worker"], strict=True)
        return [self.positions[int(r), int(ld), int(w)] for r, ld, w in keys]
