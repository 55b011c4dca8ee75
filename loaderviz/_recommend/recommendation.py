"""The ``Recommendation``: settings, and what supports them. Holds data, draws nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loaderviz._upward import ask_above
from loaderviz.text import PRINTED_WIDTH, count, percent, rate, wrapped

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
            pinning, sampler, step or start, and what that means here. Where a measurement shows it,
            also shared (samples wait for one another), memory, CPU quota or other processes.
        notes: what else to know, a sentence or two each.
        memory_bytes: memory that the workers and the batches in flight take; None: not known.
        shm_bytes: the part of it in ``/dev/shm``; None: not known.
        uncertainty: how far off predicted throughputs may be, as a part of them (0.1: by 10 %), if
            samples of more workers than were recorded do not wait for one another.
        candidates: a row for each setting that was tried, best first: the settings,
            ``samples_per_s`` as predicted for all epochs, with the start of workers where the
            length of an epoch is known; ``low_per_s`` and ``high_per_s``, its uncertainty, where
            the low one allows for samples that may wait for one another;
            ``steady_per_s``, without the start; ``wait_s``, seconds a batch in ``next()``, and
            ``wait_share``, that as a part of the consumer's time; ``run_s``, seconds of all epochs
            (NaN: not known); ``cpus`` kept busy; ``memory_bytes``, ``shm_bytes`` (NaN: not known);
            ``fits``, whether that is free; ``measured_per_s`` (NaN: not measured) and ``error`` of
            the prediction against it; ``present`` and ``recommended``, true in one row at most.
        cpu_allowance: CPUs that the loader may use.
        trace: the recording that the predictions rest on.
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
        n_delivered = int(self.trace.batches["delivered_s"].notna().sum())
        source = "simulated" if self.trace.meta.get("simulated") else "recorded"
        measured = int(self.candidates["measured_per_s"].notna().sum())
        parts = [
            f"predicted from {count(n_delivered, f'{source} batch', f'{source} batches')}",
            f"{count(measured, 'setting')} measured" if measured else self._uncertain(),
            count(self.cpu_allowance, "CPU"),
        ]
        return " · ".join(parts)

    def _uncertain(self) -> str:
        """How uncertain the recommended setting's prediction is: its range, if that is lopsided."""
        row = self.candidates[self.candidates["recommended"]].iloc[0]
        if row["low_per_s"] >= row["samples_per_s"] / (1 + 2 * self.uncertainty):
            return f"± {percent(self.uncertainty)}"
        return f"{rate(row['low_per_s'])} to {rate(row['high_per_s'])} samples/s"

    def figure(self, *, theme: Any = "light") -> Any:
        """Draw the throughput by the number of workers, predicted and, where it was, measured.

        Args:
            theme: text and grid for a ``light`` or a ``dark`` page.

        Raises:
            LoaderVizError: for an unknown theme.
        """
        return ask_above("figure of a recommendation", self, theme)

    def __str__(self) -> str:
        call, mark, comment = self.code.partition("  # ")
        code = wrapped(call, hanging=call.index("(") + 1)
        if len(code.splitlines()[-1] + mark + comment) > PRINTED_WIDTH:
            mark = f"\n{mark.strip()} "  # a broken comment could not be pasted
        above, below = [f"{self.verdict}.", self.numbers], [f"Limit: {self.limits}.", *self.notes]
        return "\n".join([*map(wrapped, above), code + mark + comment, *map(wrapped, below)])

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        """Show the words and the figure at the end of a notebook cell."""
        print(self)
        self.figure()._ipython_display_()
