"""Exercises of notebook 06: an endless stream that opens files as it goes, slots shared evenly."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from loaderviz._plot_timings import plot_timings
from loaderviz.datasets import MultiStreamDataLoader, SlotStreams
from loaderviz.errors import LoaderVizError
from loaderviz.exercises.hints import Check, Hints
from loaderviz.figures.teaching.slots import Slots

FILES, LINES = 3, 4
ROUNDS = 2.5

SLOTS, MOST_WORKERS = 6, 4
SEQUENCES = [range(10 * k, 10 * k + 4 + k % 5) for k in range(1, 25)]
N_BATCHES = 12

endless_hint = Hints(
    "a list in square brackets is made at once. Which of itertools' functions, and which built-in, "
    "take one item after the other?",
    "map(lines, paths) opens nothing until its next item is asked for.",
    "what has to begin anew without end: the lines, the opened files, or the paths?",
)

share_hint = Hints(
    "each worker has the same number of slots. Which numbers divide 6?",
    "of 1, 2, 3 and 6, take the largest that is not above 4.",
)


class _Lines:
    """Reads a file, line by line; written down when its first line is asked for."""

    def __init__(self, path: Path, opened: list[str]) -> None:
        self._path, self._opened = path, opened
        self._left: Iterator[str] | None = None
        self._ends = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if self._left is None:
            self._opened.append(self._path.name)
            self._left = iter(self._path.read_text("utf-8").splitlines())
        for line in self._left:
            return line
        self._ends += 1
        if self._ends > 2:  # a loop that would never end, with nothing to stop it
            raise _UsedUpError
        raise StopIteration


class _UsedUpError(Exception):
    """A file that has been read to its end is asked for more, again and again."""


def endless(
    stream: Callable[[list[Path], Callable[[Path], Iterator[str]]], Iterable[str]],
) -> Check:
    """Does ``stream(paths, lines)`` go on without end, opening each file when its turn comes?"""
    opened: list[str] = []
    with tempfile.TemporaryDirectory(prefix="loaderviz-") as folder:
        paths = [Path(folder, f"{name}.txt") for name in "abc"]
        for path in paths:
            path.write_text("".join(f"{path.stem}{i}\n" for i in range(LINES)))
        once = [f"{path.stem}{i}" for path in paths for i in range(LINES)]
        wanted = round(ROUNDS * len(once))
        try:
            lines = iter(stream(paths, lambda path: _Lines(path, opened)))
            got = list(islice(lines, 1))
            opened_first = len(opened)
            got += islice(lines, wanted - 1)
        except _UsedUpError:
            return Check(
                False,
                "Not yet: the second round asks the files that were opened in the first one for "
                "more, for ever. Open them anew.",
            )
    expected = [once[i % len(once)] for i in range(wanted)]
    if got != expected[: len(got)]:
        return Check(False, f"Not yet: the lines should begin {expected[:6]}, but were {got[:6]}.")
    if opened_first != 1:
        return Check(False, f"Not yet: {opened_first} files were read for the first line.")
    if len(got) < wanted:
        return Check(False, f"Not yet: the stream ends after {len(got)} lines.")
    rounds = len(opened) / FILES
    if rounds < ROUNDS:
        return Check(
            False,
            f"Not yet: {wanted} lines came, but only {len(opened)} files were opened: the stream "
            "keeps every line in memory.",
        )
    return Check(True, f"{wanted} lines without end, and {len(opened)} times a file was opened.")


def share_slots(workers: int) -> Check:
    """Run six slots with so many workers: does every slot go on, with as many as possible?"""
    if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
        return Check(False, f"workers={workers!r}: give a whole number, 1 to {MOST_WORKERS}.")
    dataset = SlotStreams(SEQUENCES, SLOTS, order="dealt", sample_s=0.01)
    try:
        parts = dataset.split(workers)
    except LoaderVizError as error:
        return Check(False, f"Not yet: {error}.")
    seen: list[Any] = []
    figure = plot_timings(_Kept(MultiStreamDataLoader(parts), seen), 0.01, N_BATCHES)
    slots = Slots.of(seen[:N_BATCHES], SEQUENCES)
    assert slots.breaks == 0
    if workers < max(n for n in range(1, MOST_WORKERS + 1) if SLOTS % n == 0):
        return Check(False, "Every slot goes on, but more workers would be possible.", figure)
    return Check(
        True, f"{workers} workers, {SLOTS // workers} slots each. {slots.verdict}.", figure
    )


class _Kept:
    """Iterates a loader and keeps what it yields."""

    def __init__(self, loader: Iterable[Any], seen: list[Any]) -> None:
        self._loader, self._seen = loader, seen

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            self._seen.append(batch)
            yield batch
