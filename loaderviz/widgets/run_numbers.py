"""What the explorer says of runs in HTML: their numbers, and where a simulated run's time went."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np

from loaderviz.figures.results.causes_figure import COLOURS, SHAPES, STEPS_FILL
from loaderviz.text import change, count, duration, percent, rate, size
from loaderviz.trace import Trace
from loaderviz.why.causes.cause_texts import cause_name, cause_phrase
from loaderviz.why.summary import Summary

COLUMNS = (
    ("epoch", "from iter() to the end of the last step, of one epoch"),
    ("samples/s, once it runs", "from the first batch on"),
    ("model waits", "in next(), and while the workers start"),
    ("delivered twice", "samples that came more than once in an epoch"),
    ("most in flight", "batches that are being made, are ready, or are in their step"),
)
HATCH = "repeating-linear-gradient(-45deg, #fff9 0 2px, #fff0 2px 6px)"
LEAST_CHANGE = 0.02  # a smaller relative change is shown as none


@dataclass(frozen=True)
class RunNumbers:
    """The numbers of one run; times are in seconds of one epoch, averaged over all."""

    epoch_s: float
    samples_per_s: float
    wait_s: float
    n_repeated: int | None  # samples that came more than once in an epoch; None if not known
    in_flight: int  # the most batches at once
    in_flight_bytes: float | None  # None if not known

    @classmethod
    def of(cls, trace: Trace, summary: Summary, *, n_repeated: int | None) -> RunNumbers:
        """The numbers of a recorded or simulated run; ``n_repeated`` is counted elsewhere."""
        n_epochs = max(1, summary.epochs)
        in_flight = _most_in_flight(trace)
        batch_bytes = float(trace.batches["n_bytes"].max())
        return cls(
            epoch_s=summary.elapsed_s / n_epochs,
            samples_per_s=summary.samples_per_s,
            wait_s=(summary.elapsed_s - summary.step_s) / n_epochs,
            n_repeated=n_repeated,
            in_flight=in_flight,
            in_flight_bytes=None if np.isnan(batch_bytes) else in_flight * batch_bytes,
        )


def _most_in_flight(trace: Trace) -> int:
    """The most batches that were in memory at once, including those that are being made."""
    held = trace.batches[trace.batches["started_s"].notna()]
    until = held[["ready_s", "delivered_s", "released_s"]].max(axis=1)  # skips what is missing
    until = until.where(held["delivered_s"].notna(), np.inf)
    starts, ends = np.sort(held["started_s"].to_numpy()), np.sort(until.to_numpy())
    if not len(starts):
        return 0
    ended = np.searchsorted(ends, starts, side="right")
    return int((np.arange(1, len(starts) + 1) - ended).max())


def numbers_table(rows: dict[str, RunNumbers | None]) -> str:
    """One row for each run, in HTML, each with its change from the one named ``pinned``."""
    if not any(rows.values()):
        return ""
    head = "".join(f"<th title='{html.escape(why)}'>{name}</th>" for name, why in COLUMNS)
    pinned = rows.get("pinned")
    body = "".join(
        f"<tr class='loaderviz-{name.split()[0]}'><th>{html.escape(name)}</th>"
        f"{_cells(numbers, None if name == 'pinned' else pinned)}</tr>"
        for name, numbers in rows.items()
        if numbers is not None
    )
    rows_text = f"<tr><td></td>{head}</tr>{body}"
    return (
        f"<div style='overflow-x: auto'><table class='loaderviz-numbers'>{rows_text}</table></div>"
    )


def _cells(numbers: RunNumbers, pinned: RunNumbers | None) -> str:
    """One run's cells, each with its change from the pinned run."""
    in_flight = count(numbers.in_flight, "batch", "batches")
    if numbers.in_flight_bytes is not None:
        in_flight = f"{numbers.in_flight} ({size(numbers.in_flight_bytes)})"
    repeated = "?" if numbers.n_repeated is None else f"{numbers.n_repeated:,}"
    changes = [
        "" if pinned is None else _change(getattr(numbers, name), getattr(pinned, name))
        for name in ("epoch_s", "samples_per_s", "wait_s", "in_flight")
    ]
    bad = " class='loaderviz-bad'" if numbers.n_repeated else ""
    return (
        f"<td><b>{duration(numbers.epoch_s)}</b>{changes[0]}</td>"
        f"<td><b>{rate(numbers.samples_per_s)}</b>{changes[1]}</td>"
        f"<td><b>{duration(numbers.wait_s)}</b>{changes[2]}</td><td{bad}><b>{repeated}</b></td>"
        f"<td><b>{in_flight}</b>{changes[3]}</td>"
    )


def _change(value: float, pinned: float) -> str:
    """How far a value is from that of the pinned run; empty where that was 0."""
    if not pinned:
        return ""
    relative = value / pinned - 1
    if abs(relative) < LEAST_CHANGE:
        return "&nbsp;<small>=</small>"
    if relative >= 1:
        return f" <small>{value / pinned:.1f}×</small>"
    return f" <small>{change(relative)}</small>"


def cause_bar(summary: Summary, *, cpus_full: bool = False) -> str:
    """Where the time of a simulated run went, in HTML; what a cut would save is not looked into.

    Where workers stand in line for CPUs, it says that only a real run tells how they share them.
    """
    waited_s, step_s = summary.seconds_by_cause, summary.step_s
    total_s = step_s + sum(waited_s.values())
    if not waited_s or not total_s:
        return ""
    causes = sorted(waited_s, key=lambda cause: -waited_s[cause])
    parts = [("steps", step_s, STEPS_FILL, "The model works")]
    parts += [
        (cause_name(cause), waited_s[cause], _fill(cause), cause_phrase(cause)) for cause in causes
    ]
    spans = "".join(
        f"<span title='{html.escape(phrase)}' style='flex-grow: {seconds / total_s:.5f}; "
        f"background: {fill}'></span>"
        for _, seconds, fill, phrase in parts
    )
    legend = "".join(
        f"<li title='{html.escape(phrase)}'><i style='background: {fill}'></i>{name} "
        f"<b>{duration(seconds)}</b> {percent(seconds / total_s)}</li>"
        for name, seconds, fill, phrase in parts
    )
    title = "Where the time went, simulated"
    if cpus_full:
        title += ". The CPUs are full: how well they are shared, only <i>Run for real</i> tells"
    return (
        f"<div class='loaderviz-causes'><div>{title}</div>"
        f"<div class='loaderviz-cause-bar' aria-hidden='true'>{spans}</div><ul>{legend}</ul></div>"
    )


def _fill(cause: str) -> str:
    """A CSS background with the cause's colour and pattern."""
    return f"{HATCH}, {COLOURS[cause]}" if SHAPES[cause] else COLOURS[cause]
