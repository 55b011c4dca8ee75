"""``loaderviz summary``: says what limits a recorded run."""

from __future__ import annotations

import typer

from loaderviz.cli.shared_options import AsJson, TracePath, print_json, printable
from loaderviz.trace import load


def summary(trace_path: TracePath, as_json: AsJson = False) -> None:
    """Say in two lines what limits a recorded run."""
    result = load(trace_path).summary()
    if as_json:
        numbers = result.as_dict()
        print_json({"verdict": result.verdict, **numbers, "wait_share": result.wait_share})
    else:
        typer.echo(printable(result))
