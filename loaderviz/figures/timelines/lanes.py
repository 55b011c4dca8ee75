"""Which lane each row of a trace is drawn in, rank by rank.

From top to bottom: the consumer; the device, where one worked on steps; the pin thread, where there
is one; a lane for each worker.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.text import MAIN_PROCESS, worker_name
from loaderviz.trace.columns_of_rows import Table, arrays, codes
from loaderviz.trace.described_loaders import is_read_ahead
from loaderviz.why.loader_share import short_names

if TYPE_CHECKING:
    from loaderviz.trace import Trace

Place = tuple[int, ...]  # (rank,), (rank, loader) or (rank, loader, worker)
# The height of a lane in pixels, for at most as many lanes below the consumers.
LANE_PX = {2: 44, 3: 42, 4: 40, 6: 36, 8: 33, 12: 30}
LEAST_LANE_PX = 25
MOST_NAMED = 8  # loaders of the main process that have lanes of their own; more share one
RANK, LOADER, WORKER = ("rank",), ("rank", "loader"), ("rank", "loader", "worker")


@dataclass(frozen=True)
class Lanes:
    """Lane numbers from top to bottom, rank by rank; each rank's consumer is its first."""

    consumers: list[Place]  # by rank
    devices: list[Place]  # by rank
    pins: list[Place]  # by rank and loader
    workers: list[Place]
    labels: list[str]
    numbers: tuple[Any, ...]  # of consumers, devices, pins, workers: their lane numbers, int64
    loaders: Mapping[int, str] = field(default_factory=dict)  # their names, where there are several

    @classmethod
    def from_trace(cls, trace: Trace) -> Lanes:
        """The lanes of all ranks, loaders and workers that occur in a trace."""
        batches, processes = arrays(trace.batches), arrays(trace.workers)
        was_seen = (batches["worker"] >= 0) | ~np.isnan(batches["started_s"])
        places_of_kinds = [
            sorted({*_distinct(RANK, batches), *_distinct(RANK, processes)}),
            _distinct(RANK, batches, ~np.isnan(batches["device_start_s"])),
            _distinct(LOADER, batches, ~np.isnan(batches["pinned_s"])),
            sorted({*_distinct(WORKER, batches, was_seen), *_distinct(WORKER, processes)}),
        ]
        shown = [[*places] for places in places_of_kinds]
        in_main = Counter(rank for rank, _, worker in places_of_kinds[3] if worker < 0)
        shown[3] = [  # the main process makes one batch at a time, of whichever loader
            (place[0], -1, -1) if place[-1] < 0 and in_main[place[0]] > MOST_NAMED else place
            for place in shown[3]
        ]
        lanes = sorted({(place[0], kind, place) for kind in range(4) for place in shown[kind]})
        lane_of = {lane: i for i, lane in enumerate(lanes)}
        consumers, devices, pins, workers = places_of_kinds
        several_ranks, several = (len({place[i] for place in workers}) > 1 for i in (0, 1))
        names = short_names(trace) if several else {}
        loaders = {loader: html.escape(name) for loader, name in names.items()}
        labels = [_label(kind, place, several_ranks, loaders) for _, kind, place in lanes]
        for i, (_, kind, place) in enumerate(lanes):
            if kind == 3 and place[-1] < 0 and is_read_ahead(trace.meta, place[1]):
                labels[i] = labels[i].replace(MAIN_PROCESS, "thread that reads ahead")
        numbers = tuple(
            np.array([lane_of[place[0], kind, place] for place in shown[kind]], np.int64)
            for kind in range(4)
        )
        return cls(consumers, devices, pins, workers, labels, numbers, loaders)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_workers(self) -> bool:
        """Whether any worker process has a lane; False where the main process loads."""
        return any(place[-1] >= 0 for place in self.workers)

    @property
    def lane_px(self) -> int:
        """The height in pixels of each lane below the consumers."""
        n = len(self) - len(self.consumers)
        return next((px for most, px in LANE_PX.items() if n <= most), LEAST_LANE_PX)

    def consumer_lanes(self, rows: Table) -> Any:
        """The lane number (int64) of the consumer of each row's rank."""
        return self._lane(0, RANK, self.consumers, rows)

    def device_lanes(self, rows: Table) -> Any:
        """The lane number (int64) of the device of each row's rank."""
        return self._lane(1, RANK, self.devices, rows)

    def pin_lanes(self, rows: Table) -> Any:
        """The lane number (int64) of the pin thread of each row's loader."""
        return self._lane(2, LOADER, self.pins, rows)

    def worker_lanes(self, rows: Table) -> Any:
        """The lane number (int64) of each row's worker; a row has a rank, a loader and a worker."""
        return self._lane(3, WORKER, self.workers, rows)

    def _lane(self, kind: int, columns: tuple[str, ...], places: list[Place], rows: Table) -> Any:
        """A row without a lane of that kind gets an arbitrary one: it has no time, so no mark."""
        if not places:
            return np.zeros(len(rows[columns[0]]), np.int64)
        return self.numbers[kind][np.minimum(_index(columns, places, rows), len(places) - 1)]


def _label(kind: int, place: Place, several_ranks: bool, loaders: Mapping[int, str]) -> str:
    label = ("consumer", "device", "pin thread", worker_name(place[-1]))[kind]
    if len(place) > 1 and place[1] in loaders:
        label = f"{loaders[place[1]]} · {label}"
    return f"rank {place[0]} · {label}" if several_ranks else label


def _distinct(columns: tuple[str, ...], table: Table, rows: Any = ...) -> list[Place]:
    """The places that occur in the given rows of a table, sorted."""
    picked = {column: table[column][rows] for column in columns}
    first = np.unique(codes(columns, picked)[0], return_index=True)[1]
    return list(zip(*(picked[column][first].tolist() for column in columns), strict=True))


def _index(columns: tuple[str, ...], places: list[Place], rows: Table) -> Any:
    """For each row the index of its place among all places, which are sorted."""
    table = {c: np.array([place[i] for place in places], np.int64) for i, c in enumerate(columns)}
    known, wanted = codes(columns, table, {column: rows[column] for column in columns})
    return np.searchsorted(known, wanted)
