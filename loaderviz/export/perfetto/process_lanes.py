"""Processes and lanes of an exported trace: their numbers, names and order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.export.perfetto.event_writer import metadata_event
from loaderviz.trace.steps import groups

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

# Above every process and thread number of a system (Linux: 2**22 at most), so that lanes stay apart
# from the threads that another profiler saw in the same process.
MADE_UP: Final = 10_000_000
STREAM: Final = ("rank", "loader", "worker")


@dataclass(frozen=True)
class ProcessLanes:
    """The processes of a trace, numbered from 0, and the lanes in them that were asked for.

    Consumers come first, one process for each rank; then the workers.

    Attributes:
        pids: of each process; made up where the real one is unknown or another process has it.
        names: of each process.
        ranks: those of the consumers, sorted.
        consumer_of: for each row of the batches, the number of its consumer's process.
        maker_of: for each row of the batches, the number of the process that made it.
        worker_of: for each row of the workers, the number of its process.
    """

    pids: list[int]
    names: list[str]
    ranks: Any
    consumer_of: Any
    maker_of: Any
    worker_of: Any
    _lanes: dict[tuple[int, str], int] = field(default_factory=dict)

    @classmethod
    def from_trace(cls, trace: Trace) -> ProcessLanes:
        """The processes of a trace; it has no lanes yet."""
        batches, workers = (
            {column: table[column].to_numpy() for column in (*STREAM, "started_s")}
            for table in (trace.batches, trace.workers)
        )
        all_ranks = [batches["rank"], workers["rank"], trace.spans["rank"].to_numpy()]
        ranks = np.unique(np.concatenate(all_ranks))
        main_pid = (trace.meta.get("pid") or 0) if len(ranks) == 1 else 0
        pids = [main_pid] * len(ranks)
        streams: list[tuple[int, ...]] = [(int(rank),) for rank in ranks]
        worker_rows, unlisted = _worker_rows(batches, workers)
        pids += trace.workers["pid"].to_list() + [0] * len(unlisted)
        streams += list(zip(*(workers[c].tolist() for c in STREAM), strict=True)) + unlisted
        consumers = np.searchsorted(ranks, batches["rank"])
        return cls(
            pids=_distinct_pids(pids),
            names=_process_names(streams, bool(trace.meta.get("simulated"))),
            ranks=ranks,
            consumer_of=consumers,
            maker_of=np.where(batches["worker"] < 0, consumers, len(ranks) + worker_rows),
            worker_of=len(ranks) + np.arange(len(workers["rank"])),
        )

    def lane_locations(self, process: Any, role: str, sublane: Any, loader: Any = None) -> Any:
        """For each slice the JSON members that say in which lane it is, as a pyarrow array.

        Args:
            process: int array, the number of each slice's process.
            role: what the lane shows, as its name says.
            sublane: int array, mostly 0; any other sublane is a lane of its own.
            loader: int array; where there are several loaders, each has lanes of its own.
        """
        import pyarrow as pa

        several = loader is not None and len(np.unique(loader)) > 1
        lanes, lane_of = np.unique(
            np.stack([process, sublane, loader if several else 0 * process]),
            axis=1,
            return_inverse=True,
        )
        locations = []
        for its_process, its_sublane, its_loader in lanes.T.tolist():
            name = f"loader {its_loader} · {role}" if several else role
            name = f"{name} {its_sublane + 1}" if its_sublane else name
            locations.append(self._lane_location(its_process, name))
        return pa.array(locations, pa.string()).take(pa.array(lane_of.reshape(-1)))

    def _lane_location(self, process: int, name: str) -> str:
        number = self._lanes.setdefault((process, name), MADE_UP + len(self._lanes) + 1)
        return f'"pid":{self.pids[process]},"tid":{number}'

    def process_locations(self, process: Any) -> Any:
        """For each counter value the JSON member that says of which process it is."""
        import pyarrow as pa

        return pa.array([f'"pid":{pid}' for pid in self.pids]).take(pa.array(process))

    def metadata_events(self) -> Iterator[bytes]:
        """The names and the order of all processes, and of the lanes that were asked for."""
        for i, (pid, name) in enumerate(zip(self.pids, self.names, strict=True)):
            location = f'"pid":{pid},"tid":0'
            yield metadata_event("process_name", location, name=name)
            yield metadata_event("process_sort_index", location, sort_index=i)
        for i, ((process, name), number) in enumerate(self._lanes.items()):
            location = f'"pid":{self.pids[process]},"tid":{number}'
            yield metadata_event("thread_name", location, name=name)
            yield metadata_event("thread_sort_index", location, sort_index=i)


def _worker_rows(batches: Any, workers: Any) -> tuple[Any, list[tuple[int, ...]]]:
    """For each batch the row of its worker: the last one that started before the batch did.

    Workers without a row, which were started before the recording, get the numbers after the last
    row; the streams of these are returned, too.
    """
    n = len(workers["worker"])
    stream = groups(*(np.concatenate([workers[c], batches[c]]) for c in STREAM))
    worker_start = np.nan_to_num(workers["started_s"], nan=-np.inf)
    start = np.concatenate([worker_start, batches["started_s"]])
    order = np.lexsort((np.arange(len(stream)) >= n, start, stream))  # NaN, not made yet, is last
    is_worker = order < n
    # The place in ``order`` of the last worker so far, where it is one of the same stream.
    last = np.maximum.accumulate(np.where(is_worker, np.arange(len(order)), -1))
    has_worker = (last >= 0) & (stream[order[last]] == stream[order])
    worker_of = np.full(len(stream), -1)
    worker_of[order[has_worker]] = order[last[has_worker]]
    row = worker_of[n:]
    unmatched = np.flatnonzero((row < 0) & (batches["worker"] >= 0))
    _, first, stream_of = np.unique(stream[n:][unmatched], return_index=True, return_inverse=True)
    row[unmatched] = n + stream_of.reshape(-1)
    unlisted = [tuple(int(batches[c][unmatched[i]]) for c in STREAM) for i in first]
    return row, unlisted


def _distinct_pids(pids: list[Any]) -> list[int]:
    distinct: dict[int, None] = {}
    for i, pid in enumerate(pids):
        is_usable = isinstance(pid, int) and 0 < pid < MADE_UP and pid not in distinct
        distinct[pid if is_usable else MADE_UP + i + 1] = None
    return list(distinct)


def _process_names(streams: list[tuple[int, ...]], simulated: bool) -> list[str]:
    several_ranks, several_loaders = (
        len({stream[i] for stream in streams if len(stream) > i}) > 1 for i in (0, 1)
    )
    names = []
    for stream in streams:
        name = f"worker {stream[2]}" if len(stream) > 1 else "training process"
        if several_loaders and len(stream) > 1:
            name = f"loader {stream[1]} · {name}"
        if several_ranks:
            name = f"rank {stream[0]} · {name}"
        names.append(f"{name} (simulated)" if simulated else name)
    return names
