"""What a figure shows, for tests to look at."""

from typing import Any


def named(figure: Any, name: str) -> Any:
    """The one mark, line or area of this name."""
    (found,) = [trace for trace in figure.data if trace.name == name]
    return found
