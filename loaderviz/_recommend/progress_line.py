"""A line that says which setting runs now: in a terminal or in a notebook, and nowhere else."""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType
from typing import Any, Self

from loaderviz._audit.progress_bar import CellOutput


class ProgressLine:
    """Shows ``recommend: 12 of 30 s, 4 workers``, each text in place of the one before.

    Nothing where stdout is a file, in which no line can be wiped out, nor with ``TQDM_DISABLE``.

    Args:
        begun: a time of ``time.monotonic``, in seconds.
        budget_s: how long it may take from there on.
    """

    def __init__(self, begun: float, budget_s: float) -> None:
        self._begun, self._budget_s = begun, budget_s
        self._cell: CellOutput | None = None
        shell: Any = "IPython" in sys.modules and sys.modules["IPython"].get_ipython()
        self._shown = not os.environ.get("TQDM_DISABLE")
        if hasattr(shell, "kernel"):
            self._cell = CellOutput()
        else:
            self._shown &= bool(sys.stdout.isatty())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._write("")

    def show(self, what: str) -> None:
        """Say what is run now."""
        seconds = time.monotonic() - self._begun
        self._write(f"recommend: {seconds:.0f} of {self._budget_s:g} s, {what}")

    def _write(self, line: str) -> None:
        if not self._shown:
            return
        if self._cell is not None:
            self._cell.write(line)
            return
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:width]:{width}}\r", end="", flush=True)
