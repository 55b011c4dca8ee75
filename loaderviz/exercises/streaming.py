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

FILES, LINES = 3, 4  # files, and lines in each
ROUNDS = 2.5  # how often the exercise reads all of them

SLOTS, MOST_WORKERS = 6, 4
SEQUENCES = [range(10 * k, 10 * k + 4 + k % 5) for k in range(1, 25)]
N_BATCHES = 12

endless_hint = Hints(
    "a list in square brackets is made at once. Which of itertools' functions, and which built-in, "
    "take one item after another?",
    "map(lines, paths) opens nothing until its next item is asked for.",
    "what has to be repeated without end: the lines, the opened files, or the paths?",
)

share_hint = Hints(
    "each worker has the same number of slots. Which numbers divide 6?",
    "of 1, 2, 3 and 6, take the largest that is not above 4.",
)


class _Lines:
    """The lines of a file; the file's name goes to ``opened`` when the first line is asked for."""

    def __init__(self, path: Path, opened: list[str]) -> None:
        self._path, self._opened = path, opened
        self._lines: Iterator[str] | None = None
        self._n_ends = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if self._lines is None:
            self._opened.append(self._path.name)
            self._lines = iter(self._path.read_text("utf-8").splitlines())
        for line in self._lines:
            return line
        self._n_ends += 1
        if self._n_ends > 2:  # the reader's loop would go on for ever and yield nothing
            raise _UsedUpError
        raise StopIteration


class _UsedUpError(Exception):
    """A file that has been read to its end is asked for more lines again and again."""


def endless(
    stream: Callable[[list[Path], Callable[[Path], Iterator[str]]], Iterable[str]],
) -> Check:
    """Whether ``stream(paths, lines)`` repeats all lines without end, opening files one by one.

    ``lines(path)`` yields the lines of a file. Each file may be opened only when its turn comes.
    """
    opened: list[str] = []
    with tempfile.TemporaryDirectory(prefix="loaderviz-") as folder:
        paths = [Path(folder, f"{name}.txt") for name in "abc"]
        for path in paths:
            path.write_text("".join(f"{path.stem}{i}\n" for i in range(LINES)))
        one_round = [f"{path.stem}{i}" for path in paths for i in range(LINES)]
        n_expected = round(ROUNDS * len(one_round))
        try:
            stream_lines = iter(stream(paths, lambda path: _Lines(path, opened)))
            lines = list(islice(stream_lines, 1))
            n_opened_first = len(opened)
            lines += islice(stream_lines, n_expected - 1)
        except _UsedUpError:
            return Check(
                False,
                "Not yet: the second round asks the files that were opened in the first one for "
                "more, for ever. Open them again.",
            )
    expected = [one_round[i % len(one_round)] for i in range(n_expected)]
    if lines != expected[: len(lines)]:
        begin = f"the lines should begin {expected[:6]}, but were {lines[:6]}"
        return Check(False, f"Not yet: {begin}.")
    if n_opened_first != 1:
        return Check(False, f"Not yet: {n_opened_first} files were read for the first line.")
    if len(lines) < n_expected:
        return Check(False, f"Not yet: the stream ends after {len(lines)} lines.")
    if len(opened) < ROUNDS * FILES:
        return Check(
            False,
            f"Not yet: {n_expected} lines came, but only {len(opened)} files were opened: the "
            "stream keeps every line in memory.",
        )
    message = f"{n_expected} lines without end, and a file was opened {len(opened)} times."
    return Check(True, message)


def share_slots(workers: int) -> Check:
    """Whether this is the most workers, up to 4, that can share six slots evenly; runs them."""
    if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
        return Check(False, f"workers={workers!r}: give a whole number, 1 to {MOST_WORKERS}.")
    dataset = SlotStreams(SEQUENCES, SLOTS, order="dealt", sample_s=0.01)
    try:
        parts = dataset.split(workers)
    except LoaderVizError as error:
        return Check(False, f"Not yet: {error}.")
    batches: list[Any] = []
    figure = plot_timings(_KeepBatches(MultiStreamDataLoader(parts), batches), 0.01, N_BATCHES)
    slots = Slots.of(batches[:N_BATCHES], SEQUENCES)
    assert slots.breaks == 0
    if workers < max(n for n in range(1, MOST_WORKERS + 1) if SLOTS % n == 0):
        return Check(False, "Every slot goes on, but more workers would be possible.", figure)
    return Check(
        True, f"{workers} workers, {SLOTS // workers} slots each. {slots.verdict}.", figure
    )


class _KeepBatches:
    """Iterates a loader and appends what it yields to ``batches``."""

    def __init__(self, loader: Iterable[Any], batches: list[Any]) -> None:
        self._loader, self._batches = loader, batches

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            self._batches.append(batch)
            yield batch
