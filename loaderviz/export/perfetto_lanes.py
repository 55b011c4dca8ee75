"""Processes and lanes of an exported trace: their numbers, names and order; and its times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.export.chrome_events import metadata_event
from loaderviz.trace.columns_of_rows import Table, arrays
from loaderviz.trace.parquet.columns import whole_ns
from loaderviz.trace.steps import groups

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

# Above every process and thread number of a system (Linux: 2**22 at most), so that lanes stay apart
# from the threads that another profiler saw in the same process.
MADE_UP: Final = 10_000_000
STREAM: Final = ("rank", "loader", "worker")


@dataclass(frozen=True)
class Source:
    """A trace on its way out: its processes, the lanes in them that were asked for, and its times.

    Processes are numbered from 0. Consumers come first, one for each rank; then the workers. Times
    in the file are whole nanoseconds: those of the trace plus ``shift_ns``, rounded to a multiple
    of ``grid_ns``. Starts and ends are rounded alike, so that what nests still does.

    Attributes:
        trace: it.
        batches: its columns.
        pids: of each process; made up where the real one is unknown or another process has it.
        names: of each process.
        ranks: those of the consumers, sorted.
        consumer_of: for each row of the batches, the number of its consumer's process.
        maker_of: for each row of the batches, the number of the process that made it.
        worker_of: for each row of the workers, the number of its process.
    """

    trace: Trace
    batches: Table
    shift_ns: int
    grid_ns: int
    pids: list[int]
    names: list[str]
    ranks: Any
    consumer_of: Any
    maker_of: Any
    worker_of: Any
    _lanes: dict[tuple[int, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace, shift_ns: int, grid_ns: int) -> Source:
        """The source for a trace; it has no lanes yet."""
        batches, workers = arrays(trace.batches), arrays(trace.workers)
        all_ranks = [batches["rank"], workers["rank"], trace.spans["rank"].to_numpy()]
        ranks = np.unique(np.concatenate(all_ranks))
        main_pid = (trace.meta.get("pid") or 0) if len(ranks) == 1 else 0
        streams: list[tuple[int, ...]] = [(int(rank),) for rank in ranks]
        worker_rows, unlisted = _worker_rows(batches, workers)
        streams += list(zip(*(workers[c].tolist() for c in STREAM), strict=True)) + unlisted
        pids = [main_pid] * len(ranks) + workers["pid"].tolist() + [0] * len(unlisted)
        consumers = np.searchsorted(ranks, batches["rank"])
        return cls(
            trace=trace,
            batches=batches,
            shift_ns=shift_ns,
            grid_ns=grid_ns,
            pids=_distinct_pids(pids),
            names=_process_names(streams, bool(trace.meta.get("simulated"))),
            ranks=ranks,
            consumer_of=consumers,
            maker_of=np.where(batches["worker"] < 0, consumers, len(ranks) + worker_rows),
            worker_of=len(ranks) + np.arange(len(workers["rank"])),
        )

    def to_ns(self, seconds: Any) -> Any:
        """Times of the trace (float seconds, none NaN) as times of the file (int64 nanoseconds)."""
        ns = whole_ns(seconds).astype(np.int64) + self.shift_ns
        return (ns + self.grid_ns // 2) // self.grid_ns * self.grid_ns

    def readers_at(self, readers: Any, at_s: Any) -> Any:
        """The number of each reader's process at a time, in seconds; -1 where it is not known.

        ``readers``: int array of shape (n, 3), of rank, loader and worker.
        """
        rank, _, worker = readers.T
        of_streams = {**dict(zip(STREAM, readers.T, strict=True)), "started_s": at_s}
        row, _ = _worker_rows(of_streams, arrays(self.trace.workers))
        known = np.where(row < len(self.worker_of), len(self.ranks) + row, -1)
        return np.where(worker < 0, np.searchsorted(self.ranks, rank), known)

    def batch_columns(self, rows: Any, *names: str) -> dict[str, Any]:
        """These columns of the batches in these rows."""
        return {name: self.batches[name][rows] for name in names}

    def flow_members(self, rows: Any, direction: str) -> Any:
        """For each of these rows, the JSON members that tie the slices of its batch together.

        ``direction``: the members that say whether the flow comes in or goes out. Empty for a batch
        that was not seen both where it was made and where it went to. Returns a pyarrow array of
        texts, each with a comma before it.
        """
        import pyarrow as pa

        columns = self.batch_columns(rows, "started_s", "requested_s", "delivered_s")
        has_flow = ~np.isnan(sum(columns.values()))
        members = [
            f',"bind_id":"0x{row + 1:x}",{direction}' if flows else ""
            for row, flows in zip(rows.tolist(), has_flow.tolist(), strict=True)
        ]
        return pa.array(members, pa.string())

    def lane_locations(
        self, process: Any, role: str, start: Any, end: Any, loader: Any = None
    ) -> Any:
        """For each slice the JSON members that say in which lane it is, as a pyarrow array.

        Slices that overlap, and do not lie one inside the other, get lanes of their own.

        Args:
            process: int array, the number of each slice's process.
            role: what the lane shows, as its name says.
            start: int64 array, in ns.
            end: int64 array, in ns.
            loader: int array; where there are several loaders, each has lanes of its own.
        """
        import pyarrow as pa

        loader = 0 * process if loader is None else loader
        several = len(np.unique(loader)) > 1
        sublane = _sublanes(groups(process, loader), start, end)
        lanes, lane_of = np.unique(
            np.stack([process, sublane, loader if several else 0 * process]),
            axis=1,
            return_inverse=True,
        )
        locations = []
        for its_process, its_sublane, its_loader in lanes.T.tolist():
            name = f"loader {its_loader} · {role}" if several else role
            name = f"{name} {its_sublane + 1}" if its_sublane else name
            number = self._lanes.setdefault((its_process, name), MADE_UP + len(self._lanes) + 1)
            locations.append(f'"pid":{self.pids[its_process]},"tid":{number}')
        return pa.array(locations, pa.string()).take(pa.array(lane_of.reshape(-1)))

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


def _sublanes(lane: Any, start: Any, end: Any) -> Any:
    """For each slice the number of a sublane of its lane, mostly 0, in which all slices nest.

    A viewer draws a lane as a stack: a slice that begins inside another one and outlives it has no
    place there, and Perfetto leaves it out. Takes the slices' lanes, starts and ends as int arrays
    of shape (n,), and returns one.
    """
    numbers = np.zeros(len(start), np.int64)
    order = np.lexsort((-end, start, lane))
    same_lane = lane[order][1:] == lane[order][:-1]
    crowded = lane[order][1:][same_lane & (start[order][1:] < end[order][:-1])]
    for crowded_lane in np.unique(crowded):
        rows = order[lane[order] == crowded_lane]
        numbers[rows] = _stack_numbers(start[rows].tolist(), end[rows].tolist())
    return numbers


def _stack_numbers(starts: list[int], ends: list[int]) -> list[int]:
    """The number of the stack for each slice; they come sorted by start, the longer first."""
    stacks: list[list[int]] = []  # of each sublane, the ends of the slices that are open

    def place(start: int, end: int) -> int:
        for number, open_ends in enumerate(stacks):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if not open_ends or end <= open_ends[-1]:
                open_ends.append(end)
                return number
        stacks.append([end])
        return len(stacks) - 1

    return [place(start, end) for start, end in zip(starts, ends, strict=True)]


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
