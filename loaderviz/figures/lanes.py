"""Which lane each row of a trace is drawn in: the consumer on top, a lane for each worker below.

In between, where there are such: what the device did of the steps, and the thread that pins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures.table import Table, arrays, codes

if TYPE_CHECKING:
    from loaderviz.trace import Trace

Place = tuple[int, ...]  # rank, loader, worker, as far as they make a lane
MAIN_PROCESS = -1
WORKER_PX = {1: 52, 2: 52, 3: 48, 4: 44, 6: 38, 8: 34, 12: 30}  # a lane's height, by number
DEVICE, PIN, WORKER = ("rank",), ("rank", "loader"), ("rank", "loader", "worker")


@dataclass(frozen=True)
class Lanes:
    """Lane numbers from top to bottom; the consumer's is 0, and it is a little taller."""

    devices: list[Place]  # by rank
    pins: list[Place]  # by rank and loader
    workers: list[Place]
    labels: list[str]

    @classmethod
    def of(cls, trace: Trace) -> Lanes:
        batches = arrays(trace.batches)
        devices = _distinct(DEVICE, batches, ~np.isnan(batches["device_start_s"]))
        pins = _distinct(PIN, batches, ~np.isnan(batches["pinned_s"]))
        workers = sorted({*_distinct(WORKER, batches), *_distinct(WORKER, arrays(trace.workers))})
        labels = ["consumer"]
        several = [len({place[i] for place in workers}) > 1 for i in (0, 1)]
        for place in (*devices, *pins, *workers):
            label = ("device", "pin thread", f"worker {place[-1]}")[len(place) - 1]
            if len(place) == len(WORKER) and place[-1] == MAIN_PROCESS:
                label = "main process"
            if several[1] and len(place) > 1:
                label = f"loader {place[1]} · {label}"
            labels.append(f"rank {place[0]} · {label}" if several[0] else label)
        return cls(devices, pins, workers, labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_workers(self) -> bool:
        return any(place[-1] >= 0 for place in self.workers)

    @property
    def lane_px(self) -> int:
        n = len(self) - 1
        return next((px for most, px in WORKER_PX.items() if n <= most), 25)

    @property
    def label_px(self) -> int:
        return 36 + 7 * max(map(len, self.labels))

    def positions_of(self, rows: Table) -> Any:
        """The lane of each row that has a rank, a loader and a worker."""
        return 1 + len(self.devices) + len(self.pins) + _index(WORKER, self.workers, rows)

    def pins_of(self, rows: Table) -> Any:
        """The lane of the thread that pins for the loader of each row."""
        return 1 + len(self.devices) + _index(PIN, self.pins, rows)

    def devices_of(self, rows: Table) -> Any:
        """The lane of the device of each row's rank."""
        return 1 + _index(DEVICE, self.devices, rows)


def _distinct(columns: tuple[str, ...], table: Table, rows: Any = ...) -> list[Place]:
    picked = {column: table[column][rows] for column in columns}
    first = np.unique(codes(columns, picked)[0], return_index=True)[1]
    return list(zip(*(picked[column][first].tolist() for column in columns), strict=True))


def _index(columns: tuple[str, ...], places: list[Place], rows: Table) -> Any:
    """Where each row's place is among the places, which are sorted and hold all of them."""
    own = {c: np.array([place[i] for place in places], np.int64) for i, c in enumerate(columns)}
    known, wanted = codes(columns, own, {column: rows[column] for column in columns})
    return np.searchsorted(known, wanted)
