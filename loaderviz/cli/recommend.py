"""``loaderviz recommend``: names the DataLoader settings to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from loaderviz._recommend import Recommendation
from loaderviz._recommend import recommend as recommend_settings
from loaderviz.cli.loader_target import import_loader, stdout_to_stderr
from loaderviz.cli.shared_options import AsJson, print_json, printable, terminal
from loaderviz.text import percent, rate
from loaderviz.trace import load


def recommend(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME|TRACE",
            help="A loader, as pkg.module:make_loader or train.py:make_loader, which is then run "
            "for a few seconds; or a recording, from which all is predicted.",
            show_default=False,
        ),
    ],
    step_s: Annotated[
        float | None,
        typer.Option("--step", metavar="SECONDS", help="What the model takes for a batch."),
    ] = None,
    epochs: Annotated[int, typer.Option(help="How often the loop goes through the loader.")] = 1,
    max_workers: Annotated[
        int | None, typer.Option(help="The most workers to try; without it, twice the CPUs.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run the best settings for real. Needs a loader.")
    ] = False,
    loader: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Of a recording of several loaders, which one: 0 is the first."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Name the DataLoader settings to use, with what each would bring."""
    options: dict[str, Any] = {
        "step_s": step_s,
        "epochs": epochs,
        "max_workers": max_workers,
        "loader": loader,
    }
    with stdout_to_stderr():
        if Path(target).exists():
            recommendation = recommend_settings(load(target), verify=verify, **options)
        else:
            recommendation = recommend_settings(import_loader(target), verify=verify, **options)
    if as_json:
        print_json(_as_data(recommendation))
    else:
        typer.echo(printable(recommendation))
        terminal().print(_table(recommendation))


def _as_data(recommendation: Recommendation) -> dict[str, Any]:
    names = ("verdict", "settings", "code", "limits", "notes", "memory_bytes", "shm_bytes")
    return {
        **{name: getattr(recommendation, name) for name in names},
        "uncertainty": recommendation.uncertainty,
        "candidates": recommendation.candidates.to_dict("records"),
    }


def _table(recommendation: Recommendation) -> Table:
    """The recommended and the present settings; of every other number of workers, the best."""
    candidates = recommendation.candidates
    marked = candidates["recommended"] | candidates["present"]
    n_workers = candidates["num_workers"]
    shown = candidates[marked | ~n_workers.isin(n_workers[marked])]
    shown = shown[shown["recommended"] | shown["present"] | ~shown["num_workers"].duplicated()]
    table = Table("", "workers", "prefetch", "in order", "samples/s", "waits", title="Predicted")
    for row in shown.sort_values("num_workers", kind="stable").to_dict("records"):
        prefetch = row["prefetch_factor"]
        table.add_row(
            "→ use" if row["recommended"] else "is now" if row["present"] else "",
            f"{row['num_workers']}",
            f"{prefetch:g}" if row["num_workers"] else "",
            "yes" if row["in_order"] else "no",
            rate(row["samples_per_s"]),
            percent(row["wait_share"]),
        )
    return table
