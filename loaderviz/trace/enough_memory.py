"""Whether there is memory for work on all samples of a trace at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loaderviz import machine
from loaderviz.errors import LoaderVizError
from loaderviz.text import size

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

BYTES_PER_SAMPLE = 300  # measured: 250 to audit, or to export, a run of 6.4 million samples


def need_room(trace: Trace, work: str) -> None:
    """Before ``work`` on all samples, which would otherwise be killed in the midst of it.

    Raises:
        LoaderVizError: where it takes more memory than is free.
    """
    needed = BYTES_PER_SAMPLE * trace.n_sample_rows
    if needed > machine.memory_available_bytes():
        raise LoaderVizError(
            f"{work} of {trace.n_sample_rows:,} samples takes {size(needed)} of memory, "
            "more than is free; do it for the recordings of single ranks, or on a larger machine"
        )
