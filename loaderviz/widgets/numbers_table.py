"""The numbers beside the timeline: of the prediction, of the real run, and of a pinned one."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np

from loaderviz.text import change, count, duration, percent, rate, size
from loaderviz.trace import Trace

COLUMNS = (
    ("epoch", "from iter() to the end of the last step, of one epoch"),
    ("samples/s", "once the first batch is there"),
    ("model waits", "in next() and for the workers' start"),
    ("delivered twice", "samples that came more than once in an epoch"),
    ("most in flight", "batches that are being made, lie ready or are in their step"),
)
MUCH = 0.02  # less than that is no difference


@dataclass(frozen=True)
class Numbers:
    """Of one run. Times are in seconds, of one epoch."""

    epoch_s: float
    samples_per_s: float
    wait_s: float
    wait_share: float
    twice: int | None  # None where nobody knows
    in_flight: int  # batches
    in_flight_bytes: float | None  # None where they are not known

    @classmethod
    def of(cls, trace: Trace, *, twice: int | None) -> Numbers:
        summary = trace.summary()
        n_epochs = max(1, summary.epochs)
        in_flight = most_in_flight(trace)
        batch_bytes = float(trace.batches["n_bytes"].max())
        return cls(
            epoch_s=summary.elapsed_s / n_epochs,
            samples_per_s=summary.samples_per_s,
            wait_s=(summary.elapsed_s - summary.step_s) / n_epochs,
            wait_share=summary.wait_share,
            twice=twice,
            in_flight=in_flight,
            in_flight_bytes=None if np.isnan(batch_bytes) else in_flight * batch_bytes,
        )


def most_in_flight(trace: Trace) -> int:
    """The most batches that were held in memory at once, begun ones included."""
    held = trace.batches[trace.batches["started_s"].notna()]
    until = held[["ready_s", "delivered_s", "released_s"]].max(axis=1)  # skips what is missing
    until = until.where(held["delivered_s"].notna(), np.inf)
    starts, ends = np.sort(held["started_s"].to_numpy()), np.sort(until.to_numpy())
    if not len(starts):
        return 0
    ended = np.searchsorted(ends, starts, side="right")
    return int((np.arange(1, len(starts) + 1) - ended).max())


def table(rows: dict[str, Numbers | None], pinned: str = "pinned") -> str:
    """One row for each run, in HTML; the others say how far they are from the pinned one."""
    if not any(rows.values()):
        return ""
    head = "".join(f"<th title='{html.escape(why)}'>{name}</th>" for name, why in COLUMNS)
    base = rows.get(pinned)
    body = "".join(
        f"<tr class='loaderviz-{name.split()[0]}'><th>{html.escape(name)}</th>"
        f"{_cells(numbers, None if name == pinned else base)}</tr>"
        for name, numbers in rows.items()
        if numbers is not None
    )
    rows_text = f"<tr><td></td>{head}</tr>{body}"
    return (
        f"<div style='overflow-x: auto'><table class='loaderviz-numbers'>{rows_text}</table></div>"
    )


def _cells(numbers: Numbers, base: Numbers | None) -> str:
    """One run's cells, with how far each is from those of ``base``."""
    held = count(numbers.in_flight, "batch", "batches")
    if numbers.in_flight_bytes is not None:
        held = f"{numbers.in_flight} ({size(numbers.in_flight_bytes)})"
    waits = f"{percent(numbers.wait_share)} ({duration(numbers.wait_s)})"
    twice = "?" if numbers.twice is None else f"{numbers.twice:,}"
    if base is None:
        changes = ["", "", "", ""]
    else:
        changes = [
            _change(numbers.epoch_s, base.epoch_s),
            _change(numbers.samples_per_s, base.samples_per_s),
            _change(numbers.wait_s, base.wait_s),
            _change(numbers.in_flight, base.in_flight),
        ]
    bad = " class='loaderviz-bad'" if numbers.twice else ""
    return (
        f"<td>{duration(numbers.epoch_s)}{changes[0]}</td>"
        f"<td>{rate(numbers.samples_per_s)}{changes[1]}</td>"
        f"<td>{waits}{changes[2]}</td><td{bad}>{twice}</td><td>{held}{changes[3]}</td>"
    )


def _change(value: float, other: float) -> str:
    """Against the pinned run, where that says something."""
    if not other:
        return ""
    relative = value / other - 1
    if abs(relative) < MUCH:
        return " <small>=</small>"
    if relative >= 1:
        return f" <small>{value / other:.1f}×</small>"
    return f" <small>{change(relative)}</small>"
