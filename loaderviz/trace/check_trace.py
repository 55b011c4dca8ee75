"""What the tables and the ``meta`` of a trace may hold: checked wherever a trace is made.

A trace may come from a stranger's file or be made by hand. What passes here has the columns, types
and ranges that all readers count on, so that none of them has to look again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from loaderviz import schema
from loaderviz.errors import LoaderVizError
from loaderviz.trace.columns_of_rows import BATCH, Table, batch_rows
from loaderviz.trace.described_loaders import UNDERLYING
from loaderviz.trace.lines_of_code import may_be_lines
from loaderviz.trace.underlying_keys import is_underlying
from loaderviz.trace.windows import may_be_incidents, may_be_windows

MOST_WORKERS: Final = 4096  # of one loader
MOST_AHEAD: Final = 1 << 16  # batches that the workers of a loader are asked for ahead
MOST_SAMPLES: Final = 1 << 24  # in one batch
MOST_EPOCHS: Final = 10_000  # more than there are batches: readers count by epoch
MOST_CHARACTERS: Final = 1_000  # of what a batch is made of
MOST_S: Final = 4e9  # 127 years: in files times are int64 nanoseconds
MOST_COUNT: Final = 1 << 53  # float64 and JavaScript hold it exactly
TABLES: Final = {
    "batches": schema.BATCHES,
    "samples": schema.SAMPLES,
    "workers": schema.WORKERS,
    "spans": schema.SPANS,
}
RANGES: Final = {
    "rank": (0, (1 << 31) - 1),
    "loader": (0, (1 << 20) - 1),
    "epoch": (0, (1 << 31) - 1),
    "batch": (0, (1 << 31) - 1),
    "worker": (-1, MOST_WORKERS - 1),
    "n_samples": (0, MOST_SAMPLES),
    "position": (0, MOST_SAMPLES),
    "pid": (0, (1 << 31) - 1),
    "rss_bytes": (0, MOST_COUNT),
    "rss_peak_bytes": (0, MOST_COUNT),
    "n_bytes": (0, MOST_COUNT),
    "read_bytes": (0, MOST_COUNT),
    "disk_bytes": (0, MOST_COUNT),
    "threads": (0, MOST_COUNT),
    "pickle_bytes": (0, MOST_COUNT),
}
TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "state": ("delivered", "failed", "lost", "ready", "started", "dispatched"),
    "exit": ("done", "failed", "killed", "running"),
    "start_method": (),  # any text
    "name": (),
    "shapes": (),
    "cpus_allowed": (),
}
LEFT_OUT: Final = "left out: "  # how a word on such a value begins
LONGEST: Final = {"shapes": MOST_CHARACTERS, "cpus_allowed": MOST_CHARACTERS}


class InvalidTraceError(LoaderVizError, ValueError):
    """A trace holds what it cannot."""


def check(tables: Mapping[str, Table], meta: Mapping[str, Any]) -> None:
    """Check the tables of a trace, by name, of which those that are not read yet may be missing.

    Raises:
        InvalidTraceError: names the first value that cannot be, where it is, and what may be there.
    """
    for name, table in tables.items():
        _check_columns(name, table)
    check_meta(meta)
    batches = tables["batches"]
    n_batches = len(batches["rank"])
    if n_batches and int(batches["epoch"].max()) > n_batches + MOST_EPOCHS:
        raise InvalidTraceError(
            f"a batch is of epoch {batches['epoch'].max():,}, but there are only {n_batches:,} "
            "batches: keep the batches of all epochs"
        )
    if "samples" in tables and n_batches:
        check_samples(tables["samples"], batches)


def check_samples(samples: Table, batches: Table) -> None:
    """Check that each sample is of one of the batches, and has a place in it.

    Raises:
        InvalidTraceError: for a sample of which that is not so.
    """
    row = batch_rows(samples, batches)
    if (row < 0).any():
        at = int(np.argmin(row))
        named = ", ".join(f"{name} {samples[name][at]}" for name in BATCH)
        raise InvalidTraceError(
            f"a sample is of {named}, and there is no such batch: keep the batches of all samples, "
            "or leave out their samples too"
        )
    too_far = samples["position"] > batches["n_samples"][row]  # as many: one that was begun
    if too_far.any():
        at = int(np.argmax(too_far))
        raise InvalidTraceError(
            f"a sample is at position {samples['position'][at]:,} of batch {samples['batch'][at]}, "
            f"which has {batches['n_samples'][row[at]]:,} samples: positions count from 0"
        )


def _check_columns(name: str, table: Table) -> None:
    columns = TABLES[name]
    if sorted(map(str, table)) != sorted(columns):
        raise InvalidTraceError(
            f"{name} has the columns {', '.join(map(str, table))}; "
            f"those of a trace are {', '.join(columns)}"
        )
    for column, kind in columns.items():
        values = table[column]
        if not np.can_cast(values.dtype, kind):
            raise InvalidTraceError(
                f"{column!r} of {name} holds {values.dtype}, not {kind}: "
                "make the tables by Trace.from_columns"
            )
        if column in TEXTS:
            _check_texts(name, column, values)
        elif kind != "object" and len(values):
            least, most = RANGES.get(column, (-MOST_S, MOST_S))
            low, high = np.fmin.reduce(values), np.fmax.reduce(values)  # NaN where all are
            if low < least or high > most:
                raise InvalidTraceError(
                    f"{column!r} of {name} holds {low if low < least else high}; "
                    f"it goes from {least:,} to {most:,}"
                )


def _check_texts(name: str, column: str, values: Any) -> None:
    allowed = TEXTS[column]
    most = LONGEST.get(column)
    with contextlib.suppress(TypeError):  # where one cannot be hashed, which is no text
        values = {*values.tolist()}
    for value in values:
        if value is None or (isinstance(value, str) and (not allowed or value in allowed)):
            if most is None or value is None or len(value) <= most:
                continue
            raise InvalidTraceError(
                f"{column!r} of {name} holds a text of {len(value):,} characters; "
                f"it has up to {most:,}"
            )
        raise InvalidTraceError(
            f"{column!r} of {name} holds {value!r:.60}; "
            f"it is {', '.join(allowed) if allowed else 'text'} or None"
        )


def check_meta(meta: Mapping[str, Any]) -> None:
    """Check what a trace's ``meta`` says, as far as somebody reads it.

    Raises:
        InvalidTraceError: names the first value that cannot be, where it is, and what may be there.
    """
    for _, _, said in _misfits(meta):
        raise InvalidTraceError(said)


def fitting(meta: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """``meta`` without the values that ``check_meta`` refuses, and a word for each left out.

    What is written is read again: so no value costs the rest of a recording.
    """
    left_out: dict[int, set[str]] = {}  # names, by the identity of what holds them
    words = []
    for members, name, said in _misfits(meta):
        left_out.setdefault(id(members), set()).add(name)
        words.append(f"{LEFT_OUT}{said}")

    def kept(members: Any) -> Any:
        names = left_out.get(id(members))
        return {key: members[key] for key in members if key not in names} if names else members

    result = kept(meta)
    for name in ("loaders", "ranks"):
        if left_out and name in result:
            result = {**result, name: [kept(each) for each in result[name] or ()]}
    if left_out and "clock" in result:
        result = {**result, "clock": kept(result["clock"])}
    return result, words


def _misfits(meta: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """What cannot be: what holds it, its name there, and a sentence that says so."""
    yield from _misfit_members("meta", meta, META)
    for number, loader in enumerate(_well_formed(meta, "loaders")):
        where_ = f"meta['loaders'][{number}]"
        yield from _misfit_members(where_, loader, _LOADER)
        try:
            ahead = (loader.get("num_workers") or 0) * (loader.get("prefetch_factor") or 0)
            too_many = ahead > MOST_AHEAD
        except TypeError:  # said above
            continue
        if too_many:
            said = (
                f"{where_} asks for {ahead:,} batches ahead, 'num_workers' times "
                f"'prefetch_factor'; it is up to {MOST_AHEAD:,}"
            )
            yield loader, "prefetch_factor", said
    for number, recording in enumerate(_well_formed(meta, "ranks")):
        yield from _misfit_members(f"meta['ranks'][{number}]", recording, _RANK)
        if recording.get("rank") is None:
            yield recording, "rank", f"meta['ranks'][{number}] does not say which rank it is"
    clock = meta.get("clock")
    if isinstance(clock, Mapping):
        yield from _misfit_members("meta['clock']", clock, _CLOCK)


def _well_formed(meta: Mapping[str, Any], name: str) -> list[Any]:
    """A list of descriptions; empty where it is none, which was said of ``meta``."""
    value = meta.get(name)
    return value if isinstance(value, list) and META[name][0](value) else []


def _misfit_members(
    where_: str, members: Mapping[str, Any], rules: Mapping[str, Rule]
) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    for name, (may_be, said) in rules.items():
        value = members.get(name)
        if value is not None and not may_be(value):
            yield members, name, f"{where_}[{name!r}] is {value!r:.60}; it is {said}"


# Whether a value may be there, and in words what may. None may be anywhere: it is not known.
Rule = tuple[Callable[[Any], object], str]


def _whole(least: int, most: int) -> Rule:
    return (
        lambda value: isinstance(value, int | np.integer) and least <= value <= most,
        f"a whole number from {least:,} to {most:,}",
    )


def _number(least: float, most: float) -> Rule:
    return (
        lambda value: isinstance(value, int | float | np.integer) and least <= value <= most,
        f"a number from {least:,} to {most:,}",
    )


def _list_of(kind: type, said: str) -> Rule:
    return (
        lambda value: isinstance(value, list) and all(isinstance(item, kind) for item in value),
        f"a list of {said}",
    )


_TEXT: Rule = (lambda value: isinstance(value, str), "text")
_TRUTH: Rule = (lambda value: isinstance(value, bool), "true or false")
_COUNT = _whole(0, MOST_COUNT)
_NS = _whole(-int(1e9 * MOST_S), int(1e9 * MOST_S))
_SECONDS = _number(-MOST_S, MOST_S)
_LEFT_OUT = {"left_out": _COUNT, "left_out_batches": _COUNT}
_TEXTS = (
    *("class", "dataset", "kind", "sampler", "draws", "start_method", "iterated_at"),
    UNDERLYING,
)
_LOADER: Final[Mapping[str, Rule]] = {
    "num_workers": _whole(0, MOST_WORKERS),
    "prefetch_factor": _whole(1, MOST_AHEAD),
    "batch_size": _whole(1, MOST_SAMPLES),
    "made": _whole(1, 1 << 20),
    **dict.fromkeys(_TEXTS, _TEXT),
    **dict.fromkeys(
        (
            *("shuffled", "persistent_workers", "pin_memory", "pinned", "in_order", "drop_last"),
            *("cycled", "one_by_one"),
        ),
        _TRUTH,
    ),
}
_RANK: Final[Mapping[str, Rule]] = {
    "rank": _whole(0, (1 << 31) - 1),
    "first_loader": _whole(0, (1 << 20) - 1),
    "n_batches": _COUNT,
    "n_samples": _COUNT,
    **_LEFT_OUT,
    "offset_s": _SECONDS,
    "uncertainty_s": _SECONDS,
    "file": _TEXT,
    "host": _TEXT,
    "complete": _TRUTH,
    UNDERLYING: (
        lambda value: (
            isinstance(value, Mapping)
            and all(each is None or isinstance(each, str) for each in value.values())
        ),
        "texts by loader",
    ),
}
_CLOCK: Final[Mapping[str, Rule]] = {
    "reference": _TEXT,
    "offset_ns": _NS,
    "uncertainty_ns": _NS,
}
META: Final[Mapping[str, Rule]] = {
    "rank": _whole(0, (1 << 31) - 1),
    "world_size": _whole(0, (1 << 31) - 1),
    "last_s": _number(0, MOST_S),
    "begins_s": _number(0, MOST_S),
    "incident": _TEXT,
    "pid": _whole(0, (1 << 31) - 1),
    "started": (
        lambda value: (
            isinstance(value, list | tuple)
            and len(value) == 2
            and all(_NS[0](time_ns) for time_ns in value)
        ),
        "two times in whole nanoseconds",
    ),
    "loaders": _list_of(Mapping, "descriptions of loaders"),
    "ranks": _list_of(Mapping, "descriptions of recordings"),
    "clock": (lambda value: isinstance(value, Mapping), "a description of the clock"),
    UNDERLYING: (
        lambda value: isinstance(value, Mapping) and all(map(is_underlying, value.values())),
        "by name, datasets and the keys that positions stand for",
    ),
    "incidents": (may_be_incidents, "a list of rows of windows.py"),
    "windows": (may_be_windows, "what windows.py describes"),
    "lines": (may_be_lines, "what lines_of_code.py describes"),
    "problems": _list_of(str, "texts"),
    "unread": _list_of(str, "texts"),
    **_LEFT_OUT,
    **dict.fromkeys(("complete", "simulated"), _TRUTH),
    **dict.fromkeys(("host", "clock_domain", "clock_note", "python", "torch", "platform"), _TEXT),
    "cpu_count": _whole(1, 1 << 20),
    "cpu_allowance": (
        lambda value: isinstance(value, int | float | np.integer) and 0 < value <= 1 << 20,
        f"a number above 0, up to {1 << 20:,}",
    ),
    **dict.fromkeys(("recorded_s", "main_cpu_s", "throttled_s"), _SECONDS),
    "pressure_s": (
        lambda value: isinstance(value, Mapping) and all(map(_SECONDS[0], value.values())),
        "seconds by resource",
    ),
}
