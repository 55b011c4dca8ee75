"""The exercises of notebook 06: unsolved, solved, and with answers that only look right."""

from itertools import chain, cycle

import pytest

from loaderviz.course import streaming


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


def without_return(paths, lines):
    map(lines, cycle(paths))


def number(paths, lines):
    return 3


def misspelt(paths, lines):
    return chain.from_iterable(map(lines, cycle(path)))  # noqa: F821


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (unsolved, False, "3 files were read for the first line"),
        (once, False, "ends after 12 lines"),
        (kept_in_memory, False, "keeps every line in memory"),
        (used_up, False, "for more, for ever"),
        (backwards, False, "should begin ['a0'"),
        (without_return, False, "stream returned nothing. It has to yield"),
        (number, False, "stream returned int 3"),
        (misspelt, False, "your code raised NameError: name 'path' is not defined"),
        (misspelt, False, "in misspelt, line"),
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
        (lambda slots, most: most, False, "room for 4 workers: workers_for gives 4, but 4 does"),
        (lambda slots, most: 1, False, "That works, but 3 would, too"),
        (lambda slots, most: 3, False, "8 slots and room for 4 workers: workers_for gives 3"),
        (lambda slots, most: slots, False, "workers_for gives 6. Give a whole number, 1 to 4"),
        (lambda slots, most: None, False, "workers_for gives None. Give a whole number, 1 to 4"),
        (lambda slots, most: 6 / 0, False, "your code raised ZeroDivisionError"),
        (
            lambda slots, most: max(n for n in range(1, most + 1) if slots % n == 0),
            True,
            "6 slots, 3 workers, 2 slots each. Every slot goes on",
        ),
    ],
)
def test_share_slots(answer, passed, says):
    check = streaming.share_slots(answer)
    assert check.passed is passed
    assert says in check.message
