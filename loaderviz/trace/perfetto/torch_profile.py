"""A trace of torch.profiler that another one is put beside, on one time axis.

torch.profiler gives its times in microseconds of the wall clock since ``baseTimeNanoseconds``
(libkineto's output_json.cpp; without that member, before torch 2.4, since 1970).
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.text import duration

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

EVENTS: Final = "traceEvents"
# Perfetto and browsers read a time as a double of microseconds, which has no room for nanoseconds
# weeks after the profile's base. Multiples of 125 it holds exactly, for 104 days: the base is at
# most three months back (libkineto's ChromeTraceBaseTime).
GRID_NS: Final = 125
GZIP: Final = b"\x1f\x8b"
_blank = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class Profile:
    """The file's text, which stays as it is, and where in it more events can stand."""

    path: Path
    text: str
    end: int  # of the events
    empty: bool
    base_ns: int
    first_us: float
    last_us: float

    @classmethod
    def read(cls, path: Any) -> Profile:
        """The profile that ``export_chrome_trace`` wrote, packed by gzip or not.

        Raises:
            LoaderVizError: where the file cannot be read, or is no such profile.
        """
        try:
            place = Path(path)
            data = place.read_bytes()
            text = (gzip.decompress(data) if data.startswith(GZIP) else data).decode()
            return cls(place, text, *_scan(text))
        except (OSError, EOFError, TypeError, ValueError, RecursionError) as error:
            raise LoaderVizError(
                f"{str(path)!r} is no profile that can be read ({error}); give the file that "
                "torch.profiler's export_chrome_trace wrote"
            ) from error

    def around(self) -> tuple[bytes, bytes]:
        """What stands before and after further events."""
        comma = "" if self.empty else ","
        return (self.text[: self.end] + comma + "\n").encode(), self.text[self.end :].encode()

    def shift_of(self, trace: Trace, wall_ns: int) -> int:
        """What to add to the trace's nanoseconds.

        Raises:
            LoaderVizError: where the trace has no wall clock, or is of another time.
        """
        if not wall_ns:
            what = "simulated" if trace.meta.get("simulated") else "without the time of its start"
            raise LoaderVizError(
                f"the trace is {what}: it has no place beside {str(self.path)!r}; "
                "record() the run that was profiled"
            )
        shift_ns = wall_ns - self.base_ns
        times = trace.batches[["dispatched_s", "delivered_s", "released_s"]].to_numpy()
        begun, ended = (
            shift_ns / 1e3 + 1e6 * each for each in (np.nanmin(times), np.nanmax(times))
        )
        apart_s = max(begun - self.last_us, self.first_us - ended) / 1e6
        if apart_s > 0:
            raise LoaderVizError(
                f"{str(self.path)!r} is of another time than the trace, {duration(apart_s)} apart; "
                "give the profile of the same run"
            )
        return shift_ns


def _scan(text: str) -> tuple[int, bool, int, float, float]:
    """Where the list of events ends, whether it is empty, the base, the first and last time."""
    base_ns, found, at = 0, None, _expect(text, 0, "{")
    while text[at : at + 1] != "}":
        name, at = _decode(text, at)
        at = _expect(text, _skip(text, at), ":")
        if name == EVENTS:
            at = _expect(text, at, "[")
            found, at = _events(text, at)
        else:
            value, at = _decode(text, at)
            if name == "baseTimeNanoseconds":
                base_ns = int(value)
        at = _skip(text, at)
        if text[at : at + 1] != "}":
            at = _expect(text, at, ",")
    if found is None or found[2] > found[3]:
        raise ValueError(f"it has no {EVENTS} with a time")
    return found[0], found[1], base_ns, found[2], found[3]


def _events(text: str, at: int) -> tuple[tuple[int, bool, float, float], int]:
    first, last, empty = float("inf"), float("-inf"), True
    while text[at : at + 1] != "]":
        event, at = _decode(text, at)
        empty = False
        if not isinstance(event, dict):
            raise ValueError(f"the event {event!r} is no object")
        if event.get("ph") == "X" and "ts" in event:
            first = min(first, float(event["ts"]))
            last = max(last, float(event["ts"]) + float(event.get("dur", 0)))
        at = _skip(text, at)
        if text[at : at + 1] != "]":
            at = _expect(text, at, ",")
    return (at, empty, first, last), at + 1


def _skip(text: str, at: int) -> int:
    found = _blank.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark!r} is missing at character {at}")
    return _skip(text, at + 1)
