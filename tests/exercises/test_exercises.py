"""Each exercise's check: unsolved, solved, and with answers that only look right."""

import pytest

from loaderviz.exercises import first_look
from loaderviz.exercises.hints import Hints


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (0, False, "Not yet: the model waits"),
        (2, False, "Not yet: the model waits"),  # nearly keeps up
        (3, True, "the model never waits"),
        (5, False, "fewer workers would do"),  # the model is busy, and yet
    ],
)
def test_first_look_enough_workers(answer, passed, says):
    check = first_look.enough_workers(answer)
    assert check.passed is passed
    assert says in check.message
    assert check.figure is not None


@pytest.mark.parametrize("answer", [-1, 17, "three", None])
def test_an_answer_that_is_no_number_of_workers_is_told(answer):
    check = first_look.enough_workers(answer)
    assert not check.passed
    assert "0 to 16" in check.message


def test_hints_come_one_at_a_time(capsys):
    hint = Hints("look", "think")
    for _ in range(3):
        hint()
    assert capsys.readouterr().out.splitlines() == [
        "Hint 1 of 2: look",
        "Hint 2 of 2: think",
        "Hint 1 of 2: look",
    ]
