"""``loaderviz recommend``: names the DataLoader settings to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from loaderviz._recommend import Recommendation
from loaderviz._recommend import recommend as recommend_settings
from loaderviz.cli.loader_target import import_loader, stdout_to_stderr
from loaderviz.cli.shared_options import AsJson, print_json, terminal
from loaderviz.text import percent, printable, rate
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
        bool,
        typer.Option(help="Run a loader with its own and with the best settings, and compare."),
    ] = True,
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
        loader_or_trace = load(target) if Path(target).exists() else import_loader(target)
        recommendation = recommend_settings(loader_or_trace, verify=verify, **options)
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
    measured = candidates["measured_per_s"].notna()
    marked = candidates["recommended"] | candidates["present"] | measured
    n_workers = candidates["num_workers"]
    shown = candidates[marked | ~n_workers.isin(n_workers[marked])]
    shown = shown[marked[shown.index] | ~shown["num_workers"].duplicated()]
    columns = ("", "workers", "prefetch", "in order", "predicted", "measured", "waits")
    table = Table(*columns, title="Samples a second")
    for row in shown.sort_values("num_workers", kind="stable").to_dict("records"):
        prefetch = row["prefetch_factor"]
        table.add_row(
            "→ use" if row["recommended"] else "is now" if row["present"] else "",
            f"{row['num_workers']}",
            f"{prefetch:g}" if row["num_workers"] else "",
            "yes" if row["in_order"] else "no",
            rate(row["samples_per_s"]),
            rate(row["measured_per_s"]),
            percent(row["wait_share"]),
        )
    return table
