"""``loaderviz top``: watches a run in progress, from another shell."""

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

from loaderviz.cli.shared_options import AsJson, print_json, terminal
from loaderviz.errors import LoaderVizError
from loaderviz.text import MAIN_PROCESS, printable, rate, size
from loaderviz.trace.analysis.verdict import NEVER_WAITS
from loaderviz.trace.recording.live_recording import (
    WINDOW_S,
    LiveRecording,
    RecordingNow,
    WorkerNow,
)

MOST_RANKS = 16  # on one screen: those that wait the most
BAR_WIDTH = 10  # characters


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
    watched = _WatchedFolder(folder)
    watched.look()  # raises at once where nothing is recorded there
    console = terminal()
    if once:
        time.sleep(WINDOW_S)
    with Screen(console=console, auto_refresh=False) if not as_json else nullcontext() as screen:
        while True:
            recordings = watched.look()
            if screen is None:
                print_json([dataclasses.asdict(now) for now in recordings], indent=None)
            else:
                screen.update(_screen_content(recordings), refresh=True)
            if once or not any(now.running for now in recordings):
                return
            time.sleep(every)


class _WatchedFolder:
    """The recordings in a folder, which is itself one or holds one for each rank."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives: dict[Path, LiveRecording] = {}
        self._latest: dict[Path, RecordingNow] = {}

    def look(self) -> list[RecordingNow]:
        folders = [self._folder]
        if not (self._folder / "meta.json").is_file():
            folders = sorted(path.parent for path in self._folder.glob("*/meta.json"))
        for folder in folders:
            try:
                if folder not in self._lives:
                    self._lives[folder] = LiveRecording(folder)
                self._latest[folder] = self._lives[folder].read_now()
            except LoaderVizError:
                if folder in self._latest or len(folders) > 1:  # it has just ended, or just begun
                    continue
                raise
        for folder in set(self._latest) - set(folders):  # its recording has become one file
            self._latest[folder] = dataclasses.replace(self._latest[folder], running=False)
        if not self._latest:
            raise LoaderVizError(
                f"{str(self._folder)!r} holds no recording that runs; loaderviz summary tells of "
                "one that has ended"
            )
        return sorted(self._latest.values(), key=lambda now: (now.rank, now.name))


def _screen_content(recordings: list[RecordingNow]) -> Group:
    shown = recordings
    if len(recordings) > MOST_RANKS:
        shown = sorted(recordings, key=lambda now: -now.wait_share)[:MOST_RANKS]
    parts: list[Table | Text] = [_heading(recordings), _rank_table(shown)]
    if len(recordings) > len(shown):
        note = f"the {len(shown)} of {len(recordings)} ranks that wait the most"
        parts.append(Text(note, "dim"))
    slowest = max(recordings, key=lambda now: now.wait_share)
    if slowest.workers:
        parts.append(_worker_table(slowest, several=len(recordings) > 1))
    problems = (f"{now.name}: {now.problem}" for now in recordings if now.problem)
    parts += [Text(printable(problem), "red") for problem in problems]
    return Group(*parts)


def _heading(recordings: list[RecordingNow]) -> Text:
    """The run as a whole, in one line."""
    n_running = sum(now.running for now in recordings)
    state = "running" if n_running else "ended"
    if 0 < n_running < len(recordings):
        state = f"{n_running} of {len(recordings)} ranks running"
    samples_per_s = sum(now.samples_per_s for now in recordings)
    label = f" {printable(recordings[0].label)}" if recordings[0].label else ""
    return Text(
        f"loaderviz top{label} · {state} · {_clock(max(now.elapsed_s for now in recordings))} · "
        f"{rate(samples_per_s)} samples/s in the last {WINDOW_S:g} s"
    )


def _rank_table(recordings: list[RecordingNow]) -> Table:
    """A row for each rank: how far it is, and how much its loop waits."""
    table = Table("rank", "epoch", "batches", "batches/s", "the loop waits", "", "lie ready")
    for now in recordings:
        is_notable = now.wait_share > NEVER_WAITS
        note = "ended" if not now.running else ""
        if now.waiting_s > 1:
            note = f"for {now.waiting_s:.0f} s now"
        table.add_row(
            str(now.rank),
            str(now.epoch),
            f"{now.n_batches:,}",
            rate(now.batches_per_s),
            Text(f"{_bar(now.wait_share)} {100 * now.wait_share:3.0f} %", "red" * is_notable),
            note,
            str(sum(worker.ready for worker in now.workers)),
        )
    return table


def _worker_table(recording: RecordingNow, *, several: bool) -> Table:
    """A row for each worker of a rank: what it does now."""
    title = f"workers of rank {recording.rank}" if several else None
    table = Table("worker", "busy", "does", "ready", "memory", title=title, title_justify="left")
    for worker in recording.workers:
        name = MAIN_PROCESS if worker.worker < 0 else str(worker.worker)
        memory = size(worker.rss_bytes) if worker.rss_bytes else ""
        busy = f"{_bar(worker.busy_share)} {100 * worker.busy_share:3.0f} %"
        table.add_row(name, busy, _activity(worker), str(worker.ready), memory)
    return table


def _activity(worker: WorkerNow) -> str:
    if math.isnan(worker.reading_s):
        return "waits for work"
    return "makes a batch" + (f" for {worker.reading_s:.0f} s" if worker.reading_s > 1 else "")


def _bar(share: float) -> str:
    n_full = round(BAR_WIDTH * share)
    return "█" * n_full + "░" * (BAR_WIDTH - n_full)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
