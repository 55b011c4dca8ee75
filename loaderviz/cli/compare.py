"""``loaderviz compare``: what changed between two recorded runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from loaderviz._compare import compare as compare_traces
from loaderviz.cli.shared_options import EXIT_FOUND, AsJson, TracePath, print_json, terminal
from loaderviz.trace import load


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
        terminal().print(Text(str(comparison)), soft_wrap=True)
    if fail_if_slower and comparison.measures["change"].iloc[0] == "worse":
        raise typer.Exit(EXIT_FOUND)
