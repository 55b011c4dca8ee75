"""The samples of a trace, which may stay in files until somebody asks, and need memory then."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, Self

from loaderviz import machine
from loaderviz.errors import LoaderVizError
from loaderviz.text import size

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

# That work on a sample takes; measured: 250 to audit, or to export, a run of 6.4 million samples.
BYTES_PER_SAMPLE: Final = 300


class UnreadSamples(ABC):
    """Samples in files; ``len`` says how many, without reading them.

    ``read`` and ``parts`` take the trace's batches.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, batches: pd.DataFrame) -> pd.DataFrame:
        """All of them, as one table."""

    @abstractmethod
    def parts(self, batches: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """All of them, as one table or more."""

    @abstractmethod
    def of_ranks(self, ranks: Collection[int]) -> Self:
        """The samples of these ranks, unread."""


class SamplesField:
    """The field ``Trace.samples``: a table, which is read when it is first asked for."""

    def __set__(self, trace: Trace, samples: pd.DataFrame | UnreadSamples) -> None:
        vars(trace)["samples"] = samples

    def __get__(self, trace: Trace | None, owner: type[Trace]) -> Any:
        if trace is None:
            return self
        samples = self.without_reading(trace)
        if isinstance(samples, UnreadSamples):
            samples = vars(trace)["samples"] = samples.read(trace.batches)
        return samples

    @staticmethod
    def without_reading(trace: Trace) -> pd.DataFrame | UnreadSamples:
        """What the trace holds: a table, or samples that were not read yet."""
        samples: pd.DataFrame | UnreadSamples = vars(trace)["samples"]
        return samples


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
