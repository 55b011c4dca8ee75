"""The ``Recommendation``: settings, and what they rest on. Holds data, draws nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loaderviz._display import draw
from loaderviz.text import count, percent

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation:
    """Which settings a loader should have; ``print`` it, or end a notebook cell with it.

    Attributes:
        settings: ``num_workers, prefetch_factor, in_order, persistent_workers, pin_memory``, for
            ``DataLoader(dataset, **settings)``.
        code: the call, with what differs from torch's defaults.
        verdict: the main thing in one sentence.
        limits: what limits these settings: sample CPU, sample I/O, collate, transport, unpickling,
            step or start, and what that means here.
        notes: what else there is to know, a sentence or two each.
        memory_bytes: what the workers and the batches in flight take; None: not known.
        shm_bytes: the part of it that lies in ``/dev/shm``; None: not known.
        uncertainty: how far off predicted throughputs may be, as a part of them (0.1: by 10 %).
        candidates: a row for each setting that was tried, best first: the settings,
            ``samples_per_s`` as predicted for all epochs, start of workers included, where their
            length is known; ``low_per_s`` and ``high_per_s``, as uncertain as that is;
            ``steady_per_s``, without the start; ``wait_s`` a batch in ``next()``, and
            ``wait_share`` of the consumer's time; ``run_s`` of all epochs (NaN: not known);
            ``cpus`` kept busy; ``memory_bytes``, ``shm_bytes`` (NaN: not known); ``fits`` into
            what is free; ``measured_per_s`` (NaN: not measured) and ``error`` of the prediction
            against it; ``present`` and ``recommended``, true in one row at most.
        cpu_allowance: CPUs that the loader may use.
        trace: the recording that all of it rests on.
    """

    settings: dict[str, Any]
    code: str
    verdict: str
    limits: str
    notes: tuple[str, ...]
    memory_bytes: int | None
    shm_bytes: int | None
    uncertainty: float
    candidates: pd.DataFrame
    cpu_allowance: float
    trace: Trace

    @property
    def numbers(self) -> str:
        """What the verdict rests on, in one line."""
        came = int(self.trace.batches["delivered_s"].notna().sum())
        source = "simulated" if self.trace.meta.get("simulated") else "recorded"
        measured = int(self.candidates["measured_per_s"].notna().sum())
        parts = [
            f"predicted from {count(came, f'{source} batch', f'{source} batches')}",
            f"± {percent(self.uncertainty)}",
            f"{count(measured, 'setting')} measured" if measured else "",
            count(self.cpu_allowance, "CPU"),
        ]
        return " · ".join(filter(None, parts))

    def figure(self, *, theme: Any = "light") -> Any:
        """Draw the throughput by the number of workers, predicted and, where it was, measured.

        Args:
            theme: text and grid for a ``light`` or a ``dark`` page.

        Raises:
            LoaderVizError: for an unknown theme.
        """
        return draw("Recommendation", self, theme)

    def __str__(self) -> str:
        lines = [f"{self.verdict}.", self.numbers, self.code, f"Limit: {self.limits}.", *self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        """At the end of a notebook cell: the words and the figure."""
        print(self)
        self.figure()._ipython_display_()
