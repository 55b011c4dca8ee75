"""What goes wrong in a long run, saved before the ring writes over it.

After each window: whether a loader's loop, or those who read for it, take longer than before, for
two windows at least, whether the loop has waited far longer than ever, or whether memory runs out.
By hyperfine's rule for outliers against the windows before, and by the levels of
``level_changes.py``, so that nothing depends on what is usual elsewhere.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from loaderviz import machine
from loaderviz.own_errors import own_errors, own_errors_suppressed
from loaderviz.recorder.memory_growth import MemoryGrowth
from loaderviz.text import clock_time, duration, size
from loaderviz.trace import INCIDENTS_NAME, META_NAME, MORE_LOADERS_NAME, WINDOWS_NAME
from loaderviz.trace.windows import Row
from loaderviz.why.level_changes import FEWEST_BLOCKS, FEWEST_IN_BLOCK, levels, stands_out
from loaderviz.why.phases import FEWEST

MOST_BEFORE: Final = 60  # windows that the next one is compared with
SHIFT: Final = 1.25  # times as long: half of the way, in proportion, to 1.5 times
COPIED: Final = (META_NAME, MORE_LOADERS_NAME, WINDOWS_NAME)  # beside the spools
IN_A_ROW: Final = 2  # windows that show a shift, or its end: one may be a checkpoint
TIMES_AS_LONG: Final = 3  # as any wait before
FIRST_KEPT, LATEST_KEPT = 3, 7  # incidents whose details are kept
QUIET_NS: Final = 600 * 10**9  # after a line to stderr


class Shift:
    """One duration of a loader, window by window.

    Attributes:
        usual: what it takes usually, the median of the windows before a shift; 0 at first.
        now: the median of those since a shift; 0 before any.
        is_open: whether there is a shift that goes on, or it is found to have crept up.
        stays: whether the last one went on for so long that it counts as usual.
        fell_to: where the last window shows a lower level: its median; else 0.
        n_windows: for how many windows it is as was found last.
    """

    def __init__(self) -> None:
        self.usual = self.now = self.fell_to = 0.0
        self.is_open = self.stays = False
        self.n_windows = 0
        self._before: deque[float] = deque(maxlen=MOST_BEFORE)
        self._n_own = 0  # of those before, the latest, which are of the level of today
        self._first: list[float] = []  # of this level: what creeps is far from them alone
        self._odd: list[float] = []  # in a row
        self._back: list[float] = []  # in a row, after a shift

    def note(self, value: float) -> None:
        """Note the next window."""
        self.fell_to = 0.0
        usual = _usual_for(value, [*self._before][-self._n_own :])
        if self.is_open and not self.stays and value > math.sqrt(self.usual * self.now):
            usual = self.usual  # nearer to the shift than to how it was
        if usual:
            self._odd.append(value)
            self._back.clear()
            if len(self._odd) >= IN_A_ROW:
                self.is_open, self.stays = True, False
                self.usual, self.now = usual, float(np.median(self._odd))
                self.n_windows = len(self._odd)
            if len(self._odd) >= MOST_BEFORE:  # that is how it is from now on
                self._before.extend(self._odd)
                self._n_own = MOST_BEFORE
                self._first, self._odd = self._odd, []
                self.is_open, self.stays = False, True
            return
        self._back.append(value)
        if not self.is_open or len(self._back) >= IN_A_ROW:
            self._before.extend(self._back)
            self._n_own = min(self._n_own + len(self._back), MOST_BEFORE)
            self._first.extend(self._back[: MOST_BEFORE - len(self._first)])
            if self.is_open:
                self.n_windows = len(self._back)
            self._odd.clear()
            self._back.clear()
            self.is_open = False
            self._look_at_level()

    def _look_at_level(self) -> None:
        """Whether the last windows are another level, or an hour far above the first one.

        That finds a small shift among noise, some windows later, what creeps, and the end of both.
        """
        before = np.array(self._before)
        if self._n_own >= FEWEST_BLOCKS * FEWEST_IN_BLOCK:  # among others a bump is hard to see
            before = before[-self._n_own :]
        begins = levels(before, (SHIFT - 1) * float(np.median(before)))
        level = before[begins[-1] :]
        usual = now = float(np.median(level))
        if self._n_own - len(level) >= FEWEST_IN_BLOCK:  # begun since the level of today
            usual = float(np.median(before[-self._n_own : -len(level)]))
        is_lower = SHIFT * now < usual
        if not is_lower and now <= SHIFT * usual:
            level, now = before, float(np.median(before))
            is_hour = len(before) == len(self._first) == MOST_BEFORE
            usual = _usual_for(now, self._first) if is_hour else 0.0
            if not usual:
                return
        self._n_own = self.n_windows = len(level)
        self._first = [*level]
        if is_lower:
            self.fell_to = now
        else:
            self.usual, self.now = usual, now
            self.is_open = self.stays = True


def _usual_for(value: float, before: Sequence[float]) -> float:
    """The median of the windows ``before`` that the value is far above; 0 where it is not."""
    if len(before) < FEWEST or not stands_out(np.array([value]), np.array(before))[0]:
        return 0.0
    usual = float(np.median(before))
    return usual if value > SHIFT * usual else 0.0


class IncidentLog:
    """The incidents of one recording: a line for each in its folder, and a copy of the ring.

    Args:
        folder: of the recording.
        saved_in: where copies go; None where they are of no use.
        tell: is given each incident, once it is saved; raises what it likes.
    """

    def __init__(
        self,
        folder: Path,
        saved_in: Path | None,
        tell: Callable[[dict[str, Any]], object] | None,
    ) -> None:
        self._folder, self._saved_in, self._tell = folder, saved_in, tell
        self._shifts: dict[tuple[int, str], Shift] = defaultdict(Shift)
        self._open: dict[int, dict[str, Any]] = {}  # by loader: a shift that goes on
        self._stayed: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)  # as usual
        self._still: dict[int, dict[str, Any]] = {}  # by loader: a wait that goes on
        self._memory: dict[int, MemoryGrowth] = defaultdict(MemoryGrowth)
        self._growing: dict[int, dict[str, Any]] = {}  # by loader: memory that runs out
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
        is_long = self._is_long(loader, longest_s, window_s / 10)
        before_s.append(longest_s)
        n_batches = sum(row["batches"] for row in rows)
        if not n_batches:
            return
        start_s, end_s = rows[0]["start_s"], rows[-1]["end_s"]
        self._look_at_memory(loader, max(row["memory_bytes"] for row in rows), end_s, at_ns)
        waited = f"the loop waited {duration(longest_s)} for a batch, longer than ever"
        still = self._still.get(loader)
        if still is not None and longest_s >= still["after_s"]:
            del self._still[loader]
            self._write({**still, "text": waited, "end_s": end_s, "after_s": longest_s})
            is_long = False
        values = {"step": sum(row["wait_s"] + row["step_s"] for row in rows) / n_batches}
        supply = [row["supply_per_s"] for row in rows if row["supply_per_s"] > 0]
        if supply:
            values = {"reading": 1 / min(supply), **values}
        for name, value in values.items():
            shift = self._shifts[loader, name]
            shift.note(value)
            for over in self._over(loader, name) if shift.fell_to else ():
                self._write({**over, "end_s": start_s - (shift.n_windows - 1) * window_s})
        shifted = [name for name in values if self._shifts[loader, name].is_open]
        known = self._open.get(loader)
        if known is None and "reading" in shifted and not _is_felt(rows):
            shifted.remove("reading")
        if shifted and known is None:
            n_before = self._shifts[loader, shifted[0]].n_windows - 1
            since_s = max(start_s - n_before * window_s, 0.0)
            about = self._told(loader, shifted[0]) | {"start_s": since_s, "end_s": None}
            self._open[loader] = self.save(at_ns=at_ns, **about)
        elif known is not None and known["kind"] in shifted:
            known.update(self._told(loader, known["kind"]))
        elif known is not None:
            del self._open[loader]
            shift = self._shifts[loader, known["kind"]]
            if shift.stays:
                self._stayed[loader, known["kind"]].append(known)
            else:
                known["end_s"] = start_s - (shift.n_windows - 1) * window_s
            self._write(known)
        elif is_long:
            self.save(
                waited, at_ns, kind="wait", loader=loader, start_s=start_s, end_s=end_s,
                before_s=max(before_s[:-1]), after_s=longest_s,
            )  # fmt: skip

    def _look_at_memory(self, loader: int, used_bytes: float, end_s: float, at_ns: int) -> None:
        memory, known = self._memory[loader], self._growing.get(loader)
        grows = memory.note(end_s, used_bytes, machine.memory_available_bytes(files_are_free=True))
        if grows is None and known is not None:
            self._write({**self._growing.pop(loader), "end_s": end_s})
        elif grows is not None and known is None:
            text = f"those who read hold {size(60 * grows.held_per_s)} more memory a minute, "
            text += f"and {size(60 * grows.lost_per_s)} less is free: at this pace none is left in "
            text += clock_time(grows.left_s)
            self._growing[loader] = self.save(
                text, at_ns, kind="memory", loader=loader, start_s=memory.since_s, end_s=None
            )

    def note_still_waiting(
        self, loader: int, start_s: float, waited_s: float, at_ns: int, window_s: float
    ) -> None:
        """The loop waits since then for a batch of this loader: save that once, if it never did."""
        if loader not in self._still and self._is_long(loader, waited_s, window_s):
            text = f"the loop has waited {duration(waited_s)} for a batch, and still does"
            self._still[loader] = self.save(
                text, at_ns, kind="wait", loader=loader, start_s=start_s, end_s=None,
                before_s=max(self._longest_s[loader]), after_s=waited_s,
            )  # fmt: skip

    def _is_long(self, loader: int, waited_s: float, at_least_s: float) -> bool:
        before_s = self._longest_s[loader]
        if len(before_s) < FEWEST:
            return False
        return waited_s > max(TIMES_AS_LONG * max(before_s), at_least_s)

    def _over(self, loader: int, name: str) -> list[dict[str, Any]]:
        """The shifts that counted as usual, of which the pace has now come back, no longer so."""
        fell_to, stayed = self._shifts[loader, name].fell_to, self._stayed[loader, name]
        over = [one for one in stayed if fell_to < math.sqrt(one["before_s"] * one["after_s"])]
        self._stayed[loader, name] = [one for one in stayed if one not in over]
        return over

    def _told(self, loader: int, name: str) -> dict[str, Any]:
        """What is told of a shift."""
        shift = self._shifts[loader, name]
        what = "reading a sample takes" if name == "reading" else "a batch and its step take"
        text = f"{what} {shift.now / shift.usual:.3g} times as long as before: "
        text += f"{duration(shift.now)}, not {duration(shift.usual)}"
        times = {"before_s": shift.usual, "after_s": shift.now}
        return {"text": text, "kind": name, "loader": loader, **times}

    def end(self) -> None:
        """Write down what is known at the end of the shifts that go on."""
        for known in (*self._open.values(), *self._growing.values()):
            self._write(known)

    def save(self, text: str, at_ns: int, **about: Any) -> dict[str, Any]:
        """Write an incident down, and save what the ring holds; returns what was written.

        ``about``: its ``kind``, ``start_s`` and ``end_s``, and where it has them ``loader``,
        ``before_s`` and ``after_s``.
        """
        self._n += 1
        path = None if self._saved_in is None else self._copy(self._saved_in, text)
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

    def _copy(self, saved_in: Path, text: str) -> Path | None:
        """Save what the recording holds now, and forget a copy where there are too many."""
        path = saved_in / f"{self._n}"
        try:
            path.mkdir(parents=True)
            for each in self._folder.iterdir():
                if each.suffix == ".spool" or each.name in COPIED:
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


def _is_felt(rows: Sequence[Row]) -> bool:
    """Whether who reads makes fewer samples than the loop takes: what is quick enough is not."""
    step_s = sum(row["step_s"] for row in rows)
    samples = sum(row["samples"] for row in rows)
    supply = [row["supply_per_s"] for row in rows if row["supply_per_s"] > 0]
    return bool(supply) and min(supply) * step_s < samples
