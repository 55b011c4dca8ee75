"""A progress bar that is there only when something takes longer than a second."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import Any, Self

from loaderviz.clocks.process_clock import now

AFTER_NS = 1_000_000_000


class Progress:
    """Counts; shows the bar of tqdm on stderr, or in a notebook, past a second."""

    def __init__(self, what: str, unit: str, total: int | None = None) -> None:
        self._what, self._unit, self._total = what, unit, total
        self._n = 0
        self._show_at = now() + AFTER_NS
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
        if self._bar is not None:
            self._bar.update()
            return
        self._n += 1
        if now() >= self._show_at:
            self._bar = _quiet_bar()(
                total=self._total,
                initial=self._n,
                desc=self._what,
                unit=f" {self._unit}",
                leave=False,
                disable=bool(os.environ.get("TQDM_DISABLE")),  # also when it was set just now
                **_place(),
            )


def _quiet_bar() -> Any:
    """Without tqdm's monitor thread, which would outlive the bar and be there at each fork."""
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]  # takes no parameter when it runs
        monitor_interval = 0
        _lock = threading.RLock()

    return Bar


def _place() -> dict[str, Any]:
    """Where tqdm writes: on stderr, or into an output of its own below a notebook's cell."""
    shell = "IPython" in sys.modules and sys.modules["IPython"].get_ipython()
    return {"file": _Output(), "ncols": 80} if hasattr(shell, "kernel") else {}


class _Output:
    """A line in a notebook that changes, and is gone at the end.

    Not tqdm's own bar for notebooks: that is a widget, in whose place a notebook that is opened
    again reports an error.
    """

    def __init__(self) -> None:
        self._handle: Any = None

    def write(self, text: str) -> None:
        from IPython.display import display

        line = text.strip("\r\n ")
        if self._handle is not None:
            self._handle.update({"text/plain": line} if line else {"text/html": ""}, raw=True)
        elif line:
            self._handle = display({"text/plain": line}, raw=True, display_id=True)

    def flush(self) -> None:
        """What is written is there at once."""
