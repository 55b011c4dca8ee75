"""``loaderviz stuck``: says of a run that does not go on who holds it up, and why."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from loaderviz._stuck.examine_rank import LEAST_S
from loaderviz._stuck.examine_run import examine_run
from loaderviz._stuck.rank_now import CURES, RANKS, ProcessNow, RankNow
from loaderviz.cli.shared_options import EXIT_FOUND, MOST_SHOWN, AsJson, print_json, terminal
from loaderviz.text import printable, worker_name


def stuck(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The folder that the run records into: of record(..., path=DIR), or of "
            "loaderviz run --out DIR.",
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Say why a run does not go on: which worker, at which sample, since when.

    Run it beside the training, on the same machine and as the same user.
    It asks the processes that hold the run up for their Python stacks, by a
    signal (SIGURG), and the kernel for what they wait for. The run goes on
    as before. A run that goes on is not touched.

    Exit code: 0 nothing is stuck, 1 something is, 2 bad input, such as the
    folder of a run that has ended.
    """
    ranks = examine_run(folder)
    found = any(rank.stuck for rank in ranks)
    if as_json:
        print_json({"stuck": found, "ranks": [_as_dict(rank) for rank in ranks]})
    else:
        _print_ranks(terminal(), ranks)
    raise SystemExit(EXIT_FOUND if found else 0)


def _as_dict(rank: RankNow) -> dict[str, Any]:
    return {
        **dataclasses.asdict(rank),
        "sample": rank.sample if isinstance(rank.sample, int | str | None) else repr(rank.sample),
        "cure": CURES.get(rank.cause, "") if rank.stuck else "",
    }


def _print_ranks(console: Console, ranks: list[RankNow]) -> None:
    if not any(rank.stuck for rank in ranks):
        all_go_on = all(not rank.cause and rank.pause_s < LEAST_S for rank in ranks)
        is_known = "" if all_go_on else ", as far as is known"
        console.print(Text(f"Nothing is stuck{is_known}.", "bold"))
    # First those that hold others up.
    for n, rank in enumerate(sorted(ranks, key=lambda rank: (not rank.stuck, rank.cause == RANKS))):
        if n:
            console.print()
        name = f"rank {rank.rank} ({rank.name}): " if len(ranks) > 1 else ""
        heading = f"{name}stuck: {rank.cause}" if rank.stuck else f"{name}not stuck"
        if rank.stuck or len(ranks) > 1:
            console.print(Text(printable(heading), "bold"))
        console.print(Text(printable(rank.verdict)))
        if rank.processes:
            _print_processes(console, rank.processes)
        if rank.stuck and rank.cause in CURES:
            console.print(Text(f"What to do: {CURES[rank.cause]}"))


def _print_processes(console: Console, processes: tuple[ProcessNow, ...]) -> None:
    asked = [process for process in processes if process.kernel or process.stack]
    others = [process for process in processes if process not in asked]
    for process in asked:
        name = f"{worker_name(process.worker)} (pid {process.pid})"
        console.print(Text(printable(f"{name}: {process.kernel}")))
        for frame in process.stack[:MOST_SHOWN]:
            console.print(Text(printable(f"    {frame}"), "dim"))
        if len(process.stack) > MOST_SHOWN:
            console.print(Text(f"    and {len(process.stack) - MOST_SHOWN} calls more", "dim"))
        if not process.stack:
            console.print(Text("    its Python stack is not known", "dim"))
    for process in others[:MOST_SHOWN]:
        name = f"{worker_name(process.worker)} (pid {process.pid})"
        console.print(Text(printable(f"{name} {process.does}")))
    if len(others) > MOST_SHOWN:
        console.print(Text(f"and {len(others) - MOST_SHOWN} workers more"))
