"""``loaderviz lines``: prints the ten lines of code that took longest to read samples."""

from __future__ import annotations

import math
from typing import Any

import typer

from loaderviz.cli.shared_options import AsJson, TracePath, print_json
from loaderviz.errors import LoaderVizError
from loaderviz.text import duration, percent, printable
from loaderviz.trace import load
from loaderviz.trace.lines_of_code import HOW_TO_RECORD, recorded
from loaderviz.why.causes.costly_lines import costly_lines, known_cost, place_of, saves_words

BAR = 16  # characters
SAVES = "Saved: of an epoch, or of the run, replayed with the line half as long."
UNKNOWN = "Unknown where the CPUs are full, and beside reading and collating: only a run tells."


def lines(trace_path: TracePath, as_json: AsJson = False) -> None:
    """Print the ten lines of code that took longest to read samples.

    Of a recording with record(loader, lines=True) or loaderviz run --lines.
    Each is a line of your own, with the calls of other packages that it makes:
    how long it took, its share, what is saved if it takes half as long, where
    it is, and how much of it was no work of a CPU, where that is most of it.
    """
    summary = load(trace_path).summary()
    assert summary.trace is not None
    meta = summary.trace.meta
    if not recorded(meta):
        raise LoaderVizError(f"{str(trace_path)!r} has no lines of code: {HOW_TO_RECORD}")
    rows = costly_lines(summary)
    if as_json:
        print_json({"lines": rows, "not_seen": meta["lines"]["not_seen"]})
        return
    if rows:
        typer.echo(f"{'':<{BAR}} {'time':>8} {'share':>5}")
    for row in rows:
        typer.echo(_numbers(row))
        typer.echo(printable(f"    {place_of(row)}"))
        if words := known_cost(row):
            typer.echo(f"    {words}")
    typer.echo(SAVES if rows else "No look found a line: too little was read.")
    if any(math.isnan(row["half_saves"]) for row in rows):
        typer.echo(UNKNOWN)
    for why in meta["lines"]["not_seen"]:
        typer.echo(printable(f"Not looked at: {why}."))


def _numbers(row: dict[str, Any]) -> str:
    bar = "█" * max(1, round(BAR * row["share"]))
    off_cpu = _off_cpu(row)
    waiting = f", {percent(off_cpu)} of its time not on a CPU" if off_cpu > 0.5 else ""
    saved = f"half saves {saves_words(row['half_saves'])}"
    return (
        f"{bar:<{BAR}} {duration(row['seconds']):>8} {percent(row['share']):>5}  {saved}{waiting}"
    )


def _off_cpu(row: dict[str, Any]) -> float:
    return 1 - row["cpu_s"] / row["seconds"] if row["seconds"] > 0 else 0.0
