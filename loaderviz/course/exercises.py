"""What all exercises use: the result of a check, how an answer is refused, and hints.

A check is a function of the reader's answer that returns a ``Check``. Under ``explains_errors`` it
may simply run the reader's code, and refuse an answer with a ``LoaderVizError``.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

import torch

from loaderviz.errors import LoaderVizError
from loaderviz.text import wrapped

Arguments = ParamSpec("Arguments")
NOT_THE_READERS = [Path(__file__).parents[1], Path(torch.__file__).parent]


@dataclass(frozen=True, repr=False)
class Check:
    """Whether an answer is right, why, and a figure that shows it; drawn at the end of a cell."""

    passed: bool
    message: str
    figure: Any = None

    def __repr__(self) -> str:
        return f"{'✓' if self.passed else '✗'} {self.message}"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        print("\n".join(wrapped(line, hanging=2) for line in repr(self).splitlines()))
        if self.figure is not None:
            display(self.figure)


def explains_errors(check: Callable[Arguments, Check]) -> Callable[Arguments, Check]:
    """A check that says why it refuses an answer, or what the reader's code raised, and where."""

    @functools.wraps(check)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Check:
        try:
            return check(*args, **kwargs)
        except LoaderVizError as error:
            return Check(False, str(error))
        except (Exception, SystemExit) as error:  # raised by the reader's code
            return Check(False, f"Not yet: {_explanation(error)}")

    return run


def _explanation(error: BaseException) -> str:
    """What was raised, and the last line of the reader's code that was on the way."""
    raised = f"your code raised {type(error).__name__}: {error}".splitlines()[0]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if frame.line and not any(path.is_relative_to(folder) for folder in NOT_THE_READERS):
            return f"{raised}\n  in {frame.name}, line {frame.lineno}: {frame.line}"
    return raised


def whole_number_between(name: str, answer: Any, least: int, most: int) -> None:
    """Refuse an answer that is no whole number of this range.

    Raises:
        LoaderVizError: for anything else.
    """
    if type(answer) is not int or not least <= answer <= most:
        raise LoaderVizError(f"{name}={answer!r}: give a whole number, {least} to {most}")


def first_wrong(
    answers: Mapping[str, str], right: Mapping[str, str], choices: Sequence[str]
) -> str | None:
    """The first letter whose answer is not the right one; None if all are right.

    Raises:
        LoaderVizError: for an answer before it that is none of the choices.
    """
    for letter, expected in right.items():
        answer = answers.get(letter)
        if answer not in choices:
            raise LoaderVizError(f"{letter}: {answer!r} is none of {', '.join(map(repr, choices))}")
        if answer != expected:
            return letter
    return None


class Hints:
    """Hints that are given one at a time: each call prints the next one."""

    def __init__(self, *hints: str) -> None:
        self._hints = hints
        self._given = 0

    def __call__(self) -> None:
        """Print the next hint and its number; after the last one, the first again."""
        number = self._given % len(self._hints)
        self._given += 1
        print(wrapped(f"Hint {number + 1} of {len(self._hints)}: {self._hints[number]}"))
