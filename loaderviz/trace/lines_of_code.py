"""Which lines of code ran while samples were read: what ``meta["lines"]`` of a trace holds of it.

Its ``frames`` are lists of file, line, function, owner (the package, empty for the user's own code)
and source; its ``stacks`` lists of numbers of frames, the outermost first; its ``looks`` a list for
each rank, loader, worker, phase and stack, in this order, followed by how many looks found it, in
seconds how long that took, the CPU time of it and how much of it the loop waited for, and a list of
moments in it, in microseconds, evenly spread. ``not_seen`` says which processes were not looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from loaderviz.errors import LoaderVizError

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

PHASES: Final = ("read", "collate", "init", "sampler")
MOST_STACKS: Final = 20_000  # in a file: of what took least only the sum is kept
MOST_FRAMES: Final = 200_000
MOST_MOMENTS: Final = 100_000
SEEN: Final = 0.1  # of the time of a line: what takes less may be a look that came late
COLUMNS: Final = (
    *("file", "line", "function", "source", "seconds", "share", "total_s", "total_share"),
    *("cpu_s", "waited_s", "looks", "phase"),
)
HOW_TO_RECORD: Final = "record(loader, lines=True), or loaderviz run --lines, names the line"
FETCH: Final = "torch/utils/data/_utils/fetch.py"  # which calls the dataset
_NUMBERS: Final = 10  # in the list of a look


class Frame(NamedTuple):
    """One line of code, in one function."""

    file: str
    line: int
    function: str
    owner: str
    source: str


class Looked(NamedTuple):
    """What is known of one stack, in one phase of one worker."""

    rank: int
    loader: int
    worker: int
    phase: int
    stack: tuple[Frame, ...]  # the outermost first; empty: unknown
    looks: int
    seconds: float
    cpu_s: float
    waited_s: float
    moments: tuple[int, ...]  # in us; each is of an equal part of the seconds


def recorded(meta: Mapping[str, Any]) -> bool:
    """Whether lines were to be recorded."""
    return isinstance(meta.get("lines"), Mapping)


def looked(trace: Trace) -> list[Looked]:
    """What was seen of the loaders of a trace, by what took longest."""
    there = {*trace.batches["loader"].unique().tolist()}
    lines = trace.meta["lines"] if recorded(trace.meta) else packed([], [])
    rows = [row for row in unpacked(lines) if row.loader in there]
    return sorted(rows, key=lambda row: -row.seconds)


def own_frames(stack: tuple[Frame, ...]) -> list[Frame]:
    """Of a stack the user's own; where there are none, the first that is not the fetcher's."""
    own = [frame for frame in stack if not frame.owner]
    others = [frame for frame in stack if frame.owner not in ("torch", "Python")]
    return own or others[:1] or [each for each in stack if each.file != FETCH][:1]


def innermost(stack: tuple[Frame, ...]) -> Frame | None:
    """The line of the user's that a stack counts for; None for an unknown one."""
    return next(reversed(_one_for_each_line(own_frames(stack))), None)


def _one_for_each_line(frames: list[Frame]) -> list[Frame]:
    """The same, but what a line calls that stands in it, as a lambda, is that line.

    So it is whatever the release of Python: from 3.12 on comprehensions are no functions (PEP 709).
    """
    first: dict[tuple[str, int], Frame] = {}
    return [first.setdefault((frame.file, frame.line), frame) for frame in frames]


def table(trace: Trace, *, user: bool) -> pd.DataFrame:
    """What ``Trace.lines`` returns."""
    import pandas as pd

    if not recorded(trace.meta):
        raise LoaderVizError(f"this trace has no lines of code: {HOW_TO_RECORD}")
    return pd.DataFrame(rows_of(looked(trace), user=user), columns=COLUMNS)


