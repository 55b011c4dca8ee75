"""One line that says how far something has come, and is gone when it is over.

In a terminal it is on stderr, in a notebook below the cell. Nothing is shown where stderr is a
file, in which no line can be wiped out, nor with ``TQDM_DISABLE``, by which people switch off all
such lines.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType
from typing import Any, Self

from loaderviz.text import duration

SHOW_AFTER_S = 1.0  # what is done sooner needs no line
EVERY_S = 0.1  # between two texts: more often nobody can read


class StatusLine:
    """Shows each text in place of the one before."""

    def __init__(self) -> None:
        shell: Any = "IPython" in sys.modules and sys.modules["IPython"].get_ipython()
        self._in_cell = hasattr(shell, "kernel")
        in_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shown = (self._in_cell or in_terminal) and not os.environ.get("TQDM_DISABLE")
        self._handle: Any = None  # of what is below the cell

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.write("")

    def write(self, line: str) -> None:
        """Show this line; an empty one removes the line before."""
        if self._shown and self._in_cell:
            self._write_in_cell(line)
        elif self._shown:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{line[:width]:{width}}\r", end="", file=sys.stderr, flush=True)

    def _write_in_cell(self, line: str) -> None:
        """As text: of a widget that is closed, a notebook that is opened again reports an error."""
        from IPython.display import display

        if self._handle is not None:
            self._handle.update({"text/plain": line} if line else {"text/html": ""}, raw=True)
        elif line:
            self._handle = display({"text/plain": line}, raw=True, display_id=True)


class Progress(StatusLine):
    """Counts steps: ``epoch 0 of 2: 34 of 60 batches, 2.1 s left``, once it takes over a second.

    ``total`` is the number of steps; None: it is not known.
    """

    def __init__(self, description: str, unit: str, total: int | None = None) -> None:
        super().__init__()
        self._description, self._unit, self._total = description, unit, total
        self._n = 0
        self._begun = time.monotonic()
        self._next = self._begun + SHOW_AFTER_S

    def advance(self) -> None:
        """Count one more step."""
        self._n += 1
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + EVERY_S
        n, left = f"{self._n:,}", ""
        if self._total is not None:
            left_s = (now - self._begun) / self._n * max(self._total - self._n, 0)
            n, left = f"{n} of {self._total:,}", f", {duration(left_s)} left"
        self.write(f"{self._description}: {n} {self._unit}{left}")
