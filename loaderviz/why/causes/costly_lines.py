"""The lines of code that cost most: what a shorter one saves, and which one a cause goes to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from loaderviz._explain import title_of
from loaderviz.text import percent
from loaderviz.trace.lines_of_code import HOW_TO_RECORD, PHASES, Looked, looked, recorded, rows_of
from loaderviz.why.causes.line_in_batches import LinesInBatches
from loaderviz.why.causes.savings import Replays
from loaderviz.why.line_of_cause import FEWEST_LOOKS, PHASE_OF, line_of, what_of

if TYPE_CHECKING:
    from loaderviz.why.summary import Summary

MAKING: Final = PHASES[:2]  # read and collate: of these a replay knows what they take
LEAST: Final = 0.01  # of what its loader was looked at: less is none of the lines that matter
MOST_LINES: Final = 10  # that are told of
NOTHING: Final = 0.005  # of the time: less is none
FULL: Final = 0.05  # of the time, waited for CPUs: what less computing saves then, no replay knows
# Pages of ``loaderviz explain``, parts of a line in small letters, and what it calls beside C.
KNOWN: Final = (
    ("line-iloc", (".iloc[",), "pandas/"),
    ("line-iloc", (".loc[",), "pandas/"),
    ("line-json", ("json.load",), "json/"),
    ("line-draft", ("image.open(", ".resize("), "PIL/"),
    ("line-tensor", ("torch.tensor(",), ""),
    ("line-float64", ("np.random.", ".astype(np.float32"), ""),
    ("line-sleep", ("time.sleep(",), ""),
    ("line-open", ("zipfile(",), "zipfile"),
    ("line-open", ("tarfile.open(",), "tarfile"),
    ("line-open", ("h5py.file(",), "h5py/"),
)


def known_cost(row: dict[str, Any]) -> str:
    """What a line costs that is known to cost much, in one sentence, and where more is said.

    Empty for any other, and for one that few looks have found, as what is done once.
    """
    line = row["source"].lower()
    for page, parts, calls in KNOWN:
        called = any(each.startswith(calls) for each in row["calls"]) is bool(calls)
        if called and row["looks"] >= FEWEST_LOOKS and all(part in line for part in parts):
            return f"{title_of(page)} (loaderviz explain {page})."
    return ""


def place_of(row: dict[str, Any]) -> str:
    """A line as it is named: "dataset.py:41  row = self.table.iloc[i]"."""
    return f"{row['file']}:{row['line']}  {row['source']}".strip()


def costly_lines(summary: Summary) -> list[dict[str, Any]]:
    """The rows of ``Trace.lines()`` that took longest, of each loader by itself.

    With ``loader``; and ``half_saves``, the part of a whole epoch, or of the run where there is no
    pace, that would be saved if the line took half as long, NaN where nobody can tell.
    """
    if summary.trace is None:
        return []
    seen = looked(summary.trace)
    saves = _halves(summary, seen)
    rows = [
        {
            **row,
            "loader": loader,
            "half_saves": saves(loader, row["phase"], row["file"], row["line"]),
        }
        for loader in sorted({row.loader for row in seen})
        for row in rows_of([row for row in seen if row.loader == loader])
        if row["share"] >= LEAST
    ]
    return sorted(rows, key=lambda row: -row["seconds"])[:MOST_LINES]


def saves_words(half_saves: float) -> str:
    """What half as long a line saves, in words."""
    if math.isnan(half_saves):
        return "unknown"
    return "nothing" if half_saves < NOTHING else percent(half_saves)


def name_lines(summary: Summary, rows: Sequence[dict[str, Any]]) -> None:
    """Add to the evidence of these causes which line they go to; to cures, what it is known for.

    Where lines were not recorded, one cure says how to record them.
    """
    trace = summary.trace
    if trace is None or trace.meta.get("simulated"):
        return
    of_lines = [row for row in rows if row["cause"] in PHASE_OF]
    if not recorded(trace.meta):
        for row in of_lines[:1]:
            if row["cure"]:
                row["cure"] += f" {HOW_TO_RECORD}."
        return
    seen = looked(trace)
    saves = _halves(summary, seen)
    for row in of_lines:
        cause, loader = row["cause"], row["loader"]
        line = line_of(summary, cause, [each for each in seen if each.loader == loader])
        if line is not None:
            row["evidence"] += f"; {percent(line['share'])} of {what_of(cause)} goes to "
            row["evidence"] += place_of(line)
            if row["cure"] and (words := known_cost(line)):
                row["cure"] += f" {words}"
            half = saves(loader, line["phase"], line["file"], line["line"])
            if not math.isnan(half):
                of_whole = f"{saves_words(half)} of {_whole(summary, loader)}"
                row["evidence"] += f" (half as long, it saves {of_whole})"


def _whole(summary: Summary, loader: int) -> str:
    pace = summary.pace_of(loader)
    return "the run" if pace is None or pace.epoch is None else "a whole epoch"


def _halves(summary: Summary, seen: list[Looked]) -> Any:
    """Of a loader, a phase and a line: which part is saved if it took half as long."""
    assert summary.trace is not None
    reading, attribution = summary.attribution
    replays = Replays.of(summary.trace, attribution, reading)
    are_full = summary.seconds_by_cause.get("cpu", 0.0) > FULL * summary.elapsed_s

    @cache
    def in_batches(loader: int) -> LinesInBatches:
        own = [row for row in seen if row.loader == loader and PHASES[row.phase] in MAKING]
        return LinesInBatches(replays.trace, own)

    @cache
    def saves(loader: int, phase: str, file: str, line: int) -> float:
        if phase not in MAKING or are_full:
            return math.nan
        pace = summary.pace_of(loader)
        epoch = replays.epoch(pace) if pace is not None else None
        return replays.shorter(epoch, loader, 0.5 * in_batches(loader).part_of(file, line))

    return saves