def rows_of(seen: Iterable[Looked], *, user: bool = True) -> list[dict[str, Any]]:
    """The rows of that table, of some of what was seen; with ``calls``: files it goes to."""
    by_line: dict[Frame, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    phases: dict[Frame, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    calls: dict[Frame, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    whole_s = 0.0
    for row in seen:
        whole_s += row.seconds
        frames = _one_for_each_line(own_frames(row.stack) if user else list(row.stack))
        for frame in set(frames):
            by_line[frame]["total_s"] += row.seconds
        for frame in frames[-1:]:
            phases[frame][row.phase] += row.seconds
            inside = row.stack[::-1].index(frame)
            for file in {each.file for each in row.stack[-inside:][:inside] if each.owner}:
                calls[frame][file][0] += row.looks
                calls[frame][file][1] += row.seconds
            for name in ("looks", "seconds", "cpu_s", "waited_s"):
                by_line[frame][name] += getattr(row, name)
    found = [
        {
            **{name: getattr(frame, name) for name in ("file", "line", "function", "source")},
            **{name: numbers[name] for name in ("seconds", "total_s", "waited_s")},
            "cpu_s": min(numbers["cpu_s"], numbers["seconds"]),  # which has looks of its own
            "share": numbers["seconds"] / (whole_s or 1.0),
            "total_share": numbers["total_s"] / (whole_s or 1.0),
            "looks": int(numbers["looks"]),
            "calls": sorted(
                file
                for file, (looks, seconds) in calls[frame].items()
                if looks > 1 and seconds > SEEN * numbers["seconds"]
            ),
            "phase": PHASES[max(phases[frame], key=phases[frame].__getitem__, default=0)],
        }
        for frame, numbers in by_line.items()
    ]
    return sorted(found, key=lambda row: (-row["seconds"], -row["total_s"], row["file"]))


def packed(seen: Iterable[Looked], not_seen: Iterable[str]) -> dict[str, Any]:
    """What ``meta`` is to hold of it, of the stacks that took least only the sum."""
    rows = sorted(seen, key=lambda row: -row.seconds)
    every = -(-sum(len(row.moments) for row in rows) // MOST_MOMENTS)
    frames: dict[Frame, int] = {}
    stacks: dict[tuple[int, ...], int] = {}
    looks: dict[tuple[int, ...], list[Any]] = {}
    for row in rows:
        stack = row.stack if len(stacks) < MOST_STACKS and len(frames) < MOST_FRAMES else ()
        key = tuple(frames.setdefault(frame, len(frames)) for frame in stack)
        number = stacks.setdefault(key, len(stacks)) if key else -1
        total = looks.setdefault((*row[:4], number), [0, 0.0, 0.0, 0.0, []])
        for i, value in enumerate(row[5:-1]):
            total[i] += value
        total[-1] += row.moments[:: max(every, 1)]
    return {
        "frames": [list(frame) for frame in frames],
        "stacks": [list(stack) for stack in stacks],
        "looks": [
            [*key, int(n), *(round(each, 9) for each in s), moments]
            for key, (n, *s, moments) in looks.items()
        ],
        "not_seen": sorted(set(not_seen)),
    }


def unpacked(
    lines: Mapping[str, Any], *, first_loader: int = 0, shift_s: float = 0.0
) -> list[Looked]:
    """What ``packed`` was given, with these added to the numbers of loaders, and to the times."""
    shift_us = round(shift_s * 1e6)
    frames = [*starmap(Frame, lines["frames"])]
    stacks = {-1: tuple[Frame, ...]()}
    stacks |= {i: tuple(frames[each] for each in own) for i, own in enumerate(lines["stacks"])}
    found = []
    for rank, loader, worker, phase, stack, *numbers, moments in lines["looks"]:
        shifted = tuple(each + shift_us for each in moments)
        key = rank, loader + first_loader, worker, phase, stacks[stack]
        found.append(Looked._make((*key, *numbers, shifted)))
    return found


def of_these(
    meta: Mapping[str, Any], *, ranks: Collection[int] | None = None, loaders: Any = None
) -> dict[str, Any]:
    """The ``meta`` with what was seen in these ranks alone, or with other numbers of loaders.

    ``loaders``: a new number for each that gets one.
    """
    if not recorded(meta):
        return dict(meta)
    lines = dict(meta["lines"])
    looks = [row for row in lines["looks"] if ranks is None or row[0] in ranks]
    if loaders:
        looks = [[row[0], loaders.get(row[1], row[1]), *row[2:]] for row in looks]
    return {**meta, "lines": {**lines, "looks": looks}}


def may_be_lines(lines: Any) -> bool:
    """Whether ``packed`` may have returned this: it may come from a stranger's file."""
    if not isinstance(lines, Mapping):
        return False
    parts: list[Any] = [lines.get(name) for name in ("frames", "stacks", "looks", "not_seen")]
    if not all(isinstance(part, list) for part in parts):
        return False
    frames, stacks, looks, not_seen = parts
    kinds = (str, int, str, str, str)
    return (
        len(stacks) <= MOST_STACKS
        and len(frames) <= MOST_FRAMES + 1024
        and all(isinstance(each, list) and tuple(map(type, each)) == kinds for each in frames)
        and all(isinstance(each, list) and _are_numbers(each, len(frames)) for each in stacks)
        and all(_may_be_look(each, len(stacks)) for each in looks)
        and all(isinstance(each, str) for each in not_seen)
    )


def _may_be_look(look: Any, n_stacks: int) -> bool:
    if not isinstance(look, list) or len(look) != _NUMBERS or not isinstance(look[-1], list):
        return False
    if not all(type(each) in (int, float) and -1 <= each <= 1e12 for each in look[:-1]):
        return False
    whole = all(type(each) is int and abs(each) < 1e15 for each in (*look[:6], *look[-1]))
    return whole and 0 <= look[3] < len(PHASES) and look[4] < n_stacks


def _are_numbers(numbers: list[Any], below: int) -> bool:
    return all(type(each) is int and 0 <= each < below for each in numbers)
