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

from loaderviz.cli.shared_options import MOST_SHOWN, AsJson, print_json, terminal
from loaderviz.errors import LoaderVizError
from loaderviz.text import MAIN_PROCESS, percent, printable, rate, size
from loaderviz.trace.recording.live_recording import (
    WINDOW_S,
    LiveRecording,
    RecordingNow,
    WorkerNow,
)
from loaderviz.why.verdict import NEVER_WAITS

GRACE_S = 2.0  # between the first file of a recording and the last that it takes to look at it
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
    once: Annotated[bool, typer.Option("--once", help="Watch five seconds, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Watch a run in progress: who waits, which worker does what.

    Waits for a run that has not begun, and ends when the run does.
    With --json it prints a line for each look.
    """
    watched = _WatchedFolder(folder)
    if not once:
        _wait_until_it_begins(watched, every)
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


def _wait_until_it_begins(watched: _WatchedFolder, every: float) -> None:
    """Return once something is recorded, or where the folder holds what is no recording."""
    said, begun = False, math.inf
    while not watched.has_recording() and time.monotonic() - begun < GRACE_S:
        if not watched.is_empty():  # a recording is being made, or something else is there
            begun = min(begun, time.monotonic())
        elif not said:
            said = True
            waits = f"waiting for a run that records into {watched.folder}; Ctrl-C ends this"
            terminal(stderr=True).print(Text(printable(waits)))
        time.sleep(min(every, GRACE_S / 4))


class _WatchedFolder:
    """The recordings in a folder, which is itself one or holds one for each rank."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lives: dict[Path, LiveRecording] = {}
        self._latest: dict[Path, RecordingNow] = {}

    def is_empty(self) -> bool:
        """Whether nothing is there yet, perhaps not even the folder."""
        return not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir()))

    def has_recording(self) -> bool:
        """Whether a recording has begun there."""
        return bool(self._recordings())

    def _recordings(self) -> list[Path]:
        if (self.folder / "meta.json").is_file():
            return [self.folder]
        return sorted(path.parent for path in self.folder.glob("*/meta.json"))

    def look(self) -> list[RecordingNow]:
        folders = self._recordings()
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
                f"{str(self.folder)!r} holds no recording that runs; loaderviz summary shows "
                "one that has ended"
            )
        return sorted(self._latest.values(), key=lambda now: (now.rank, now.name))


def _screen_content(recordings: list[RecordingNow]) -> Group:
    shown = recordings
    if len(recordings) > MOST_SHOWN:
        shown = sorted(recordings, key=_waits, reverse=True)[:MOST_SHOWN]
    parts: list[Table | Text] = [_heading(recordings), *_whole_run(recordings), _rank_table(shown)]
    if len(recordings) > len(shown):
        note = f"the {len(shown)} of {len(recordings)} ranks that wait the most"
        parts.append(Text(note, "dim"))
    slowest = max(recordings, key=_waits)
    if slowest.workers:
        parts.append(_worker_table(slowest, several=len(recordings) > 1))
    problems = (f"{now.name}: {now.problem}" for now in recordings if now.problem)
    parts += [Text(printable(problem), "red") for problem in problems]
    return Group(*parts)


def _waits(now: RecordingNow) -> float:
    return 0.0 if math.isnan(now.wait_share) else now.wait_share


def _heading(recordings: list[RecordingNow]) -> Text:
    """The run as a whole, in one line."""
    n_running = sum(now.running for now in recordings)
    state = "running" if n_running else "ended"
    if 0 < n_running < len(recordings):
        state = f"{n_running} of {len(recordings)} ranks running"
    pace = f"{rate(sum(now.samples_per_s for now in recordings))} samples/s"
    if any(math.isnan(now.samples_per_s) for now in recordings):  # nobody knows how many
        pace = f"{rate(sum(now.batches_per_s for now in recordings))} batches/s"
    label = f" {printable(recordings[0].label)}" if recordings[0].label else ""
    return Text(
        f"loaderviz top{label} · {state} · {_clock(max(now.elapsed_s for now in recordings))} · "
        f"{pace} in the last {WINDOW_S:g} s"
    )


def _whole_run(recordings: list[RecordingNow]) -> list[Text]:
    """Of recordings that are left on, what their windows and incidents say of all of the run."""
    told = [now for now in recordings if not math.isnan(now.run_wait_share)]
    if not told:
        return []
    worst = max(told, key=lambda now: now.run_wait_share)
    who = f"rank {worst.rank}" if len(recordings) > 1 else "the loop"
    lines = [Text(f"since its beginning {who} waits {percent(worst.run_wait_share)} of the time")]
    incidents = sorted(incident for now in told for incident in now.incidents)
    if incidents:
        n, (at_s, text) = len(incidents), incidents[-1]
        latest = "" if n == 1 else f"{n} incidents, the latest "
        lines.append(Text(printable(f"{latest}at {_clock(at_s)}: {text}"), "red"))
    return lines


def _rank_table(recordings: list[RecordingNow]) -> Table:
    """A row for each rank: how far it is, and how much its loop waits."""
    table = Table("rank", "epoch", "batches", "batches/s", "the loop waits", "state", "ready")
    for now in recordings:
        is_notable = now.wait_share > NEVER_WAITS
        waits = "not seen: a thread reads ahead"
        if not math.isnan(now.wait_share):
            waits = f"{_bar(now.wait_share)} {100 * now.wait_share:3.0f} %"
        state = "running" if now.running else "ended"
        if now.waiting_s > 1:
            state = f"waiting for {now.waiting_s:.0f} s"
        table.add_row(
            str(now.rank),
            str(now.epoch),
            f"{now.n_batches:,}",
            rate(now.batches_per_s),
            Text(waits, "red" * is_notable),
            state,
            str(sum(worker.ready for worker in now.workers)),
        )
    return table


def _worker_table(recording: RecordingNow, *, several: bool) -> Table:
    """A row for each worker of a rank: what it does now."""
    title = f"workers of rank {recording.rank}" if several else None
    shown = recording.workers
    if len(shown) > MOST_SHOWN:
        shown = tuple(sorted(shown, key=lambda worker: -worker.busy_share)[:MOST_SHOWN])
        busiest = f"the {MOST_SHOWN} busiest of {len(recording.workers):,} workers"
        title = f"{title}, {busiest}" if title else busiest
    of_loaders = len({worker.loader for worker in recording.workers}) > 1
    columns = ("worker", *(["loader"] * of_loaders), "busy", "does", "ready", "memory")
    table = Table(*columns, title=title, title_justify="left")
    for worker in shown:
        whose = [Text(printable(worker.loader))] * of_loaders
        name = MAIN_PROCESS if worker.worker < 0 else str(worker.worker)
        memory = size(worker.rss_bytes) if worker.rss_bytes else ""
        busy = f"{_bar(worker.busy_share)} {100 * worker.busy_share:3.0f} %"
        table.add_row(name, *whose, busy, _activity(worker), str(worker.ready), memory)
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
