"""Which line of code a cause of waiting goes to, where lines were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loaderviz.text import percent
from loaderviz.trace.lines_of_code import PHASES, Looked, looked, recorded, rows_of

if TYPE_CHECKING:
    from loaderviz.why.summary import Summary

NAMED: Final = 0.1  # of its phase: less is not the line that a cause goes to
FEWEST_LOOKS: Final = 5  # that found it
PHASE_OF: Final = {
    **dict.fromkeys(("cpu", "workers", "main_process", "slow_samples"), "read"),
    **dict.fromkeys(("start", "restart"), "init"),
    "collate": "collate",
    "sampler": "sampler",
}
WHAT: Final = {
    "read": "reading",
    "collate": "collating",
    "init": "setting up workers",
    "sampler": "drawing keys",
}


def line_named(summary: Summary, cause: str, loader: int) -> str:
    """The line that a cause goes to, as the end of a verdict; empty where no line was recorded."""
    trace = summary.trace
    if trace is None or cause not in PHASE_OF or not recorded(trace.meta):
        return ""
    line = line_of(cause, [each for each in looked(trace) if each.loader == loader])
    if line is None:
        return ""
    share, phase = percent(line["share"]), WHAT[line["phase"]]
    return f"; {share} of {phase} goes to {line['file']}:{line['line']}"


def line_of(cause: str, seen: list[Looked]) -> dict[str, Any] | None:
    """The line that a cause goes to; of slow samples the one that takes longest in these."""
    phase = PHASES.index(PHASE_OF[cause])
    of_phase = [row for row in seen if row.phase == phase]
    if cause == "slow_samples":
        of_phase = [row._replace(seconds=row.slow_s) for row in of_phase]
    first = next(iter(rows_of(of_phase)), None)
    enough = first is not None and first["share"] >= NAMED and first["looks"] >= FEWEST_LOOKS
    return first if enough else None
