"""Which lane each row of a trace is drawn in: the consumer on top, a lane for each worker below.

In between, where there are such: what the device did of the steps, and the thread that pins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.text import worker_name
from loaderviz.trace.columns_of_rows import Table, arrays, codes

if TYPE_CHECKING:
    from loaderviz.trace import Trace

Place = tuple[int, ...]  # rank, loader, worker, as far as they make a lane
MAIN_PROCESS = -1
WORKER_PX = {1: 52, 2: 52, 3: 48, 4: 44, 6: 38, 8: 34, 12: 30}  # a lane's height, by number
RANK, LOADER, WORKER = ("rank",), ("rank", "loader"), ("rank", "loader", "worker")


@dataclass(frozen=True)
class Lanes:
    """Lane numbers from top to bottom, rank by rank; each rank's consumer is its first."""

    consumers: list[Place]  # by rank
    devices: list[Place]  # by rank
    pins: list[Place]  # by rank and loader
    workers: list[Place]
    labels: list[str]
    numbers: tuple[Any, ...]  # of the lanes of each kind, as they are listed here

    @classmethod
    def of(cls, trace: Trace) -> Lanes:
        batches, processes = arrays(trace.batches), arrays(trace.workers)
        places = [
            sorted({*_distinct(RANK, batches), *_distinct(RANK, processes)}),
            _distinct(RANK, batches, ~np.isnan(batches["device_start_s"])),
            _distinct(LOADER, batches, ~np.isnan(batches["pinned_s"])),
            sorted({*_distinct(WORKER, batches), *_distinct(WORKER, processes)}),
        ]
        every = [(place[0], kind, place) for kind, own in enumerate(places) for place in own]
        every.sort()
        several = [len({place[i] for place in places[3]}) > 1 for i in (0, 1)]
        labels = [_label(kind, place, *several) for _, kind, place in every]
        lanes = [[at for at, each in enumerate(every) if each[1] == kind] for kind in range(4)]
        numbers = tuple(np.array(each, np.int64) for each in lanes)
        consumers, devices, pins, workers = places
        return cls(consumers, devices, pins, workers, labels, numbers)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_workers(self) -> bool:
        return any(place[-1] >= 0 for place in self.workers)

    @property
    def lane_px(self) -> int:
        n = len(self) - len(self.consumers)
        return next((px for most, px in WORKER_PX.items() if n <= most), 25)

    def consumers_of(self, rows: Table) -> Any:
        """The lane of the consumer of each row's rank."""
        return self._lane(0, RANK, self.consumers, rows)

    def devices_of(self, rows: Table) -> Any:
        """The lane of the device of each row's rank."""
        return self._lane(1, RANK, self.devices, rows)

    def pins_of(self, rows: Table) -> Any:
        """The lane of the thread that pins for the loader of each row."""
        return self._lane(2, LOADER, self.pins, rows)

    def positions_of(self, rows: Table) -> Any:
        """The lane of each row that has a rank, a loader and a worker."""
        return self._lane(3, WORKER, self.workers, rows)

    def _lane(self, kind: int, columns: tuple[str, ...], places: list[Place], rows: Table) -> Any:
        """Of a row whose place has no lane of that kind, any: it has no time to be drawn at."""
        if not places:
            return np.zeros(len(rows[columns[0]]), np.int64)
        return self.numbers[kind][np.minimum(_index(columns, places, rows), len(places) - 1)]


def _label(kind: int, place: Place, ranks: bool, loaders: bool) -> str:
    """``ranks`` and ``loaders``: whether there are several."""
    label = ("consumer", "device", "pin thread", worker_name(place[-1]))[kind]
    if loaders and len(place) > 1:
        label = f"loader {place[1]} · {label}"
    return f"rank {place[0]} · {label}" if ranks else label


def _distinct(columns: tuple[str, ...], table: Table, rows: Any = ...) -> list[Place]:
    picked = {column: table[column][rows] for column in columns}
    first = np.unique(codes(columns, picked)[0], return_index=True)[1]
    return list(zip(*(picked[column][first].tolist() for column in columns), strict=True))


def _index(columns: tuple[str, ...], places: list[Place], rows: Table) -> Any:
    """Where each row's place is among the places, which are sorted and hold all of them."""
    own = {c: np.array([place[i] for place in places], np.int64) for i, c in enumerate(columns)}
    known, wanted = codes(columns, own, {column: rows[column] for column in columns})
    return np.searchsorted(known, wanted)
