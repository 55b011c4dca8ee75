"""Every reader of a trace that came from somewhere."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import typer
from rich.console import Console

import loaderviz as lv
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
