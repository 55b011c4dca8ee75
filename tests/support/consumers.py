"""Every reader of a trace that came from somewhere, and whether it survives: a case at a time.

A case is one damaged file and one reader, in a process of its own with limits of time and memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import random
import resource
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

import loaderviz as lv
from damage import damage, damage_profile
from loaderviz._compare import compare
from loaderviz._doctor import findings_of
from loaderviz.cli.check import check
from loaderviz.cli.export import _Format, export
from loaderviz.cli.shared_options import print_json
from loaderviz.cli.summary import summary
from loaderviz.cli.top import _screen_content, _WatchedFolder
from loaderviz.errors import LoaderVizError
from loaderviz.report import content_of
from loaderviz.report.render_page import page_of

LAYERS = ("bytes", "fields", "values")
MOST_CPU_S = 20.0
MOST_REAL_S = 120
MOST_BYTES = 1 << 30  # more than the process had before the case
ALLOWED = (LoaderVizError, typer.Exit)


def _top(path: Path) -> None:
    watched = _WatchedFolder(path)
    for _ in range(2):
        recordings = watched.look()
        screen = io.StringIO()
        Console(file=screen, width=120).print(_screen_content(recordings))
        assert "\x1b" not in screen.getvalue()
    print_json([dataclasses.asdict(recording) for recording in recordings])


def _compare(path: Path) -> None:
    trace = lv.load(path)
    str(compare(trace, trace))


def _load(path: Path) -> None:
    trace = lv.load(path)
    assert len(trace.samples) == trace.n_sample_rows
    for part in trace.sample_parts():
        len(part)


def export_beside(path: Path, originals: Path) -> None:
    """Give a profile to the reader of profiles."""
    trace = lv.load(originals / "saved.parquet")
    trace.to_perfetto(path.parent / "out.json", profile=path)


CONSUMERS: dict[str, Callable[[Path], object]] = {
    "load": _load,
    "summary": lambda path: str(lv.load(path).summary()),
    "causes": lambda path: summary(path),
    "report": lambda path: page_of(content_of(lv.load(path))),
    "compare": _compare,
    "check": lambda path: check(path, max_wait=0.05, exactly_once=True),
    "csv": lambda path: export(path, _Format.csv, path.parent / "csv"),
    "top": _top,
    "timeline": lambda path: lv.timeline(lv.load(path)).to_json(),
    "audit": lambda path: str(lv.audit(lv.load(path))),
    "recommend": lambda path: str(lv.recommend(lv.load(path))),
    "doctor": lambda path: findings_of(lv.load(path)),
    "perfetto": lambda path: export(path, _Format.perfetto, path.parent / "out.json"),
}


@dataclass(frozen=True)
class Outcome:
    """What became of one case: ``fault`` is empty where it went well or was refused."""

    seed: int
    layer: str
    consumer: str
    fault: str
    grown_bytes: int
    detail: str


def warm_up(originals: Path) -> None:
    """Let every reader import what it needs, once for all cases."""
    with contextlib.redirect_stdout(io.StringIO()):
        for name, consume in CONSUMERS.items():
            with contextlib.suppress(*ALLOWED):
                consume(originals / ("recording" if name == "top" else "saved.parquet"))
        export_beside(originals / "profile.json", originals)


def outcome_of(seed: int, originals: Path, folder: Path) -> Outcome:
    """Run the case of this number; ``folder`` is for its files."""
    noise = random.Random(seed)
    layer = LAYERS[seed % len(LAYERS)]
    consumer = [*CONSUMERS, "profile"][seed // len(LAYERS) % (len(CONSUMERS) + 1)]
    path = folder / str(seed)
    if consumer == "profile":
        damaged = damage_profile(originals, path, noise)
    else:
        damaged = damage(layer, originals, path, noise)
    output = folder / f"{seed}.txt"
    pid = os.fork()
    if not pid:
        _run(consumer, damaged, originals, output)
    _, status, usage = os.wait4(pid, 0)
    grown = max(1024 * usage.ru_maxrss - _rss_bytes(), 0)
    detail = output.read_text(errors="replace") if output.exists() else ""
    fault = ""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        fault = "hang" if number in (signal.SIGALRM, signal.SIGPROF) else f"signal {number}"
    elif os.WEXITSTATUS(status):
        fault = detail.strip().splitlines()[-1].split(":")[0] if detail else "exit"
    elif grown > MOST_BYTES:
        fault = "memory"
    return Outcome(seed, layer, consumer, fault, grown, detail)


def _run(consumer: str, path: Path, originals: Path, output: Path) -> None:
    """In a child: never returns."""
    code = 1
    try:
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
        signal.alarm(MOST_REAL_S)
        with open("/proc/self/statm") as file:  # noqa: PTH123
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + 2 * MOST_BYTES, -1))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                if consumer == "profile":
                    export_beside(path, originals)
                else:
                    CONSUMERS[consumer](path)
            except ALLOWED as error:
                print(error if isinstance(error, LoaderVizError) else "")
        assert not set(printed.getvalue()) & set("\x1b\x07\x08"), "control characters"
        code = 0
    except BaseException:
        output.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _rss_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * resource.getpagesize()
