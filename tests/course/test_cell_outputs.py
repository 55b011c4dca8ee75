"""What a cell shows: code without what distracts from it, and answers that are guessed first."""

import pytest

from loaderviz.course import guess_first, source
from loaderviz.course.cell_outputs import FoldedText


@pytest.fixture
def displayed(monkeypatch) -> list:
    shown: list = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    return shown


def test_what_is_printed_is_folded_and_not_printed(displayed, capsys):
    with guess_first():
        print("batch 5: worker <1>")
    with guess_first():  # shows nothing
        pass
    (answer,) = displayed
    assert capsys.readouterr().out == ""
    assert repr(answer) == "batch 5: worker <1>"
    assert "<details " in answer._repr_html_()
    assert "worker &lt;1&gt;" in answer._repr_html_()


def test_an_error_goes_on_after_what_was_printed_before_it(displayed):
    with pytest.raises(ZeroDivisionError), guess_first():
        raise ZeroDivisionError(print("so far"))
    assert displayed == [FoldedText("so far")]


class Shown:
    """Not shown."""

    kept = True

    def first(self):
        """Nor is this,

        over several lines.
        """
        # A comment stays.
        return 1

    def second(self):
        return 2


def three():
    """Not shown."""
    return 3


def test_code_is_shown_without_docstrings_and_with_comments():
    code = repr(source(Shown))
    beginning = "class Shown:\n    kept = True\n\n    def first(self):\n        # A comm"
    assert code.startswith(beginning)
    assert code.endswith("    def second(self):\n        return 2")
    assert repr(source(three)) == "def three():\n    return 3"


def test_some_methods_of_a_class_are_shown_in_the_order_asked_for():
    code = "class Shown:\n    def second(self):\n        return 2\n\n    def first(self):\n"
    assert repr(source(Shown, "second", "first")).startswith(code)
    assert source(Shown, "second")._repr_markdown_().startswith("```python\nclass Shown:\n    def")
