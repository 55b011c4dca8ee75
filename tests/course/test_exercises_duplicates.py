"""The exercises of notebook 04: unsolved, solved, and with answers that only look right."""

import re

import pytest

from loaderviz import LoaderVizError, audit
from loaderviz.course import duplicates
from loaderviz.course.datasets import splits

SOLVED = {"A": "the same to every worker", "B": "nothing", "C": "drop_last"}


def no_remainder(data, worker, workers):
    each = len(data) // workers
    last = worker == workers - 1
    return data[worker * each :] if last else data[worker * each : (worker + 1) * each]


def overlapping(data, worker, workers):
    each = len(data) // workers
    return data[worker * each : (worker + 1) * each + 1]


def by_stride_of_two(data, worker, workers):
    return data[worker::2]


@pytest.mark.parametrize(
    ("answers", "passed", "says"),
    [
        (dict.fromkeys("ABC", "?"), False, "A: '.' is none of"),  # unsolved
        (SOLVED, True, "All three"),
        (SOLVED | {"A": "nothing"}, False, "A: 'nothing' is not it. 12 of 24 samples came"),
        (SOLVED | {"A": "all to every worker"}, False, "12 of 24 samples never arrived"),
        (SOLVED | {"B": "all to every worker"}, False, "B: .* Every sample came exactly once"),
        (SOLVED | {"C": "nothing"}, False, "C: .* 8 of 24 samples never arrived"),
        ({}, False, "A: None is none of"),
    ],
    ids=str,
)
def test_faults(answers, passed, says):
    check = duplicates.faults(answers)
    assert check.passed is passed
    assert re.search(says, check.message)


def test_loader_a_delivers_as_many_samples_as_there_are_and_yet_the_wrong_ones():
    found = audit(duplicates.loader("A"))
    assert len(found.deliveries) == found.n_samples == 24
    assert found.exactly_once is False
    assert audit(duplicates.loader("B")).exactly_once
    with pytest.raises(LoaderVizError, match="'D'"):
        duplicates.loader("D")


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (1, False, "more workers can do it"),  # unsolved
        (4, False, "more workers can do it"),  # the last of the table that loses no more
        (8, False, "39 of 103"),
        (12, False, "more workers can do it"),  # one for each full batch
        (13, True, "as with one"),
        (14, False, "Too much is lost"),
        (17, False, "1 to 16"),
        ("13", False, "1 to 16"),
    ],
)
def test_most_workers(answer, passed, says):
    check = duplicates.most_workers(answer)
    assert check.passed is passed
    assert says in check.message


@pytest.mark.parametrize(
    ("split", "passed", "says"),
    [
        (splits.by_floor, False, "num_workers=2: 1 of 17 samples never arrived"),  # unsolved
        (splits.by_stride, True, "Every sample came exactly once"),
        (splits.by_ceil, False, "nothing is lost, but the shares are 5, 5, 5, 2"),
        (no_remainder, False, "nothing is lost, but the shares are"),
        (overlapping, False, "num_workers=2: 1 of 17 samples came more than once"),
        (by_stride_of_two, False, "num_workers=1: 8 of 17 samples never arrived"),
        (lambda data, worker, workers: None, False, "split raised TypeError"),
        (lambda data, worker, workers: 17 * [worker], False, "17 samples, num_workers=2"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_fair(split, passed, says):
    check = duplicates.fair(split)
    assert says in check.message
    assert check.passed is passed
    assert check.figure is not None or "raised" in check.message


def test_a_balanced_split_in_stretches_is_right_too():
    def stretches(data, worker, workers):
        each, rest = divmod(len(data), workers)
        begin = worker * each + min(worker, rest)
        return data[begin : begin + each + (worker < rest)]

    assert duplicates.fair(stretches).passed
