"""A trace on its way out: its batches as arrays, its times as those of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.columns_of_rows import Table, arrays
from loaderviz.trace.parquet.columns import whole_ns
from loaderviz.trace.perfetto.process_lanes import Places

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace


@dataclass(frozen=True)
class Source:
    """Times in the file are whole nanoseconds: those of the trace, and ``shift_ns`` more.

    They are rounded to a multiple of ``grid_ns``: starts and ends, so that what nests still does.
    """

    trace: Trace
    places: Places
    batches: Table
    shift_ns: int
    grid_ns: int

    @classmethod
    def of(cls, trace: Trace, shift_ns: int, grid_ns: int) -> Source:
        return cls(trace, Places.of(trace), arrays(trace.batches), shift_ns, grid_ns)

    def ns(self, seconds: Any) -> Any:
        ns = whole_ns(seconds).astype(np.int64) + self.shift_ns
        return (ns + self.grid_ns // 2) // self.grid_ns * self.grid_ns

    @property
    def seen(self) -> Any:
        """Whether each batch was seen where it was made and where it went to: it has a flow."""
        made = ~np.isnan(self.batches["started_s"])
        return made & ~np.isnan(self.batches["requested_s"] + self.batches["delivered_s"])

    def flow(self, rows: Any, way: str) -> Any:
        """JSON members that tie the slices of a batch together; of each of these rows."""
        import pyarrow as pa

        ties = [
            f',"bind_id":"0x{row + 1:x}",{way}' if has else ""
            for row, has in zip(rows.tolist(), self.seen[rows].tolist(), strict=True)
        ]
        return pa.array(ties, pa.string())

    def told(self, rows: Any, *columns: str) -> dict[str, Any]:
        return {column: self.batches[column][rows] for column in columns}
