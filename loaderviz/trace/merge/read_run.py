"""From the folder of a run to one trace: the recordings of its ranks, one at a time.

A rank's recording is a file where it has ended, and a folder where it runs or was killed
(``loaderviz.recorder.recording_folders``). Only one is open at a time; its samples are not kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loaderviz.clocks.rank_alignment import Clock, RecordingStart, align_starts
from loaderviz.errors import LoaderVizError
from loaderviz.trace.columns_of_rows import Table, arrays
from loaderviz.trace.merge.run_meta import is_rank, whole
from loaderviz.trace.merge.run_samples import RunSamples, Source, joined
from loaderviz.trace.parquet.read_parquet import Opened, read_but_samples
from loaderviz.trace.recording.read_recording import META_NAME, read_folder
from loaderviz.trace.trace import Trace

SEALED = ".parquet"
MOST_NAMED = 5  # of the ranks that are missing
_OF_ONE = (
    "rank",
    "clock",
    "clock_note",
    "clock_domain",
    "ranks",
)  # of meta: what tells of one recording only
_COUNTED = ("left_out", "left_out_batches")


def recordings_in(folder: Path) -> list[str]:
    """The names of the recordings in the folder, whether files or folders."""
    found = set()
    for each in folder.iterdir():
        if each.suffix == SEALED and each.is_file() and not each.name.startswith("."):
            found.add(each.stem)
        elif each.is_dir() and (each.name.startswith("rank-") or (each / META_NAME).exists()):
            found.add(each.name)
    return sorted(found)


def merge(folder: Path, names: Sequence[str]) -> Trace:
    """The recordings of these names as one trace.

    Raises:
        LoaderVizError: where none of them can be read; names the first.
    """
    problems: list[str] = []
    read = [each for name in names if (each := _read(folder, name, problems)) is not None]
    if not read:
        more = f"; nor can {len(problems) - 1:,} others" if len(problems) > 1 else ""
        raise LoaderVizError(f"no recording in {str(folder)!r} can be read: {problems[0]}{more}")
    first = min(read, key=lambda each: (each.rank, each.clock.wall_ns if each.clock else 0))
    read.sort(key=lambda each: each is not first)
    begun = align_starts([each.clock for each in read])
    order = sorted(range(len(read)), key=lambda i: (read[i].rank, begun[i].at_ns, read[i].name))
    return _merged([read[i] for i in order], [begun[i] for i in order], problems)


@dataclass(frozen=True)
class _Recording:
    """One rank's, or one of several of one rank, without its samples."""

    path: Path
    found: Opened
    rank: int
    clock: Clock | None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def n_loaders(self) -> int:
        used = self.found.tables["batches"]["loader"].max(initial=-1)
        return max(len(_loaders(self.found.meta)), int(used) + 1)


def _read(folder: Path, name: str, problems: list[str]) -> _Recording | None:
    """What can be read of this name: the file, else the folder that it takes the place of."""
    failed = []
    # A recording that ends meanwhile is no folder any more, and a file now.
    for path in (folder / f"{name}{SEALED}", folder / name, folder / f"{name}{SEALED}"):
        if not path.exists():
            continue
        try:
            recording = _read_one(path)
        except LoaderVizError as error:
            failed.append(str(error))
            continue
        problems.extend(failed if path.is_dir() else ())
        return recording
    problems.extend(dict.fromkeys(failed))
    return None


def _read_one(path: Path) -> _Recording:
    if path.is_dir():
        trace = read_folder(path)
        names = ("batches", "workers", "spans")
        tables = {name: arrays(getattr(trace, name)) for name in names}
        int_keys = trace.samples["key"].dtype == np.int64
        found = Opened(tables, dict(trace.meta), len(trace.samples), int_keys)
    else:
        found = read_but_samples(path)
    if "ranks" in found.meta:
        raise LoaderVizError(f"{str(path)!r} is left aside: it is a merged run, not one recording")
    return _Recording(path, found, _rank(found), Clock.from_meta(found.meta))


def _rank(found: Opened) -> int:
    rank: Any = found.meta.get("rank")
    if is_rank(rank):
        return int(rank)
    return int(found.tables["batches"]["rank"].max(initial=0))


