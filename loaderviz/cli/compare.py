"""``loaderviz compare``: what changed between two recorded runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from loaderviz._compare import Comparison
from loaderviz._compare import compare as compare_traces
from loaderviz._compare.compare import CAVEAT
from loaderviz.cli.shared_options import (
    EXIT_FOUND,
    AsJson,
    TracePath,
    print_json,
    terminal,
)
from loaderviz.text import printable
from loaderviz.trace import load

_STYLES = {"better": "green", "worse": "bold red"}


def compare(
    path_a: TracePath,
    path_b: TracePath,
    fail_if_slower: Annotated[
        bool, typer.Option("--fail-if-slower", help="Exit with 1 if B is certainly slower.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what changed from run A to run B, and whether it is more than noise."""
    comparison = compare_traces(load(path_a), load(path_b))
    if as_json:
        measures = comparison.measures.to_dict("records")
        print_json(
            {"verdict": comparison.verdict, "settings": comparison.settings, "measures": measures}
        )
    else:
        _print(comparison)
    if fail_if_slower and comparison.measures["change"].iloc[0] == "worse":
        raise typer.Exit(EXIT_FOUND)


def _print(comparison: Comparison) -> None:
    console = terminal()
    console.print(Text(printable(f"{comparison.verdict}.")))
    if comparison.settings:
        table = Table("settings that differ", "A", "B")
        for name, values in comparison.settings.items():
            cells = (name, *("" if value is None else value for value in values))
            table.add_row(*(Text(printable(cell)) for cell in cells))
        console.print(table)
    table = Table("measured", "A", "B", "B to A (95 %)")
    for row in comparison.rows():
        change = Text(row["said"], _STYLES.get(row["change"], ""))
        table.add_row(row["measure"], row["shown_a"], row["shown_b"], change)
    console.print(table)
    console.print(Text(CAVEAT, "dim"))
