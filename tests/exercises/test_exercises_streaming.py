"""The exercises of notebook 06: unsolved, solved, and with answers that only look right."""

from itertools import chain, cycle

import pytest

from loaderviz.exercises import streaming


def unsolved(paths, lines):
    return chain.from_iterable([list(lines(path)) for path in paths])


def once(paths, lines):
    return chain.from_iterable(map(lines, paths))


def kept_in_memory(paths, lines):
    return cycle(chain.from_iterable(map(lines, paths)))


def used_up(paths, lines):
    return chain.from_iterable(cycle(map(lines, paths)))


def solved(paths, lines):
    return chain.from_iterable(map(lines, cycle(paths)))


def solved_by_loops(paths, lines):
    while True:
        for path in paths:
            yield from lines(path)


def backwards(paths, lines):
    return chain.from_iterable(map(lines, cycle(paths[::-1])))


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (unsolved, False, "3 files were read for the first line"),
        (once, False, "ends after 12 lines"),
        (kept_in_memory, False, "keeps every line in memory"),
        (used_up, False, "for more, for ever"),
        (backwards, False, "should begin ['a0'"),
        (solved, True, "30 lines without end"),
        (solved_by_loops, True, "30 lines without end"),
    ],
)
def test_endless(answer, passed, says):
    check = streaming.endless(answer)
    assert check.passed is passed
    assert says in check.message


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (1, False, "more workers would be possible"),
        (2, False, "more workers would be possible"),
        (3, True, "3 workers, 2 slots each"),
        (4, False, "6 slots cannot be shared evenly by 4 workers"),  # as many as allowed
        (6, False, "1 to 4"),
        ("3", False, "1 to 4"),
    ],
)
def test_share_slots(answer, passed, says):
    check = streaming.share_slots(answer)
    assert check.passed is passed
    assert says in check.message
