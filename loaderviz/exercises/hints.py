"""What every exercise shares: the outcome of a check, and hints given one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class Check:
    """Whether an answer is right, in words, with the picture that shows it."""

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
    """Call it for the next hint; past the last one it begins anew."""

    def __init__(self, *hints: str) -> None:
        self._hints = hints
        self._given = 0

    def __call__(self) -> None:
        number = self._given % len(self._hints)
        self._given += 1
        print(f"Hint {number + 1} of {len(self._hints)}: {self._hints[number]}")
