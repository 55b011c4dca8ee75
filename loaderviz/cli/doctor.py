"""``loaderviz doctor``: the known pitfalls, looked for in one loader."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from loaderviz._doctor import doctor as examine
from loaderviz._doctor.findings import DoctorError
from loaderviz.cli.loader_target import Target, chatter_to_stderr, loader_of
from loaderviz.cli.shared_options import FOUND, AsJson, print_json, printable


def doctor(
    target: Target,
    run: Annotated[
        bool, typer.Option("--run/--look", help="Run some epochs of the loader, or only look.")
    ] = True,
    budget_s: Annotated[
        float, typer.Option("--budget", metavar="SECONDS", help="How long it may take.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Look for the known pitfalls of data loading in a loader.

    Exit code: 0 nothing was found or only advice, 1 an error or a warning was found, 2 the loader
    could not be examined.
    """
    trouble = None
    with chatter_to_stderr():
        loader = loader_of(target)
        try:
            diagnosis = examine(loader, run=run, budget_s=budget_s)
        except DoctorError as error:
            diagnosis, trouble = error.partial, error
    if as_json:
        print_json({"verdict": diagnosis.verdict, **dataclasses.asdict(diagnosis)})
    elif trouble is None:
        typer.echo(printable(diagnosis))
    if trouble is not None:
        raise trouble
    if any(each.severity != "advice" for each in diagnosis):
        raise typer.Exit(FOUND)
