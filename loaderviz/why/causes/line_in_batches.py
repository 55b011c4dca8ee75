"""How much of each batch goes to a line of code: one that runs in few samples is in few batches."""

from __future__ import annotations

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
        self._seen, self._n = seen, len(trace.batches)
        columns = ("loader", "rank", "worker", "started_s")
        loader, rank, worker, self._started_s = (trace.batches[name].to_numpy() for name in columns)
        self._rows: dict[tuple[int, int, int], Any] = {}
        for key in {(row.loader, row.rank, row.worker) for row in seen}:
            own = (loader == key[0]) & (rank == key[1]) & (worker == key[2])
            rows = np.flatnonzero(own & ~np.isnan(self._started_s))
            self._rows[key] = rows[np.argsort(self._started_s[rows], kind="stable")]
        self._seconds, self._looks = self._sums(seen)

    def _sums(self, seen: Sequence[Looked]) -> tuple[Floats, Floats]:
        """Of each batch the seconds in which it was seen, and how many looks that were."""
        seconds, looks = np.zeros(self._n), np.zeros(self._n)
        for row in seen:
            if not row.moments:
                continue
            rows = self._rows[row.loader, row.rank, row.worker]
            moments_s = np.array(row.moments) / 1e6
            place = np.searchsorted(self._started_s[rows], moments_s, side="right") - 1
            at = np.bincount(rows[place[place >= 0]], minlength=self._n) / len(row.moments)
            seconds += row.seconds * at
            looks += row.looks * at
        return seconds, looks

    def part_of(self, file: str, line: int) -> Floats:
        """Of each batch of the trace, the part of its making that goes to this line, 0 to 1.

        Looks are few, so that batches differ by chance, too: each is taken for as far from the mean
        as the looks show that they really differ, beyond what chance does (the random effects of
        DerSimonian and Laird, *Meta-analysis in clinical trials*, 1986).
        """
        own = [
            row
            for row in self._seen
            if (frame := innermost(row.stack)) and (frame.file, frame.line) == (file, line)
        ]
        whole_s = sum(row.seconds for row in self._seen)
        mean = min(sum(row.seconds for row in own) / whole_s, 1.0) if whole_s > 0 else 0.0
        parts = np.full(self._n, mean)
        seen = self._looks > 0
        looks, variance = self._looks[seen], mean * (1 - mean)
        if len(looks) < 2 or variance <= 0:
            return parts
        raw = self._sums(own)[0][seen] / self._seconds[seen]
        excess = (looks * (raw - mean) ** 2).sum() / variance - (len(looks) - 1)
        between = max(0.0, excess) * variance / (looks.sum() - (looks**2).sum() / looks.sum())
        parts[seen] = mean + between / (between + variance / looks) * (raw - mean)
        return parts
