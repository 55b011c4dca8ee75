"""How much of each batch goes to a line of code: one that runs in few samples is in few batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.lines_of_code import Looked, innermost

if TYPE_CHECKING:
    from loaderviz.array_types import Floats
    from loaderviz.trace import Trace


class LinesInBatches:
    """What was looked at while the batches of one loader were made, batch by batch.

    Args:
        trace: the recording.
        seen: what was seen of this loader in the phases that make batches.
    """

    def __init__(self, trace: Trace, seen: Sequence[Looked]) -> None:
        self._n = len(trace.batches)
        # Of each moment the batch, the row, and how many looks and seconds it stands for.
        self._at, self._row, self._looks, self._seconds = _moments(trace, seen)
        self._lines: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, row in enumerate(seen):
            if frame := innermost(row.stack):
                self._lines[frame.file, frame.line].append(number)
        self._whole_s = np.array([row.seconds for row in seen])

    def part_of(self, file: str, line: int) -> Floats:
        """Of each batch of the trace, the part of its making that goes to this line, 0 to 1.

        Looks are few, so that batches differ by chance, too: each is taken for as far from the mean
        as the looks show that they really differ, beyond what chance does (the random effects of
        DerSimonian and Laird, *Meta-analysis in clinical trials*, 1986).
        """
        own = self._lines[file, line]
        mean = self._whole_s[own].sum() / (self._whole_s.sum() or 1.0)
        parts, is_own = np.full(self._n, mean), np.isin(self._row, own)
        all_looks, all_s = (self._sum(each) for each in (self._looks, self._seconds))
        seen = all_looks > 0
        looks, variance = all_looks[seen], mean * (1 - mean)
        if len(looks) < 2 or variance <= 0:
            return parts
        raw = self._sum(self._seconds * is_own)[seen] / all_s[seen]
        excess = (looks * (raw - mean) ** 2).sum() / variance - (len(looks) - 1)
        between = max(0.0, excess) * variance / (looks.sum() - (looks**2).sum() / looks.sum())
        parts[seen] = mean + between / (between + variance / looks) * (raw - mean)
        return parts

    def _sum(self, values: Floats) -> Floats:
        """Of each batch the sum over the moments in it."""
        sums: Floats = np.bincount(self._at, values, self._n).astype(np.float64)
        return sums


def _moments(trace: Trace, seen: Sequence[Looked]) -> tuple[Any, Any, Floats, Floats]:
    """Of each moment its batch, the number of its row in ``seen``, its looks and its seconds."""
    columns = ("loader", "rank", "worker", "started_s")
    loader, rank, worker, started_s = (trace.batches[name].to_numpy() for name in columns)
    rows_of: dict[tuple[int, int, int], tuple[Any, Floats]] = {}
    for key in {(row.loader, row.rank, row.worker) for row in seen}:
        own = (loader == key[0]) & (rank == key[1]) & (worker == key[2])
        rows = np.flatnonzero(own & ~np.isnan(started_s))
        rows = rows[np.argsort(started_s[rows], kind="stable")]
        rows_of[key] = rows, started_s[rows]
    found = [(np.zeros(0, np.int64),) * 2 + (np.zeros(0),) * 2]
    for number, row in enumerate(seen):
        rows, begins_s = rows_of[row.loader, row.rank, row.worker]
        place = np.searchsorted(begins_s, np.array(row.moments) / 1e6, side="right") - 1
        at = rows[place[place >= 0]]
        each = [value / max(len(row.moments), 1) for value in (row.looks, row.seconds)]
        found.append((at, np.full(len(at), number), *(np.full(len(at), value) for value in each)))
    batches, numbers, looks, seconds = map(np.concatenate, zip(*found, strict=True))
    return batches, numbers, looks, seconds
