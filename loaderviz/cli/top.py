"""``loaderviz top``: a run in progress, looked at from another shell."""

from __future__ import annotations

import dataclasses
import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live as Screen
from rich.table import Table
from rich.text import Text

from loaderviz.cli.shared_options import AsJson, print_json, printable, terminal
from loaderviz.errors import LoaderVizError
from loaderviz.text import MAIN_PROCESS, rate, size
from loaderviz.trace.analysis.verdict import NEVER_WAITS
from loaderviz.trace.recording.live_recording import WINDOW_S, Live, Now, WorkerNow

MOST_RANKS = 16  # on one screen: those that wait the most
BAR = 10  # characters


def top(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The folder that a run records into: of record(..., path=DIR), or of "
            "loaderviz run --out DIR.",
            show_default=False,
        ),
    ],
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="How often to look.", min=0.1)
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look for five seconds, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Watch a run in progress: who waits, which worker does what. Ends when the run does.

    With --json a line for each look.
    """
    watched = _Folder(folder)
    watched.look()
    console = terminal()
    if once:
        time.sleep(WINDOW_S)
    with Screen(console=console, auto_refresh=False) if not as_json else nullcontext() as screen:
        while True:
            found = watched.look()
            if screen is None:
                print_json([dataclasses.asdict(each) for each in found], indent=None)
            else:
                screen.update(_picture(found), refresh=True)
            if once or not any(each.running for each in found):
                return
            time.sleep(every)


class _Folder:
    """The recordings in a folder: itself one, or one of each rank."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives: dict[Path, Live] = {}
        self._last: dict[Path, Now] = {}

    def look(self) -> list[Now]:
        places = [self._folder]
        if not (self._folder / "meta.json").is_file():
            places = sorted(each.parent for each in self._folder.glob("*/meta.json"))
        for place in places:
            try:
                if place not in self._lives:
                    self._lives[place] = Live(place)
                self._last[place] = self._lives[place].look()
            except LoaderVizError:
                if place in self._last or len(places) > 1:  # it has just ended, or just begun
                    continue
                raise
        for place in set(self._last) - set(places):  # its recording has become one file
            self._last[place] = dataclasses.replace(self._last[place], running=False)
        if not self._last:
            raise LoaderVizError(
                f"{str(self._folder)!r} holds no recording that runs; loaderviz summary tells of "
                "one that has ended"
            )
        return sorted(self._last.values(), key=lambda each: (each.rank, each.name))


def _picture(found: list[Now]) -> Group:
    shown = found
    if len(found) > MOST_RANKS:
        shown = sorted(found, key=lambda each: -each.wait_share)[:MOST_RANKS]
    parts: list[Table | Text] = [_heading(found), _ranks(shown)]
    if len(found) > len(shown):
        parts.append(Text(f"the {len(shown)} of {len(found)} ranks that wait the most", "dim"))
    slowest = max(found, key=lambda each: each.wait_share)
    if slowest.workers:
        parts.append(_workers(slowest, several=len(found) > 1))
    problems = (f"{each.name}: {each.problem}" for each in found if each.problem)
    parts += [Text(printable(each), "red") for each in problems]
    return Group(*parts)


def _heading(found: list[Now]) -> Text:
    """The run as a whole, in one line."""
    running = sum(each.running for each in found)
    state = "running" if running else "ended"
    if 0 < running < len(found):
        state = f"{running} of {len(found)} ranks running"
    pace = sum(each.samples_per_s for each in found)
    label = f" {printable(found[0].label)}" if found[0].label else ""
    return Text(
        f"loaderviz top{label} · {state} · {_clock(max(each.elapsed_s for each in found))} · "
        f"{rate(pace)} samples/s in the last {WINDOW_S:g} s"
    )


def _ranks(found: list[Now]) -> Table:
    """A row for each rank: how far it is, and how much its loop waits."""
    table = Table("rank", "epoch", "batches", "batches/s", "the loop waits", "", "lie ready")
    for each in found:
        waits = each.wait_share > NEVER_WAITS
        note = "ended" if not each.running else ""
        if each.waiting_s > 1:
            note = f"for {each.waiting_s:.0f} s now"
        table.add_row(
            str(each.rank),
            str(each.epoch),
            f"{each.n_batches:,}",
            rate(each.batches_per_s),
            Text(f"{_bar(each.wait_share)} {100 * each.wait_share:3.0f} %", "red" * waits),
            note,
            str(sum(worker.ready for worker in each.workers)),
        )
    return table


def _workers(found: Now, *, several: bool) -> Table:
    """A row for each worker of a rank: what it does now."""
    title = f"workers of rank {found.rank}" if several else None
    table = Table("worker", "busy", "does", "ready", "memory", title=title, title_justify="left")
    for each in found.workers:
        name = MAIN_PROCESS if each.worker < 0 else str(each.worker)
        memory = size(each.rss_bytes) if each.rss_bytes else ""
        busy = f"{_bar(each.busy_share)} {100 * each.busy_share:3.0f} %"
        table.add_row(name, busy, _does(each), str(each.ready), memory)
    return table


def _does(worker: WorkerNow) -> str:
    if math.isnan(worker.reading_s):
        return "waits for work"
    return "makes a batch" + (f" for {worker.reading_s:.0f} s" if worker.reading_s > 1 else "")


def _bar(share: float) -> str:
    full = round(BAR * share)
    return "█" * full + "░" * (BAR - full)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
