"""Exercises of notebook 06: an endless stream that opens files as it goes, slots shared evenly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from loaderviz.course.datasets import MultiStreamDataLoader, SlotStreams
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.figures.slots import Slots
from loaderviz.figures import timeline
from loaderviz.recorder import record

LINES = 4  # of each file
ROUNDS = 2.5  # how often the exercise reads all files

# Slots of a batch, and the most workers that the machine has room for.
CASES = ((6, 4), (8, 4), (7, 4), (12, 5), (2, 16))
SEQUENCES = [range(10 * k, 10 * k + 4 + k % 5) for k in range(1, 25)]

endless_hint = Hints(
    "a list in square brackets is made at once. Which of itertools' functions, and which built-in, "
    "take one item after another?",
    "map(lines, paths) opens nothing until its next item is asked for.",
    "what has to be repeated without end: the lines, the opened files, or the paths?",
)

share_hint = Hints(
    "each worker has the same number of slots. Which numbers divide 6?",
    "of 1, 2, 3 and 6, take the largest that is not above 4.",
    "n divides slots if slots % n == 0; max() takes the largest of what a generator yields.",
)


class _Lines:
    """The lines of a file; the file's name goes to ``opened`` when the first line is asked for."""

    def __init__(self, name: str, opened: list[str]) -> None:
        self._name, self._opened = name, opened
        self._n_asked = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if not self._n_asked:
            self._opened.append(self._name)
        self._n_asked += 1
        if self._n_asked <= LINES:
            return f"{self._name}{self._n_asked - 1}"
        if self._n_asked > LINES + 2:  # the reader's loop would go on for ever and yield nothing
            raise _UsedUpError
        raise StopIteration


class _UsedUpError(Exception):
    """A file that has been read to its end is asked for more lines again and again."""


@explains_errors
def endless(
    stream: Callable[[list[Path], Callable[[Path], Iterator[str]]], Iterable[str]],
) -> Check:
    """Whether ``stream(paths, lines)`` repeats all lines without end, opening files one by one.

    ``lines(path)`` yields the lines of a file. Each file may be opened only when its turn comes.
    """
    opened: list[str] = []
    paths = [Path(f"{name}.txt") for name in "abc"]
    one_round = [f"{path.stem}{i}" for path in paths for i in range(LINES)]
    n_expected = round(ROUNDS * len(one_round))
    made = stream(paths, lambda path: _Lines(path.stem, opened))
    if made is None:
        return Check(False, "Not yet: stream returned nothing. It has to yield or return lines.")
    try:
        stream_lines = iter(made)
        lines = list(islice(stream_lines, 1))
        n_opened_first = len(opened)
        lines += islice(stream_lines, n_expected - 1)
    except _UsedUpError:
        message = "the second round asks the files opened in the first one for more, for ever."
        return Check(False, f"Not yet: {message} Open them again.")
    expected = [one_round[i % len(one_round)] for i in range(n_expected)]
    if lines != expected[: len(lines)]:
        message = f"the lines should begin {expected[:6]}, but were {lines[:6]}"
        return Check(False, f"Not yet: {message}.")
    if n_opened_first != 1:
        return Check(False, f"Not yet: {n_opened_first} files were read for the first line.")
    if len(lines) < n_expected:
        return Check(False, f"Not yet: the stream ends after {len(lines)} lines.")
    if len(opened) < ROUNDS * len(paths):
        message = f"{n_expected} lines came, but only {len(opened)} files were opened"
        return Check(False, f"Not yet: {message}: the stream keeps every line in memory.")
    message = f"{n_expected} lines without end, and a file was opened {len(opened)} times."
    return Check(True, message)


@explains_errors
def share_slots(workers_for: Callable[[int, int], int]) -> Check:
    """Whether ``workers_for(slots, most)`` is the most workers, up to ``most``, to share the slots.

    The slots have to be shared evenly. The first case is run.
    """
    for slots, most in CASES:
        workers = workers_for(slots, most)
        case = f"{slots} slots and room for {most} workers: workers_for gives {workers!r}"
        if type(workers) is not int or not 1 <= workers <= most:
            return Check(False, f"{case}. Give a whole number, 1 to {most}.")
        if slots % workers:
            return Check(False, f"{case}, but {workers} does not divide {slots}.")
        best = max(n for n in range(1, most + 1) if slots % n == 0)
        if workers < best:
            return Check(False, f"{case}. That works, but {best} would, too.")
    slots, most = CASES[0]
    workers = workers_for(slots, most)
    dataset = SlotStreams(SEQUENCES, slots, order="dealt", sample_s=0.01)
    loader = MultiStreamDataLoader(dataset.split(workers))
    batches = []
    with record(loader) as rec:
        for batch in islice(loader, 12):
            batches.append(batch)
            time.sleep(0.01)
    verdict = Slots.of(batches, SEQUENCES).verdict
    message = f"{slots} slots, {workers} workers, {slots // workers} slots each. {verdict}."
    return Check(True, message, timeline(rec.trace))
