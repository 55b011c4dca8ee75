"""Reads one trace from the folder of a run: the recordings of its ranks, one at a time.

A rank's recording is a file where it has ended, and a folder where it runs or was killed
(``loaderviz.recorder.recording_folders``). Only one is open at a time; its samples are not kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loaderviz.clocks.rank_alignment import Clock, RecordingStart, align_starts
from loaderviz.errors import LoaderVizError
from loaderviz.regular_file import refuse_leading_out
from loaderviz.trace import windows
from loaderviz.trace.columns_of_rows import Table, arrays
from loaderviz.trace.described_loaders import UNDERLYING, loader_description
from loaderviz.trace.lines_of_code import packed, recorded, unpacked
from loaderviz.trace.merge.run_samples import RunSamples, SampleSource, joined
from loaderviz.trace.parquet.read_parquet import TraceButSamples, read_but_samples
from loaderviz.trace.recording.read_recording import META_NAME, read_folder
from loaderviz.trace.trace import Trace
from loaderviz.trace.underlying_keys import MOST_UNDERLYING

SEALED = ".parquet"
MOST_NAMED = 5  # missing ranks that a message names
# What in meta is about a single recording, and what is summed up over all of them.
_OF_ONE_RECORDING = ("rank", "clock", "clock_note", "clock_domain", "ranks", "ended_s")
_SUMMED_UP = ("left_out", "left_out_batches")


def recordings_in(folder: Path) -> list[str]:
    """The names of the recordings in the folder, whether files or folders."""
    names = set()
    for path in folder.iterdir():
        if path.suffix == SEALED and path.is_file() and not path.name.startswith("."):
            names.add(path.stem)
        elif path.is_dir() and (path.name.startswith("rank-") or (path / META_NAME).exists()):
            names.add(path.name)
    return sorted(names)


def merge(folder: Path, names: Sequence[str]) -> Trace:
    """The recordings of these names as one trace.

    Raises:
        LoaderVizError: where none of them can be read; gives the first one's error.
    """
    problems: list[str] = []
    attempts = [_read(folder, name, problems) for name in names]
    readable = [recording for recording in attempts if recording is not None]
    if not readable:
        more = f"; nor can {len(problems) - 1:,} others" if len(problems) > 1 else ""
        raise LoaderVizError(f"no recording in {str(folder)!r} can be read: {problems[0]}{more}")

    def rank_and_start(recording: _Recording) -> tuple[int, int]:
        return recording.rank, recording.clock.wall_ns if recording.clock else 0

    first = min(readable, key=rank_and_start)
    readable.sort(key=lambda recording: recording is not first)
    starts = align_starts([recording.clock for recording in readable])
    aligned = list(zip(readable, starts, strict=True))
    aligned.sort(key=lambda pair: (pair[0].rank, pair[1].at_ns, pair[0].name))
    return _merged(aligned, problems)


@dataclass(frozen=True)
class _Recording:
    """The recording of a rank, which may have several; without its samples."""

    path: Path
    trace: TraceButSamples
    rank: int
    clock: Clock | None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def n_loaders(self) -> int:
        last_loader = self.trace.tables["batches"]["loader"].max(initial=-1)
        return max(len(self.trace.meta.get("loaders") or ()), int(last_loader) + 1)


def _read(folder: Path, name: str, problems: list[str]) -> _Recording | None:
    """The recording of this name: from the file, else from the folder that it replaces.

    None where neither can be read. Adds to ``problems`` why what is there cannot be read.
    """
    failures = []
    # A recording that ends meanwhile was a folder and is a file now: hence the file once more.
    for path in (folder / f"{name}{SEALED}", folder / name, folder / f"{name}{SEALED}"):
        if not path.exists():
            continue
        try:
            recording = _read_one(path)
        except LoaderVizError as error:
            failures.append(str(error))
            continue
        problems.extend(failures if path.is_dir() else ())
        return recording
    problems.extend(dict.fromkeys(failures))
    return None


def _read_one(path: Path) -> _Recording:
    refuse_leading_out(path)
    if path.is_dir():
        whole = read_folder(path)
        names = ("batches", "workers", "spans")
        tables = {name: arrays(getattr(whole, name)) for name in names}
        int_keys = whole.samples["key"].dtype == np.int64
        trace = TraceButSamples(tables, dict(whole.meta), len(whole.samples), int_keys)
    else:
        trace = read_but_samples(path)
    if "ranks" in trace.meta:
        raise LoaderVizError(f"{str(path)!r} is left out: it is a merged run, not one recording")
    return _Recording(path, trace, _rank(trace), Clock.from_meta(trace.meta))


def _rank(trace: TraceButSamples) -> int:
    rank = trace.meta.get("rank")
    return int(trace.tables["batches"]["rank"].max(initial=0)) if rank is None else rank


def _merged(aligned: list[tuple[_Recording, RecordingStart]], problems: list[str]) -> Trace:
    origin_ns = min(start.at_ns for _, start in aligned)
    tables = {name: list[Table]() for name in ("batches", "workers", "spans")}
    sources: list[SampleSource] = []
    n_loaders: dict[int, int] = {}  # so far, of each rank
    for recording, start in aligned:
        source = SampleSource(
            path=recording.path,
            rank=recording.rank,
            shift_s=(start.at_ns - origin_ns) / 1e9,
            first_loader=n_loaders.get(recording.rank, 0),
            n_sample_rows=recording.trace.n_sample_rows,
            int_keys=recording.trace.int_keys,
        )
        n_loaders[recording.rank] = source.first_loader + recording.n_loaders
        for name, parts in tables.items():
            parts.append(source.to_run_columns(recording.trace.tables[name]))
        sources.append(source)
    meta = _merged_meta(aligned, sources, problems)
    first, its_start = aligned[0]
    if (clock := first.clock) is not None:
        shift_ns = origin_ns - its_start.at_ns
        meta["started"] = [clock.started_ns + shift_ns, clock.wall_ns + shift_ns]
    merged: dict[str, Any] = {name: joined(parts) for name, parts in tables.items()}
    merged["samples"] = RunSamples(tuple(sources))
    return Trace(**merged, meta=meta)


def _merged_meta(
    aligned: list[tuple[_Recording, RecordingStart]],
    sources: list[SampleSource],
    problems: list[str],
) -> dict[str, Any]:
    recordings = [recording for recording, _ in aligned]
    metas = [recording.trace.meta for recording in recordings]
    loaders: list[Any] = []
    for meta, source in zip(metas, sources, strict=True):
        loaders += [{}] * (source.first_loader - len(loaders))  # not described
        loaders += (meta.get("loaders") or [])[len(loaders) - source.first_loader :]
    described = {
        name: each for meta in metas for name, each in (meta.get(UNDERLYING) or {}).items()
    }
    problems_inside = [
        f"{recording.name}: {problem}"
        for recording in recordings
        for problem in recording.trace.meta.get("problems") or ()
    ]
    unread = [*problems, *_missing_ranks(recordings)]
    lines = [
        (source, meta["lines"])
        for source, meta in zip(sources, metas, strict=True)
        if recorded(meta)
    ]
    seen = [
        unpacked(each, first_loader=source.first_loader, shift_s=source.shift_s)
        for source, each in lines
    ]
    not_seen = [f"rank {source.rank}, {why}" for source, each in lines for why in each["not_seen"]]
    complete = all(meta.get("complete", True) for meta in metas) and not problems
    return {
        **{name: value for name, value in metas[0].items() if name not in _OF_ONE_RECORDING},
        "loaders": loaders,
        **({"lines": packed(itertools.chain(*seen), not_seen)} if lines else {}),
        **windows.merged(
            (meta, source.rank, source.first_loader, source.shift_s)
            for source, meta in zip(sources, metas, strict=True)
        ),
        UNDERLYING: dict(itertools.islice(described.items(), MOST_UNDERLYING)),
        "ranks": [
            {
                **_recording_meta(recording, source, start),
                **_unlike(recording, source, loaders),
            }
            for (recording, start), source in zip(aligned, sources, strict=True)
        ],
        "complete": complete,
        "problems": [*unread, *problems_inside],
        "unread": unread,
        **{name: sum(meta.get(name) or 0 for meta in metas) for name in _SUMMED_UP},
    }


def _recording_meta(
    recording: _Recording, source: SampleSource, start: RecordingStart
) -> dict[str, Any]:
    """What ``meta["ranks"]`` says of one recording."""
    batches, meta = recording.trace.tables["batches"], recording.trace.meta
    delivered = ~np.isnan(batches["delivered_s"])
    return {
        "rank": recording.rank,
        "file": recording.name,
        "host": meta.get("host"),
        "offset_s": source.shift_s,
        "uncertainty_s": start.uncertainty_s,
        "first_loader": source.first_loader,
        "n_batches": int(delivered.sum()),
        "n_samples": int(batches["n_samples"][delivered].sum()),
        "complete": bool(meta.get("complete", True)),
        **{name: meta.get(name) or 0 for name in _SUMMED_UP},
    }


def _unlike(
    recording: _Recording, source: SampleSource, loaders: list[dict[str, Any]]
) -> dict[str, Any]:
    """By loader, the name of what keys stand for here, where that is not what ``loaders`` says."""
    unlike = {}
    for number in range(recording.n_loaders):
        here = loader_description(recording.trace.meta, number).get(UNDERLYING)
        number += source.first_loader
        if number < len(loaders) and here != loaders[number].get(UNDERLYING):
            unlike[str(number)] = here
    return {UNDERLYING: unlike} if unlike else {}


def _missing_ranks(recordings: list[_Recording]) -> list[str]:
    """Which ranks have no recording, as far as the others say how many ranks there are."""
    metas = [recording.trace.meta for recording in recordings]
    world_size = max(meta.get("world_size") or 0 for meta in metas)
    recorded = {recording.rank for recording in recordings}
    n_missing = world_size - len({rank for rank in recorded if rank < world_size})
    if n_missing <= 0:
        return []
    missing = itertools.islice((n for n in range(world_size) if n not in recorded), MOST_NAMED)
    more = f" and {n_missing - MOST_NAMED:,} more" if n_missing > MOST_NAMED else ""
    rank = "rank" if n_missing == 1 else "ranks"
    return [f"no recording of {rank} {', '.join(map(str, missing))}{more}, of {world_size:,}"]
