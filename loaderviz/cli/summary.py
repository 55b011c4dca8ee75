"""``loaderviz summary``: says what limits a recorded run, and where the loop's waiting went."""

from __future__ import annotations

import math
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from loaderviz._causes.cause_texts import cause_rows, saves_text
from loaderviz.cli.shared_options import AsJson, TracePath, exit_in_part, print_json, terminal
from loaderviz.text import duration, percent, printable
from loaderviz.trace import load

N_CURES = 3  # of the first causes


def summary(trace_path: TracePath, as_json: AsJson = False) -> None:
    """Say what limits a recorded run, and where its waiting went."""
    result = load(trace_path).summary()
    if as_json:
        causes = result.causes.to_dict("records")
        numbers = {**result.as_dict(), "wait_share": result.wait_share}
        print_json({"verdict": result.verdict, **numbers, "causes": causes})
    else:
        typer.echo(printable(result))
        if rows := cause_rows(result):
            _print_causes(rows, a_rank=result.n_ranks > 1)
    exit_in_part(result.failed_parts)


def _print_causes(rows: list[dict[str, Any]], *, a_rank: bool) -> None:
    """A table of all causes, and what shows and cures the first of them."""
    console = terminal()
    table = Table(title="Where the wait went", title_justify="left")
    table.add_column("cause")
    of_loaders = any(row["loader_name"] for row in rows)
    if of_loaders:
        table.add_column("loader")
    of_epochs = any(not math.isnan(row["epoch_saves_s"]) for row in rows)
    headings = ["waited a rank" if a_rank else "waited", "of the time", "cutting it saves"]
    for heading in headings + ["of a whole epoch"] * of_epochs:
        table.add_column(heading, justify="right")
    for row in rows:
        seconds, share = duration(row["seconds"]), percent(row["share"])
        whose = [Text(printable(row["loader_name"]))] if of_loaders else []
        saves = [saves_text(row["saves_s"]), saves_text(row["epoch_saves_s"])][: 1 + of_epochs]
        table.add_row(row["name"], *whose, seconds, share, *saves)
    console.print(table)
    console.print(Text("Savings: the loop, replayed without that cause.", "dim"))
    for row in rows[:N_CURES]:
        name = f"{row['name']}, {row['loader_name']}" if of_loaders else row["name"]
        console.print(Text(printable(f"{name}: {row['evidence']}. {row['cure']}")))
