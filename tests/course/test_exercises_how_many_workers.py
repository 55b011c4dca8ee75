"""The exercises of notebook 07: unsolved, solved, and with answers that only look right."""

import sys

import numpy as np
import pytest
from torch.utils.data import DataLoader

from loaderviz.course import how_many_workers
from loaderviz.course.in_a_worker import own_mib, threads, two_threads


@pytest.mark.parametrize(
    ("answers", "passed", "says"),
    [
        ({"A": "?", "B": "?", "C": "?"}, False, "'?' is none of the CPU, waiting, the model"),
        ({}, False, "None is none of"),
        ({"A": "the CPU", "B": "the model", "C": "waiting"}, False, "A is not limited by the CPU"),
        ({"A": "waiting", "B": "waiting", "C": "the CPU"}, False, "B is not limited by waiting"),
        ({"A": "waiting", "B": "the model", "C": "the CPU"}, True, "A waits"),
    ],
)
def test_limits(answers, passed, says):
    check = how_many_workers.limits(answers)
    assert check.passed is passed
    assert says in check.message
    assert (check.figure is not None) == ("is not limited" in says)


def test_the_loaders_are_what_the_solution_says():
    waits, slow, computes = (how_many_workers.recording(name) for name in "ABC")
    # As much of both is read, and a worker that waits for a core uses none of it.
    cpu_s = [each.batches["cpu_s"].sum() for each in (waits, computes)]
    assert slow.summary().wait_share < 0.5 < waits.summary().wait_share
    assert computes.summary().wait_share > 0.5
    assert cpu_s[1] > 2 * cpu_s[0]


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (4, False, "63 %"),  # what both rules say
        (6, False, "Not yet"),  # rounded down
        (7, True, "keep the model busy"),
        (8, False, "fewer workers are as fast"),
    ],
)
def test_fewest(answer, passed, says):
    check = how_many_workers.fewest(answer)
    assert check.passed is passed
    assert says in check.message
    assert check.figure is not None


@pytest.mark.parametrize("answer", [-1, 17, 2.5, "many", None, True])
def test_an_answer_that_is_no_number_of_workers_is_told(answer):
    check = how_many_workers.fewest(answer)
    assert not check.passed
    assert "0 to 16" in check.message


@pytest.mark.skipif(sys.platform != "linux", reason="measured in forked workers, on Linux")
@pytest.mark.parametrize(
    ("pack", "passed"),
    [
        (lambda words: words, False),  # unsolved
        (tuple, False),
        (lambda words: np.array(words, dtype=object), False),  # an array, and yet of objects
        (lambda words: np.array(words, dtype="S16"), True),
        (np.array, True),  # four bytes a letter, and yet one block
    ],
    ids=["unsolved", "tuple", "objects", "bytes", "unicode"],
)
def test_stays_shared(pack, passed):
    check = how_many_workers.stays_shared(pack)
    assert check.passed is passed, check.figure.layout.title.text
    assert check.figure is not None


@pytest.mark.parametrize(
    ("pack", "says"),
    [
        (lambda words: np.array(words, dtype="S8"), "Word 0 should be"),
        (lambda words: np.array(words[:-1] + words[-1:] * 2, dtype="S16"), "came out"),
        (lambda words: words[:-1], "199,999 came out"),
        (lambda words: None, "raised TypeError"),
        (lambda words: dict.fromkeys(words), "raised KeyError: 0"),
        (lambda words: words.split(), "raised AttributeError: 'list'"),
    ],
    ids=["cut off", "one more", "one less", "nothing", "not to be read", "raises"],
)
def test_words_that_are_not_those_given_are_told(pack, says):
    check = how_many_workers.stays_shared(pack)
    assert not check.passed
    assert says in check.message


def test_a_worker_computes_with_one_thread_unless_told():
    loader = DataLoader(range(2), num_workers=2, collate_fn=threads)
    assert list(loader) == [1, 1]
    told = DataLoader(range(2), num_workers=2, collate_fn=threads, worker_init_fn=two_threads)
    assert list(told) == [2, 2]


def test_own_memory_is_some():
    assert own_mib([]) > 1
