"""``loaderviz recommend``: names the DataLoader settings to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from loaderviz._recommend import Recommendation
from loaderviz._recommend import recommend as recommend_settings
from loaderviz.cli.loader_target import (
    ScriptArgs,
    import_loader,
    script_arguments,
)
from loaderviz.cli.shared_options import AsJson, print_json, terminal
from loaderviz.text import percent, printable, rate
from loaderviz.trace import load


def recommend(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME|TRACE",
            help="A loader, as pkg.module:make_loader or train.py:make_loader, which is then run "
            "for half a minute at most; or a recording, which gives bounds.",
            show_default=False,
        ),
    ],
    args: ScriptArgs = None,
    step_s: Annotated[
        float | None,
        typer.Option("--step", metavar="SECONDS", help="Time the model takes for a batch."),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="How many epochs the loop runs; by default as many as a recording has."),
    ] = None,
    max_workers: Annotated[
        int | None, typer.Option(help="The most workers to try; by default twice the CPUs.")
    ] = None,
    budget_s: Annotated[
        float | None,
        typer.Option(
            "--budget", metavar="SECONDS", help="How long to run a loader in all; by default 30."
        ),
    ] = None,
    loader: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Which loader of a recording that has several; by default the one that is waited "
            "for most.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a loader with several settings, and name those to use.

    A script's own arguments come after two dashes: loaderviz recommend train.py:main -- --data DIR
    """
    options: dict[str, Any] = {
        "step_s": step_s,
        "epochs": epochs,
        "max_workers": max_workers,
        "loader": loader,
    }
    if budget_s is not None:
        options["budget_s"] = budget_s
    with script_arguments(target, args):
        loader_or_trace = load(target) if Path(target).exists() else import_loader(target)
        recommendation = recommend_settings(loader_or_trace, **options)
    if as_json:
        print_json(recommendation.data())
    else:
        typer.echo(printable(recommendation))
        terminal().print(_table(recommendation))


def _table(recommendation: Recommendation) -> Table:
    """What was measured, or the bounds, by the number of workers."""
    table = Table(
        *("", "workers", "prefetch", "in order", "measured", "between", "waits"),
        title="Samples a second",
    )
    rows = recommendation.candidates.sort_values("num_workers", kind="stable")
    for row in rows.to_dict("records"):
        prefetch = row["prefetch_factor"]
        table.add_row(
            "→ use" if row["recommended"] else "is now" if row["present"] else "",
            f"{row['num_workers']}",
            f"{prefetch:g}" if row["num_workers"] else "",
            "yes" if row["in_order"] else "no",
            rate(row["samples_per_s"]),
            f"{rate(row['low_per_s'])} – {rate(row['high_per_s'])}",
            percent(row["wait_share"]),
        )
    return table
