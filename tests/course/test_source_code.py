"""The code that a notebook shows is the code that runs, without what distracts from it."""

import pytest

from loaderviz import LoaderVizError
from loaderviz.course import source


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


def test_a_class_is_shown_without_its_docstrings_and_with_its_comments():
    code = repr(source(Shown))
    assert code.startswith(
        "class Shown:\n    kept = True\n\n    def first(self):\n        # A comm"
    )
    assert code.endswith("    def second(self):\n        return 2")


def test_some_methods_of_a_class_are_shown_in_the_order_asked_for():
    code = "class Shown:\n    def second(self):\n        return 2\n\n    def first(self):\n"
    assert repr(source(Shown, "second", "first")).startswith(code)
    assert source(Shown, "second")._repr_markdown_().startswith("```python\nclass Shown:\n    def")


def three():
    """Not shown."""
    return 3


def test_a_function_is_shown_and_a_method_that_is_not_there_is_named():
    assert repr(source(three)) == "def three():\n    return 3"
    with pytest.raises(LoaderVizError, match="does not define third: it has first, second"):
        source(Shown, "third")
