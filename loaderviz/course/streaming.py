"""Exercises of notebook 06: an endless stream that opens files as it goes, and slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, repeat
from pathlib import Path

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.figures import Slots

LINES = 4  # of each file
ROUNDS = 2.5  # how often the exercise reads all files


endless_hint = Hints(
    "a list in square brackets is made at once. Which of itertools' functions, and which built-in, "
    "take one item after another?",
    "map(lines, paths) opens nothing until its next item is asked for.",
    "what has to be repeated without end: the lines, the opened files, or the paths?",
)
dealt_hint = Hints(
    "deal the sequences like cards: which ones does slot 1 of 3 get?",
    "1, 4, 7 and so on: sequences[1::3].",
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
def dealt(streams: Callable[[Sequence[range], int], Iterable[Iterable[int]]]) -> Check:
    """Whether ``streams(sequences, n_slots)`` keeps sequences whole, and each sample comes once.

    It returns one stream for each slot. Shows the slots of the first batches that are wrong.
    """
    sequences = [range(10 * k, 10 * k + 4 + k % 3) for k in range(1, 7)]
    samples = sorted(chain.from_iterable(sequences))
    for n_slots in (2, 3):
        made = [list(islice(each, len(samples) + 1)) for each in streams(sequences, n_slots)]
        if len(made) != n_slots:
            return Check(False, f"Not yet: {n_slots} slots got {len(made)} streams.")
        if [] in made:
            return Check(False, f"Not yet, {n_slots} slots: slot {made.index([])} gets nothing.")
        slots = Slots.of(zip(*made, strict=False), sequences)
        if slots.breaks or slots.repeats:
            return Check(False, f"Not yet, {n_slots} slots: {slots.verdict}.", slots.figure())
        # That was as far as the shortest goes.
        begins, ends = ({each[i] for each in sequences} for i in (0, -1))
        for slot, (before, after) in chain.from_iterable(
            zip(repeat(slot), pairwise(own)) for slot, own in enumerate(made)
        ):
            if after != before + 1 and not (before in ends and after in begins):
                torn = f"slot {slot} has {after} after {before}"
                return Check(False, f"Not yet, {n_slots} slots: {torn}.", slots.figure())
        came = sorted(chain.from_iterable(made))
        if came != samples:
            wrong = next(each for each in samples if came.count(each) != 1)
            times = came.count(wrong)
            return Check(False, f"Not yet, {n_slots} slots: sample {wrong} comes {times} times.")
    return Check(True, "With 2 and 3 slots each sample comes once, and no sequence is torn.")
