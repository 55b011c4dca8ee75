"""Answers are folded until the reader opens them."""

import pytest

from loaderviz.course import guess_first
from loaderviz.course.folded_answers import FoldedText


@pytest.fixture
def displayed(monkeypatch) -> list:
    shown: list = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    return shown


def test_what_is_printed_is_folded_and_not_printed(displayed, capsys):
    with guess_first():
        print("batch 5: worker <1>")
    (answer,) = displayed
    assert capsys.readouterr().out == ""
    assert repr(answer) == "batch 5: worker <1>"
    assert "<details" in answer._repr_html_()
    assert "<details open" not in answer._repr_html_()
    assert "worker &lt;1&gt;" in answer._repr_html_()


def test_an_error_goes_on_after_what_was_printed_before_it(displayed):
    with pytest.raises(ZeroDivisionError), guess_first():
        raise ZeroDivisionError(print("so far"))
    assert displayed == [FoldedText("so far")]


def test_a_block_that_prints_nothing_shows_nothing(displayed):
    with guess_first():
        pass
    assert displayed == []
