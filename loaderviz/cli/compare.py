"""``loaderviz compare``: what changed between two recorded runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from loaderviz._compare import Comparison
from loaderviz._compare import compare as side_by_side
from loaderviz._compare.compare import CAVEAT
from loaderviz.cli.shared_options import FOUND, AsJson, TracePath, print_json, printable, terminal
from loaderviz.trace import load

_STYLES = {"better": "green", "worse": "bold red"}


def compare(
    a: TracePath,
    b: TracePath,
    fail_if_slower: Annotated[
        bool, typer.Option("--fail-if-slower", help="Exit with 1 where B is slower for sure.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what changed from run A to run B, and whether it is more than noise."""
    found = side_by_side(load(a), load(b))
    if as_json:
        measures = found.measures.to_dict("records")
        print_json({"verdict": found.verdict, "settings": found.settings, "measures": measures})
    else:
        _print(found)
    if fail_if_slower and found.measures["change"].iloc[0] == "worse":
        raise typer.Exit(FOUND)


def _print(found: Comparison) -> None:
    console = terminal()
    console.print(Text(printable(f"{found.verdict}.")))
    if found.settings:
        table = Table("set otherwise", "A", "B")
        for name, (a, b) in found.settings.items():
            shown = (name, *("" if each is None else each for each in (a, b)))
            table.add_row(*(Text(printable(each)) for each in shown))
        console.print(table)
    table = Table("measured", "A", "B", "B to A (95 %)")
    for row in found.rows():
        said = Text(row["said"], _STYLES.get(row["change"], ""))
        table.add_row(row["measure"], row["shown_a"], row["shown_b"], said)
    console.print(table)
    console.print(Text(CAVEAT, "dim"))