def _loaders(meta: Mapping[str, Any]) -> list[Any]:
    loaders = meta.get("loaders")
    return loaders if isinstance(loaders, list) else []


def _merged(
    recordings: list[_Recording], begun: list[RecordingStart], problems: list[str]
) -> Trace:
    origin_ns = min(each.at_ns for each in begun)
    sources, tables = [], {name: list[Table]() for name in ("batches", "workers", "spans")}
    n_loaders: dict[int, int] = {}  # so far, of each rank
    for each, start in zip(recordings, begun, strict=True):
        source = Source(
            path=each.path,
            rank=each.rank,
            shift_s=(start.at_ns - origin_ns) / 1e9,
            first_loader=n_loaders.get(each.rank, 0),
            n_sample_rows=each.found.n_sample_rows,
            int_keys=each.found.int_keys,
        )
        n_loaders[each.rank] = source.first_loader + each.n_loaders
        for name, parts in tables.items():
            parts.append(source.joining(each.found.tables[name]))
        sources.append(source)
    meta = _meta(recordings, sources, begun, problems)
    if (clock := recordings[0].clock) is not None:
        later_ns = origin_ns - begun[0].at_ns
        meta["started"] = [clock.started_ns + later_ns, clock.wall_ns + later_ns]
    merged: dict[str, Any] = {name: joined(parts) for name, parts in tables.items()}
    merged["samples"] = RunSamples(tuple(sources))
    return Trace(**merged, meta=meta)


def _meta(
    recordings: list[_Recording],
    sources: list[Source],
    begun: list[RecordingStart],
    problems: list[str],
) -> dict[str, Any]:
    metas = [each.found.meta for each in recordings]
    loaders: list[Any] = []
    for meta, source in zip(metas, sources, strict=True):
        loaders += [{}] * (source.first_loader - len(loaders))  # not described
        loaders += _loaders(meta)[len(loaders) - source.first_loader :]
    own = [
        f"{each.name}: {problem}"
        for each, meta in zip(recordings, metas, strict=True)
        for problem in _texts(meta.get("problems"))
    ]
    unread = [*problems, *_missing(recordings)]
    complete = all(meta.get("complete", True) for meta in metas) and not problems
    return {
        **{name: value for name, value in metas[0].items() if name not in _OF_ONE},
        "loaders": loaders,
        "ranks": [
            _about(each, source, start)
            for each, source, start in zip(recordings, sources, begun, strict=True)
        ],
        "complete": complete,
        "problems": [*unread, *own],
        "unread": unread,
        **{name: sum(whole(meta.get(name)) for meta in metas) for name in _COUNTED},
    }


def _about(recording: _Recording, source: Source, begun: RecordingStart) -> dict[str, Any]:
    """One recording, in ``meta["ranks"]``."""
    batches, meta = recording.found.tables["batches"], recording.found.meta
    delivered = ~np.isnan(batches["delivered_s"])
    return {
        "rank": recording.rank,
        "file": recording.name,
        "host": meta.get("host"),
        "offset_s": source.shift_s,
        "uncertainty_s": begun.uncertainty_s,
        "first_loader": source.first_loader,
        "n_batches": int(delivered.sum()),
        "n_samples": int(batches["n_samples"][delivered].sum()),
        "complete": bool(meta.get("complete", True)),
        **{name: whole(meta.get(name)) for name in _COUNTED},
    }


def _missing(recordings: list[_Recording]) -> list[str]:
    """Ranks of which there is no recording, as far as the others tell how many there are."""
    world_size = max(whole(each.found.meta.get("world_size")) for each in recordings)
    there = {each.rank for each in recordings}
    n_missing = world_size - len({rank for rank in there if rank < world_size})
    if n_missing <= 0:
        return []
    missing = itertools.islice((n for n in range(world_size) if n not in there), MOST_NAMED)
    more = f" and {n_missing - MOST_NAMED:,} more" if n_missing > MOST_NAMED else ""
    rank = "rank" if n_missing == 1 else "ranks"
    return [f"no recording of {rank} {', '.join(map(str, missing))}{more}, of {world_size:,}"]


def _texts(problems: Any) -> list[str]:
    return [str(each) for each in problems] if isinstance(problems, list) else []
