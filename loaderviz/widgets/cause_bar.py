"""The bar under the explorer's simulated timeline: steps, and what the waiting was due to."""

from __future__ import annotations

import html

from loaderviz.figures.results.causes_figure import COLOURS, SHAPES, STEPS_FILL
from loaderviz.text import duration, percent
from loaderviz.why.causes.cause_texts import cause_name, cause_phrase
from loaderviz.why.summary import Summary

HATCH = "repeating-linear-gradient(-45deg, #fff9 0 2px, #fff0 2px 6px)"


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
