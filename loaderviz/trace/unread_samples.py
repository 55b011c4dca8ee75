"""The samples of a trace, which may stay in files until somebody asks for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace


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
