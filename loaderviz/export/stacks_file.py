"""The stacks in which samples were read, for other programs: speedscope's file, collapsed stacks.

- ``write_speedscope``: https://www.speedscope.app/file-format-schema.json, a profile per worker.
- ``write_collapsed``: a line per stack, its frames parted by ``;``, and microseconds: what
  flamegraph.pl, inferno and others read.
"""

from __future__ import annotations

import json
import os
from itertools import groupby
from typing import TYPE_CHECKING

from loaderviz.errors import LoaderVizError
from loaderviz.text import worker_name
from loaderviz.trace.atomic_file import replacing
from loaderviz.trace.lines_of_code import HOW_TO_RECORD, PHASES, Frame, Looked, looked, recorded
from loaderviz.trace.loaders_as_one import as_one

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace


def write_speedscope(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a profile for each worker of each rank, whose weights are seconds.

    Raises:
        LoaderVizError: for a trace without lines of code, and where the file cannot be written.
    """
    frames: dict[Frame | str, int] = {}
    profiles = []
    for name, rows in _by_worker(trace):
        samples = [
            [frames.setdefault(each, len(frames)) for each in (PHASES[row.phase], *row.stack)]
            for row in rows
        ]
        weights = [row.seconds for row in rows]
        profiles.append({
            "type": "sampled",
            "name": name,
            "unit": "seconds",
            "startValue": 0,
            "endValue": sum(weights),
            "samples": samples,
            "weights": weights,
        })  # fmt: skip
    file = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "loaderviz",
        "name": str(trace.meta.get("label") or "loaderviz"),
        "shared": {"frames": [_described(each) for each in frames]},
        "profiles": profiles,
    }
    with replacing(path, "export") as out:
        out.write(json.dumps(file).encode())


def write_collapsed(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a line for each stack of each worker; raises as ``write_speedscope`` does."""
    with replacing(path, "export") as out:
        for name, rows in _by_worker(trace):
            for row in rows:
                frames = [f"{each.function} ({each.file}:{each.line})" for each in row.stack]
                parts = [_one_line(each) for each in (name, PHASES[row.phase], *frames)]
                out.write(f"{';'.join(parts)} {round(row.seconds * 1e6)}\n".encode())


def _by_worker(trace: Trace) -> list[tuple[str, list[Looked]]]:
    if not recorded(trace.meta):
        raise LoaderVizError(f"this trace has no lines of code: {HOW_TO_RECORD}")
    seen = sorted(looked(as_one(trace)), key=lambda row: row[:3])
    several = len({row.rank for row in seen}) > 1, len({row.loader for row in seen}) > 1
    found = []
    for (rank, loader, worker), rows in groupby(seen, lambda row: row[:3]):
        names = [f"rank {rank}"] * several[0] + [f"loader {loader}"] * several[1]
        found.append((", ".join([*names, worker_name(worker)]), [*rows]))
    return found


def _described(frame: Frame | str) -> dict[str, object]:
    if isinstance(frame, str):
        return {"name": frame}
    return {"name": frame.function, "file": frame.file, "line": frame.line}


def _one_line(text: str) -> str:
    """A text that ends neither a frame nor a line."""
    return " ".join(text.replace(";", ",").split())
