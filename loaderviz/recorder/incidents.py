"""What goes wrong in a long run, saved before the ring writes over it.

After each window: whether a loader's loop, or those who read for it, take longer than before, for
two windows at least, or whether the loop has waited far longer than ever. By hyperfine's rule for
outliers against the windows before, so that nothing depends on what is usual elsewhere.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from loaderviz.own_errors import own_errors, own_errors_suppressed
from loaderviz.text import clock_time, duration
from loaderviz.trace import INCIDENTS_NAME, META_NAME
from loaderviz.trace.windows import Row
from loaderviz.why.level_changes import stands_out
from loaderviz.why.phases import FEWEST

MOST_BEFORE: Final = 60  # windows that the next one is compared with
SHIFT: Final = 1.25  # times as long: half of the way, in proportion, to 1.5 times
IN_A_ROW: Final = 2  # windows that show a shift, or its end: one may be a checkpoint
TIMES_AS_LONG: Final = 3  # as any wait before
FIRST_KEPT, LATEST_KEPT = 3, 7  # incidents whose details are kept
QUIET_NS: Final = 600 * 10**9  # after a line to stderr


class Shift:
    """One duration of a loader, window by window."""

    def __init__(self) -> None:
        self.before: deque[float] = deque(maxlen=MOST_BEFORE)
        self._odd: list[float] = []  # in a row
        self._usual: list[float] = []  # in a row, since a shift
        self.is_open = False

    def usual(self) -> float:
        """What it takes usually: the median of the windows before a shift."""
        return float(np.median(self.before))

    def note(self, value: float) -> bool | None:
        """Note the next window; True where a shift shows, False where one is over, else None."""
        if len(self.before) < FEWEST:
            self.before.append(value)
            return None
        is_far = stands_out(np.array([value]), np.array(self.before))[0]
        if is_far and value > SHIFT * self.usual():
            self._odd.append(value)
            self._usual.clear()
            if len(self._odd) >= MOST_BEFORE:  # that is how it is now
                self.before.extend(self._odd)
                self._odd.clear()
                self.is_open = False
            elif len(self._odd) >= IN_A_ROW and not self.is_open:
                self.is_open = True
                return True
            return None
        if not self.is_open:
            self._odd.clear()
            self.before.append(value)
            return None
        self._usual.append(value)
        if len(self._usual) < IN_A_ROW:
            return None
        self.before.extend(self._usual)
        self._odd.clear()
        self._usual.clear()
        self.is_open = False
        return False


class IncidentLog:
    """The incidents of one recording: a line for each in its folder, and a copy of the ring.

    Args:
        folder: of the recording.
        is_kept: whether the folder stays, and copies are of use.
        tell: is given each incident, once it is saved; raises what it likes.
    """

    def __init__(
        self, folder: Path, *, is_kept: bool, tell: Callable[[dict[str, Any]], object] | None
    ) -> None:
        self._folder, self._is_kept, self._tell = folder, is_kept, tell
        self._shifts: dict[tuple[int, str], Shift] = defaultdict(Shift)
        self._open: dict[int, dict[str, Any]] = {}  # by loader: a shift that goes on
        self._longest_s: dict[int, list[float]] = defaultdict(list)  # waits, of windows before
        self._kept: list[Path] = []
        self._n = 0
        self._told_ns = -QUIET_NS

    def look_at(self, rows: Sequence[Row], window_s: float, at_ns: int) -> None:
        """Look at the windows that are over, in order of time."""
        of: dict[tuple[float, int], list[Row]] = defaultdict(list)
        for row in rows:
            of[row["start_s"], int(row["loader"])].append(row)
        for (_, loader), own in sorted(of.items()):
            self._look_at(loader, own, window_s, at_ns)

    def _look_at(self, loader: int, rows: list[Row], window_s: float, at_ns: int) -> None:
        longest_s = max(row["longest_s"] for row in rows)
        before_s = self._longest_s[loader]
        is_long = len(before_s) >= FEWEST and longest_s > max(
            TIMES_AS_LONG * max(before_s), window_s / 10
        )
        before_s.append(longest_s)
        n_batches = sum(row["batches"] for row in rows)
        if not n_batches:
            return
        start_s, end_s = rows[0]["start_s"], rows[-1]["end_s"]
        values = {"step": sum(row["wait_s"] + row["step_s"] for row in rows) / n_batches}
        supply = [row["supply_per_s"] for row in rows if row["supply_per_s"] > 0]
        if supply:
            values = {"reading": 1 / min(supply), **values}
        shown = {name: self._shifts[loader, name].note(value) for name, value in values.items()}
        for name, begins in shown.items():
            if begins and loader not in self._open:
                usual_s, now_s = self._shifts[loader, name].usual(), values[name]
                what = (
                    "reading a sample takes" if name == "reading" else "a batch and its step take"
                )
                text = f"{what} {now_s / usual_s:.3g} times as long as before: "
                text += f"{duration(now_s)}, not {duration(usual_s)}"
                since_s = max(start_s - window_s, 0.0)
                about = {"kind": name, "loader": loader, "start_s": since_s, "end_s": None}
                about |= {"before_s": usual_s, "after_s": now_s}
                self._open[loader] = self.save(text, at_ns, **about)
        if loader in self._open:
            if not any(self._shifts[loader, name].is_open for name in values):
                ended = {**self._open.pop(loader), "end_s": start_s}
                self._write(ended)
        elif is_long:
            text = f"the loop waited {duration(longest_s)} for a batch, longer than ever"
            about = {"kind": "wait", "loader": loader, "start_s": start_s, "end_s": end_s}
            about |= {"before_s": max(before_s[:-1]), "after_s": longest_s}
            self.save(text, at_ns, **about)

    def save(self, text: str, at_ns: int, **about: Any) -> dict[str, Any]:
        """Write an incident down, and save what the ring holds; returns what was written.

        ``about``: its ``kind``, ``start_s`` and ``end_s``, and where it has them ``loader``,
        ``before_s`` and ``after_s``.
        """
        self._n += 1
        path = self._copy(text) if self._is_kept else None
        incident = {
            **{"incident": self._n, "text": text, "path": path and str(path)},
            **{"loader": None, "before_s": None, "after_s": None, **about},
        }
        self._write(incident)
        if at_ns - self._told_ns >= QUIET_NS:
            self._told_ns = at_ns
            where = f"; to see it: loaderviz summary {path}" if path else ""
            with own_errors_suppressed(Exception):
                sys.stderr.write(f"loaderviz: {clock_time(about['start_s'])}: {text}{where}\n")
                sys.stderr.flush()
        if self._tell is not None:
            self._tell(dict(incident))
        return incident

    def _write(self, incident: dict[str, Any]) -> None:
        with (self._folder / f"{INCIDENTS_NAME}.jsonl").open("ab") as file:
            file.write(f"{json.dumps(incident)}\n".encode())

    def _copy(self, text: str) -> Path | None:
        """Save what the recording holds now, and forget a copy where there are too many."""
        path = self._folder / INCIDENTS_NAME / f"{self._n}"
        try:
            path.mkdir(parents=True)
            for each in self._folder.iterdir():
                if each.is_file() and not each.name.startswith(INCIDENTS_NAME):
                    shutil.copyfile(each, path / each.name)
            meta = json.loads((path / META_NAME).read_text())
            (path / META_NAME).write_text(json.dumps({**meta, "incident": text}))
        except own_errors(OSError):  # a file that was moved meanwhile, or a full disk
            if not (path / META_NAME).exists():
                return None
        self._kept.append(path)
        if len(self._kept) > FIRST_KEPT + LATEST_KEPT:
            with own_errors_suppressed(OSError):
                shutil.rmtree(self._kept.pop(FIRST_KEPT))
        return path
