"""Whether there is memory for work on all samples of a trace at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loaderviz import machine
from loaderviz.errors import LoaderVizError
from loaderviz.text import size

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

BYTES_PER_SAMPLE = 300  # measured: 250 to audit, or to export, a run of 6.4 million samples


def require_memory(trace: Trace, work: str) -> None:
    """Refuse ``work`` on all samples that would run out of memory, and be killed halfway.

    Args:
        trace: its samples are counted, not read.
        work: what is to be done, with its article, as the message of the error names it.

    Raises:
        LoaderVizError: where the work takes more memory than is free.
    """
    needed = BYTES_PER_SAMPLE * trace.n_sample_rows
    if needed > machine.memory_available_bytes():
        raise LoaderVizError(
            f"{work} of {trace.n_sample_rows:,} samples takes {size(needed)} of memory, "
            "more than is free; do it for the recordings of single ranks, or on a larger machine"
        )
