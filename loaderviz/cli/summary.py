"""``loaderviz summary``: says what limits a recorded run, and where the loop's waiting went."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loaderviz.cli.shared_options import AsJson, TracePath, exit_in_part, print_json, terminal
from loaderviz.text import count, duration, percent, printable
from loaderviz.trace import load
from loaderviz.why.causes.cause_texts import LEAST_SHARE, cause_rows, first_causes, saves_text
from loaderviz.why.summary import Summary

MOST_LINES = 24  # of the first screen
SAVINGS = "Savings: the loop, replayed without that cause."


def summary(
    trace_path: TracePath,
    everything: Annotated[
        bool, typer.Option("--all", help="Tell of all loaders, and of all causes of waiting.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what limits a recorded run, and where its waiting went.

    A loader that is made anew at one line of code is one. What is said fits one screen, three
    causes at most; --all has the rest.
    """
    result = load(trace_path).summary()
    if as_json:
        causes = result.causes.to_dict("records")
        numbers = {**result.as_dict(), "wait_share": result.wait_share}
        print_json({"verdict": result.verdict, **numbers, "causes": causes})
    else:
        told, rows = printable(result).splitlines(), cause_rows(result)
        if everything:
            _print_all(result, told, rows, terminal())
        else:
            _print_first_screen(result, told, rows, trace_path, terminal())
    exit_in_part(result.failed_parts)


def _print_all(
    result: Summary, told: list[str], rows: list[dict[str, Any]], console: Console
) -> None:
    """``told``: what ``print`` says of the summary."""
    for line in told:
        typer.echo(line)
    of_others = [f"{printable(share)}." for share in result.loaders]
    for line in of_others if len(of_others) > 1 else []:
        if line not in told:
            typer.echo(line)
    if rows:
        console.print(_table(rows, a_rank=result.n_ranks > 1))
        console.print(Text(SAVINGS, "dim"))
        for row in rows:
            if row["share"] >= LEAST_SHARE:
                console.print(_cure(row, named=True))


def _print_first_screen(
    result: Summary,
    told: list[str],
    rows: list[dict[str, Any]],
    trace_path: Path,
    console: Console,
) -> None:
    """What matters most, and what to type next, in ``MOST_LINES`` lines of the terminal."""
    first = _named_in_short(first_causes(rows))
    path = printable(shlex.quote(str(trace_path)))
    rest_s = sum(row["seconds"] for row in rows) - sum(row["seconds"] for row in first)
    further = [f"--all lists {count(len(rows) - len(first), 'more cause')}, {duration(rest_s)}"]
    further = further if len(rows) > len(first) else []
    if result.n_batches:
        further.append(f"loaderviz report {path} draws the run")
        if result.waits_are_seen:
            further.append(f"loaderviz recommend {path} names settings")
    last = [f"{SAVINGS} " * bool(first) + "; ".join(further) + "."] if further else []
    below: list[Any] = [Text(line, "dim") for line in last]
    table = [_table(first, a_rank=result.n_ranks > 1, screen=True)] if first else []
    named = len({row["loader_name"] for row in first}) > 1
    cures = [_cure(row, named=named) for row in first]

    def height(parts: Iterable[Any]) -> int:
        return sum(len(console.render_lines(each, pad=False)) for each in parts)

    def fitting(parts: Sequence[Any], room: int) -> int:
        """How many of them fit."""
        return next((n for n in range(len(parts), 0, -1) if height(parts[:n]) <= room), 0)

    room = MOST_LINES - height([*table, *below])
    lines = [Text(line) for line in told]
    # Where a terminal is narrow, what to change comes before further notes.
    n_lines = max(1, fitting(lines, room - height(cures[:1])))
    for line in told[:n_lines]:
        typer.echo(line)
    n_cures = fitting(cures, room - height(lines[:n_lines]))
    for each in [*table, *cures[:n_cures], *below]:
        console.print(each)


def _named_in_short(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, with the class of a loader's dataset for its name where that is enough."""
    names = {row["loader_name"] for row in rows}
    short = {name: name.split(" (")[0] for name in names if name}
    if len({*short.values()}) < len(short):
        return rows
    return [{**row, "loader_name": short.get(row["loader_name"])} for row in rows]


def _table(rows: list[dict[str, Any]], *, a_rank: bool, screen: bool = False) -> Table:
    """A row for each cause; ``screen``: as one of few, with no more lines than it needs."""
    names = {row["loader_name"]: None for row in rows}
    of_loaders = any(names)
    title = "Where the wait went"
    if screen and len(names) == 1 and of_loaders:
        title, of_loaders = f"{title}: {printable(*names)}", False
    table = Table(title=Text(title, "italic"), title_justify="left")
    if screen:
        table.box, table.show_edge = box.SIMPLE_HEAD, False
    table.add_column("cause")
    if of_loaders:
        table.add_column("loader")
    of_epochs = any(not math.isnan(row["epoch_saves_s"]) for row in rows)
    headings = ["waited a rank" if a_rank else "waited", "of the run", "cutting it saves"]
    for heading in headings + ["per whole epoch"] * of_epochs:
        table.add_column(heading, justify="right")
    for row in rows:
        seconds, share = duration(row["seconds"]), percent(row["share"])
        whose = [Text(printable(row["loader_name"]))] if of_loaders else []
        saves = [saves_text(row["saves_s"]), saves_text(row["epoch_saves_s"])][: 1 + of_epochs]
        table.add_row(row["name"], *whose, seconds, share, *saves)
    return table


def _cure(row: dict[str, Any], *, named: bool) -> Text:
    """What shows a cause, and what cures it; ``named``: with the name of the loader."""
    name = f"{row['name']}, {row['loader_name']}" if named and row["loader_name"] else row["name"]
    return Text(printable(f"{name}: {row['evidence']}. {row['cure']}"))
