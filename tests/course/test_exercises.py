"""Each exercise's check: unsolved, solved, and with answers that only look right."""

import pytest

from loaderviz.course import first_look
from loaderviz.course.hints import Check, Hints


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (0, False, "the model waits"),
        (3, False, "the model waits"),  # nearly keeps up
        (4, True, "no worker is spare"),
        (6, False, "fewer workers would do"),  # the model is busy, and yet
    ],
)
def test_first_look_enough_workers(answer, passed, says):
    check = first_look.enough_workers(answer)
    assert check.passed is passed
    assert says in check.message
    title = check.figure.layout.title.text.removeprefix("<b>").removesuffix("</b>")
    assert title in check.message  # they never contradict each other


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


def test_no_line_of_a_check_or_a_hint_is_so_long_that_a_notebook_breaks_it_within_a_word(capsys):
    text = " ".join(["a word of an explanation"] * 12)
    Check(False, f"{text}\n{text}")._ipython_display_()
    Hints(text)()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 6
    assert max(map(len, lines)) <= 80
