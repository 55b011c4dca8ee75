"""What a recording that keeps its last seconds writes beside them: its windows, and incidents."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaderviz.own_errors import own_errors, warn_or_print
from loaderviz.recorder.incidents import IncidentLog
from loaderviz.recorder.window_log import WindowLog
from loaderviz.trace.described_loaders import kind_of_life
from loaderviz.trace.windows import COLUMNS, window_s_of

Told = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class FlightOptions:
    """Who is told of windows and incidents, and in which folder those are saved, if at all."""

    on_window: Told | None = None
    on_incident: Told | None = None
    saved_in: Path | None = None


class FlightLog:
    """The windows and incidents of one recording; ``meta`` is its description."""

    def __init__(self, folder: Path, meta: dict[str, Any], options: FlightOptions) -> None:
        self._is_left_on = "last_s" in meta  # else a limit alone has made it a ring
        started_ns, window_s = meta["started"][0], window_s_of(meta.get("last_s"))
        self._started_ns = started_ns
        self._windows = WindowLog(folder, meta["rank"], started_ns, window_s)
        self._on_window = options.on_window and _harmless(options.on_window, "on_window")
        tell = options.on_incident and _harmless(options.on_incident, "on_incident")
        self._incidents = IncidentLog(folder, options.saved_in, tell)
        self._first: dict[int, int] = {}  # by the number of a loader: that of the first one alike
        self._kinds: dict[str, int] = {}
        for description in meta["loaders"]:
            self.note_loader(description)

    @property
    def next_ns(self) -> int:
        """When the window that runs is over."""
        return self._windows.next_ns

    def note_loader(self, description: dict[str, Any]) -> None:
        """Know one loader more. One that is made anew for each epoch is told of as one."""
        number = len(self._first)
        kind = kind_of_life(description)
        self._first[number] = number if kind is None else self._kinds.setdefault(kind, number)

    def _first_of(self, loader: int) -> int:
        return self._first.get(loader, loader)

    def read(self, path: Path) -> None:
        """Read on in the file of a worker that is about to be moved."""
        self._windows.read(path)

    def close(self, at_ns: int, *, ended: bool = False) -> None:
        """Write the windows that are over, look at them, and tell of them."""
        rows = self._windows.close(at_ns, ended=ended)
        if self._is_left_on:
            as_one = [{**row, "loader": self._first_of(int(row["loader"]))} for row in rows]
            self._incidents.look_at(as_one, self._windows.window_s, at_ns)
        if ended:
            self._incidents.end()
        if self._on_window is not None:
            for row in rows:
                self._on_window({name: row[name] for name in COLUMNS})

    def note_still_waiting(self, loader: int, since_ns: int, at_ns: int) -> None:
        """Save an incident where the loop stands still for longer than it ever waited."""
        if not self._is_left_on:
            return
        start_s = (since_ns - self._started_ns) / 1e9
        waited_s = (at_ns - since_ns) / 1e9
        first, window_s = self._first_of(loader), self._windows.window_s
        self._incidents.note_still_waiting(first, start_s, waited_s, at_ns, window_s)

    def save(self, why: str, kind: str, at_ns: int) -> dict[str, Any] | None:
        """Save an incident that somebody asks for, or that ends the loop."""
        if not self._is_left_on:
            return None
        at_s = (at_ns - self._started_ns) / 1e9
        return self._incidents.save(why, at_ns, kind=kind, start_s=at_s, end_s=at_s)


def _harmless(tell: Told, name: str) -> Told:
    """The same function, of which no error reaches the loop: the first is told as a warning."""
    failed: list[Exception] = []
    function: Any = tell
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)  # a method has that of its function, too
    method = "__call__" if code is None else code.co_name

    def told(about: dict[str, Any]) -> None:
        try:
            tell(about)
        except own_errors(Exception, method=method, of=[function]) as error:
            if not failed:
                warn_or_print(
                    f"{name}= failed and the recording goes on: {type(error).__name__}: {error}",
                    stacklevel=2,
                )
            failed.append(error)

    return told
