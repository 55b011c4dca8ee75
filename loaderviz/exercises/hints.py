"""What all exercises use: the result of a check, and hints that are given one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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

        print(repr(self))
        if self.figure is not None:
            display(self.figure)


class Hints:
    """Hints that are given one at a time: each call prints the next one."""

    def __init__(self, *hints: str) -> None:
        self._hints = hints
        self._given = 0

    def __call__(self) -> None:
        """Print the next hint and its number; after the last one, the first again."""
        number = self._given % len(self._hints)
        self._given += 1
        print(f"Hint {number + 1} of {len(self._hints)}: {self._hints[number]}")
