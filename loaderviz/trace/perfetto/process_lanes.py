"""Processes and lanes of an exported trace: their numbers, names and order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.trace.analysis.steps import groups
from loaderviz.trace.perfetto import event_writer

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

# Above every process and thread number of a system (Linux: 2**22 at most), so that lanes stay apart
# from the threads that another profiler saw in the same process.
MADE_UP: Final = 10_000_000
STREAM: Final = ("rank", "loader", "worker")


@dataclass(frozen=True)
class Places:
    """Consumers come first, a process for each rank; then the workers.

    Attributes:
        pids: of each process; made up where the real one is not known, or stands there already.
        names: of each process.
        consumer_of: for each row of the batches, its consumer's process.
        maker_of: for each row of the batches, the process that made it.
        worker_of: for each row of the workers, its process.
        ranks: those of the consumers, sorted.
    """

    pids: list[int]
    names: list[str]
    ranks: Any
    consumer_of: Any
    maker_of: Any
    worker_of: Any
    _lanes: dict[tuple[int, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace) -> Places:
        batches, workers = (
            {c: table[c].to_numpy() for c in (*STREAM, "started_s")}
            for table in (trace.batches, trace.workers)
        )
        every = [batches["rank"], workers["rank"], trace.spans["rank"].to_numpy()]
        ranks = np.unique(np.concatenate(every))
        main = trace.meta.get("pid", 0) if len(ranks) == 1 else 0
        pids = [main] * len(ranks)
        streams: list[tuple[int, ...]] = [(int(rank),) for rank in ranks]
        row_of, unseen = _worker_rows(batches, workers)
        pids += trace.workers["pid"].to_list() + [0] * len(unseen)
        streams += list(zip(*(workers[c].tolist() for c in STREAM), strict=True)) + unseen
        consumer = np.searchsorted(ranks, batches["rank"])
        return cls(
            pids=_distinct(pids),
            names=_names(streams, bool(trace.meta.get("simulated"))),
            ranks=ranks,
            consumer_of=consumer,
            maker_of=np.where(batches["worker"] < 0, consumer, len(ranks) + row_of),
            worker_of=len(ranks) + np.arange(len(workers["rank"])),
        )

    def lanes(self, process: Any, role: str, sublane: Any, loader: Any = None) -> Any:
        """For each slice the JSON members that say where it is."""
        import pyarrow as pa

        several = loader is not None and len(np.unique(loader)) > 1
        found, which = np.unique(
            np.stack([process, sublane, loader if several else 0 * process]),
            axis=1,
            return_inverse=True,
        )
        texts = []
        for each, number, of in found.T.tolist():
            name = f"loader {of} · {role}" if several else role
            texts.append(self.lane(each, f"{name} {number + 1}" if number else name))
        return pa.array(texts, pa.string()).take(pa.array(which.reshape(-1)))

    def lane(self, process: int, role: str) -> str:
        number = self._lanes.setdefault((process, role), MADE_UP + len(self._lanes) + 1)
        return f'"pid":{self.pids[process]},"tid":{number}'

    def process(self, which: Any) -> Any:
        """For each counter's value the JSON members that say of which process."""
        import pyarrow as pa

        return pa.array([f'"pid":{pid}' for pid in self.pids]).take(pa.array(which))

    def about(self) -> Iterator[bytes]:
        """The names and the order of all processes, and of the lanes that were asked for."""
        for i, (pid, name) in enumerate(zip(self.pids, self.names, strict=True)):
            place = f'"pid":{pid},"tid":0'
            yield event_writer.about("process_name", place, name=name)
            yield event_writer.about("process_sort_index", place, sort_index=i)
        for i, ((process, role), number) in enumerate(self._lanes.items()):
            place = f'"pid":{self.pids[process]},"tid":{number}'
            yield event_writer.about("thread_name", place, name=role)
            yield event_writer.about("thread_sort_index", place, sort_index=i)


def _worker_rows(batches: Any, workers: Any) -> tuple[Any, list[tuple[int, ...]]]:
    """For each batch the row of its worker: the last to be started before the batch was.

    Workers without a row, which were started before the recording, follow after the last one.
    """
    n = len(workers["worker"])
    code = groups(*(np.concatenate([workers[c], batches[c]]) for c in STREAM))
    begun = np.concatenate([np.nan_to_num(workers["started_s"], nan=-np.inf), batches["started_s"]])
    order = np.lexsort((np.arange(len(code)) >= n, begun, code))  # NaN, not made yet, is last
    is_worker = order < n
    # The place in ``order`` of the last worker so far, where it is one of the same stream.
    last = np.maximum.accumulate(np.where(is_worker, np.arange(len(order)), -1))
    seen = (last >= 0) & (code[order[last]] == code[order])
    found = np.full(len(code), -1)
    found[order[seen]] = order[last[seen]]
    row = found[n:]
    lost = np.flatnonzero((row < 0) & (batches["worker"] >= 0))
    _, first, which = np.unique(code[n:][lost], return_index=True, return_inverse=True)
    row[lost] = n + which.reshape(-1)
    unseen = [tuple(int(batches[c][lost[i]]) for c in STREAM) for i in first]
    return row, unseen


def _distinct(pids: list[Any]) -> list[int]:
    found: dict[int, None] = {}
    for i, pid in enumerate(pids):
        real = isinstance(pid, int) and 0 < pid < MADE_UP and pid not in found
        found[pid if real else MADE_UP + i + 1] = None
    return list(found)


def _names(streams: list[tuple[int, ...]], simulated: bool) -> list[str]:
    several = [len({each[i] for each in streams if len(each) > i}) > 1 for i in (0, 1)]
    names = []
    for stream in streams:
        name = f"worker {stream[2]}" if len(stream) > 1 else "training process"
        if several[1] and len(stream) > 1:
            name = f"loader {stream[1]} · {name}"
        if several[0]:
            name = f"rank {stream[0]} · {name}"
        names.append(f"{name} (simulated)" if simulated else name)
    return names
