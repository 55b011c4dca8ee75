"""A part of an answer that fails costs that part alone: a word says so in its place.

Under tests it raises: what is swallowed there would never be mended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, TypeVar

from loaderviz.errors import LoaderVizError
from loaderviz.own_errors import own_errors

RAISE: Final = "LOADERVIZ_RAISE_FAILED_PARTS"  # in the environment: set for our tests

Part = TypeVar("Part")


def part(name: str, work_out: Callable[[], Part], otherwise: Part, failed: list[str]) -> Part:
    """What ``work_out`` returns; where it fails ``otherwise``, and ``failed`` has a word on it.

    ``name`` is what it works out, as in "the causes of waiting".
    """
    try:
        return work_out()
    except own_errors(Exception) as error:
        raise_in_tests()
        failed.append(not_worked_out(name, error))
        return otherwise


def raise_in_tests() -> None:
    """Raise the exception that is being handled, where tests run."""
    error = sys.exception()
    if error is not None and os.environ.get(RAISE):
        raise error


def not_worked_out(name: str, error: Exception) -> str:
    """The word on a part that failed, without a full stop."""
    why = f": {error}" if isinstance(error, LoaderVizError) else f" ({type(error).__name__})"
    return f"{name} could not be worked out{why}"
