"""A progress bar, if something takes longer than a second: in a terminal or in a notebook."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import Any, Self

from loaderviz.clocks.process_clock import now

SHOW_AFTER_NS = 1_000_000_000
WHAT_IS_DONE = "{desc}: {n_fmt} of {total_fmt}{unit}{postfix}"  # of tqdm, in place of a bar


class Progress:
    """Counts steps, and after a second shows a tqdm bar on stderr or in the notebook.

    Where stderr is no terminal but a file, say, there is none: it could not be wiped out there.

    ``total`` is the number of steps; None: it is not known. ``shape`` is a ``bar_format`` of tqdm.
    """

    def __init__(
        self, description: str, unit: str, total: int | None = None, *, shape: str | None = None
    ) -> None:
        self._description, self._unit, self._total = description, unit, total
        self._shape = shape
        self._n = 0
        self._show_at = now() + SHOW_AFTER_NS
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self) -> None:
        """Count one more step."""
        self._n += 1
        if self._is_shown():
            self._bar.update(self._n - self._bar.n)

    def reach(self, n: int, doing: str) -> None:
        """So many steps are done, and what is done now follows."""
        self._n = n
        if self._is_shown():
            self._bar.n = n
            self._bar.set_postfix_str(doing)

    def _is_shown(self) -> bool:
        if self._bar is None and now() >= self._show_at:
            self._bar = _bar_class()(
                total=self._total,
                initial=self._n,
                desc=self._description,
                unit=f" {self._unit}",
                leave=False,
                bar_format=self._shape,
                # tqdm reads that at import only; None: it asks whether this is a terminal.
                disable=bool(os.environ.get("TQDM_DISABLE")) or None,
                **_output_arguments(),
            )
        return self._bar is not None


def _bar_class() -> Any:
    """A tqdm without its monitor thread, which would outlive the bar and be there at each fork."""
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]  # generic in its stubs only
        monitor_interval = 0
        _lock = threading.RLock()

    return Bar


def _output_arguments() -> dict[str, Any]:
    """Where tqdm writes: on stderr, or into an output of its own below a notebook's cell."""
    shell = "IPython" in sys.modules and sys.modules["IPython"].get_ipython()
    return {"file": CellOutput(), "ncols": 80} if hasattr(shell, "kernel") else {}


class CellOutput:
    """A file whose last line is shown below a notebook's cell, and is gone at the end.

    tqdm's own bar for notebooks is a widget: when such a notebook is opened again, an error is
    shown in its place.
    """

    def __init__(self) -> None:
        self._handle: Any = None

    def write(self, text: str) -> None:
        """Show this line in place of the one before; an empty line removes it."""
        from IPython.display import display

        line = text.strip("\r\n ")
        if self._handle is not None:
            self._handle.update({"text/plain": line} if line else {"text/html": ""}, raw=True)
        elif line:
            self._handle = display({"text/plain": line}, raw=True, display_id=True)

    def flush(self) -> None:
        """Do nothing: what is written is shown at once."""
