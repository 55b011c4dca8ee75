"""A trace on its way out: its batches as arrays, its times as those of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.export.perfetto.process_lanes import ProcessLanes
from loaderviz.trace.columns_of_rows import Table, arrays
from loaderviz.trace.parquet.columns import whole_ns

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace


@dataclass(frozen=True)
class TraceSource:
    """A trace, the lanes that its events go to, and how its times become those of the file.

    Times in the file are whole nanoseconds: those of the trace plus ``shift_ns``, rounded to a
    multiple of ``grid_ns``. Starts and ends are rounded alike, so that what nests still does.
    """

    trace: Trace
    lanes: ProcessLanes
    batches: Table
    shift_ns: int
    grid_ns: int

    @classmethod
    def from_trace(cls, trace: Trace, shift_ns: int, grid_ns: int) -> TraceSource:
        """The source for a trace; it has no lanes yet."""
        return cls(trace, ProcessLanes.from_trace(trace), arrays(trace.batches), shift_ns, grid_ns)

    def to_ns(self, seconds: Any) -> Any:
        """Times of the trace (float seconds, none NaN) as times of the file (int64 nanoseconds)."""
        ns = whole_ns(seconds).astype(np.int64) + self.shift_ns
        return (ns + self.grid_ns // 2) // self.grid_ns * self.grid_ns

    @property
    def has_flow(self) -> Any:
        """For each batch, whether it was seen both where it was made and where it went to."""
        was_made = ~np.isnan(self.batches["started_s"])
        return was_made & ~np.isnan(self.batches["requested_s"] + self.batches["delivered_s"])

    def flow_members(self, rows: Any, direction: str) -> Any:
        """For each of these rows, the JSON members that tie the slices of its batch together.

        ``direction``: the members that say whether the flow comes in or goes out. Empty for a batch
        without a flow. Returns a pyarrow array of texts, each with a comma before it.
        """
        import pyarrow as pa

        members = [
            f',"bind_id":"0x{row + 1:x}",{direction}' if has_flow else ""
            for row, has_flow in zip(rows.tolist(), self.has_flow[rows].tolist(), strict=True)
        ]
        return pa.array(members, pa.string())

    def batch_columns(self, rows: Any, *names: str) -> dict[str, Any]:
        """These columns of the batches in these rows."""
        return {name: self.batches[name][rows] for name in names}
