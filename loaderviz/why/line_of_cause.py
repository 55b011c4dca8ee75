"""Which line of code a cause of waiting goes to, where lines were recorded.

Of slow samples, and of a worker's first ones that set something up, it is the line that takes more
time there than in the others, for as many samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

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
    "slow": "what slow samples take beyond others",
    "collate": "collating",
    "init": "setting up workers",
    "sampler": "drawing keys",
}


def line_named(summary: Summary, cause: str, loader: int) -> str:
    """The line that a cause goes to, as the end of a verdict; empty where no line was recorded."""
    trace = summary.trace
    if trace is None or cause not in PHASE_OF or not recorded(trace.meta):
        return ""
    line = line_of(summary, cause, [each for each in looked(trace) if each.loader == loader])
    if line is None:
        return ""
    return f"; {percent(line['share'])} of {what_of(cause)} goes to {line['file']}:{line['line']}"


def what_of(cause: str) -> str:
    """What the share of the line is of."""
    return WHAT["slow" if cause == "slow_samples" else PHASE_OF[cause]]


def line_of(summary: Summary, cause: str, seen: list[Looked]) -> dict[str, Any] | None:
    """The line that a cause goes to, of what was seen of a loader; None where none stands out."""
    assert summary.trace is not None
    phase = PHASES.index(PHASE_OF[cause])
    of_phase = [row for row in seen if row.phase == phase]
    if cause in summary.attribution[0].slow.rows:
        beyond = _beyond(summary, cause, [row for row in seen if PHASES[row.phase] == "read"])
        of_phase = beyond if cause == "slow_samples" else of_phase + beyond
    first = next(iter(rows_of(of_phase)), None)
    if first is None or first["share"] < NAMED or first["looks"] < FEWEST_LOOKS:
        return None
    return {**first, "share": min(first["share"], 1.0)}  # another line may take less than usual


def _beyond(summary: Summary, cause: str, reads: list[Looked]) -> list[Looked]:
    """What was seen of reading, with the seconds that slow samples take beyond as many others.

    ``reads`` are of one loader.
    """
    assert summary.trace is not None
    samples = summary.trace.samples
    loader, rank, worker, start_s = (
        samples[name].to_numpy() for name in ("loader", "rank", "worker", "start_s")
    )
    kind = np.zeros(len(samples), np.int8)  # 0: as most are
    for name, rows in summary.attribution[0].slow.rows.items():
        kind[rows] = 1 if name == cause else 2
    of_loader = np.flatnonzero((loader == (reads[0].loader if reads else -1)) & ~np.isnan(start_s))
    of_loader = of_loader[np.argsort(start_s[of_loader], kind="stable")]
    n_usual, n_slow, _ = np.bincount(kind[of_loader], minlength=3)
    if not n_usual or not n_slow:
        return []
    found = []
    for row in reads:
        own = of_loader[(rank[of_loader] == row.rank) & (worker[of_loader] == row.worker)]
        place = np.searchsorted(start_s[own], np.array(row.moments) / 1e6, side="right") - 1
        usual, slow, _ = np.bincount(kind[own[place[place >= 0]]], minlength=3).tolist()
        each_s = row.seconds / max(len(row.moments), 1)
        seconds = each_s * (slow - usual * n_slow / n_usual)
        found.append(row._replace(seconds=seconds, looks=slow))
    return found
