"""``loaderviz summary``: what limits a recorded run."""

from __future__ import annotations

import dataclasses

import typer

from loaderviz.cli.shared_options import AsJson, TracePath, print_json, printable
from loaderviz.trace import load


def summary(trace: TracePath, as_json: AsJson = False) -> None:
    """Say in two lines what limits a recorded run."""
    found = load(trace).summary()
    if as_json:
        numbers = dataclasses.asdict(found)
        print_json({"verdict": found.verdict, **numbers, "wait_share": found.wait_share})
    else:
        typer.echo(printable(found))
