"""A trace of torch.profiler that another one is put beside, on one time axis.

torch.profiler gives its times in microseconds of the wall clock since ``baseTimeNanoseconds``
(libkineto's output_json.cpp; without that member, before torch 2.4, since 1970).
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.regular_file import open_regular
from loaderviz.text import duration, size

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

EVENTS: Final = "traceEvents"
# Perfetto and browsers read a time as a double of microseconds, which has no room for nanoseconds
# weeks after the profile's base. It holds multiples of 125 ns exactly, for 104 days: the base is at
# most three months back (libkineto's ChromeTraceBaseTime).
GRID_NS: Final = 125
GZIP: Final = b"\x1f\x8b"
MOST_UNPACKED: Final = 64  # times the size of the file
SMALL_BYTES: Final = 1 << 26  # unpacked, which any file may have
_UNREADABLE: Final = (
    *(OSError, EOFError, zlib.error, MemoryError),
    *(ArithmeticError, TypeError, ValueError, RecursionError),
)
_blank = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode


class _EventList(NamedTuple):
    end: int  # the character that closes the list
    is_empty: bool
    first_us: float
    last_us: float


@dataclass(frozen=True)
class Profile:
    """The text of a profile, which stays as it is, and where further events can be put in.

    Attributes:
        path: the file.
        text: what the file holds, unpacked.
        events: where the list of events ends in the text, and when its events begin and end.
        base_ns: the wall clock at time 0 of the events, in ns since 1970.
    """

    path: Path
    text: str
    events: _EventList
    base_ns: int

    @classmethod
    def read(cls, path: Any) -> Profile:
        """The profile that ``export_chrome_trace`` wrote, packed by gzip or not.

        Raises:
            LoaderVizError: where the file cannot be read, or is no such profile.
        """
        try:
            file = Path(path)
            text = _unpacked(file).decode()
            return cls(file, text, *_scan_profile(text))
        except _UNREADABLE as error:
            raise LoaderVizError(
                f"{str(path)!r} cannot be read as a profile ({error}); give the file that "
                "torch.profiler's export_chrome_trace wrote"
            ) from error

    def split_after_events(self) -> tuple[bytes, bytes]:
        """What stands before and after further events."""
        end = self.events.end
        comma = "" if self.events.is_empty else ","
        return (self.text[:end] + comma + "\n").encode(), self.text[end:].encode()

    def shift_ns(self, trace: Trace, wall_ns: int) -> int:
        """The nanoseconds to add to the trace's times; ``wall_ns`` is the wall clock at its time 0.

        Raises:
            LoaderVizError: where the trace has no wall clock, or is of another time.
        """
        if not wall_ns:
            lack = "simulated" if trace.meta.get("simulated") else "without the time of its start"
            raise LoaderVizError(
                f"the trace is {lack}: it cannot be put beside {str(self.path)!r}; "
                "record() the run that was profiled"
            )
        shift_ns = wall_ns - self.base_ns
        times_s = trace.batches[["dispatched_s", "delivered_s", "released_s"]].to_numpy()
        first_us, last_us = (
            shift_ns / 1e3 + 1e6 * time_s for time_s in (np.nanmin(times_s), np.nanmax(times_s))
        )
        apart_s = max(first_us - self.events.last_us, self.events.first_us - last_us) / 1e6
        if apart_s > 0:
            raise LoaderVizError(
                f"{str(self.path)!r} is {duration(apart_s)} apart from the trace in time; "
                "give the profile of the same run"
            )
        return shift_ns


def _unpacked(path: Path) -> bytes:
    """What the file holds; raises ValueError where that is too much for its size."""
    with open_regular(path, may_lead_out=True) as file:
        if file.read(len(GZIP)) != GZIP:
            file.seek(0)
            return file.read()
        most = max(SMALL_BYTES, MOST_UNPACKED * file.seek(0, os.SEEK_END))
        file.seek(0)
        data = gzip.GzipFile(fileobj=file).read(most + 1)
    if len(data) > most:
        raise ValueError(f"it unpacks to more than {size(most)}")
    return data


def _scan_profile(text: str) -> tuple[_EventList, int]:
    """The list of events, and the base of their times in ns."""
    base_ns, events, at = 0, None, _skip_mark(text, 0, "{")
    while text[at : at + 1] != "}":
        name, at = _decode(text, at)
        at = _skip_mark(text, _skip_blanks(text, at), ":")
        if name == EVENTS:
            events = _scan_events(text, _skip_mark(text, at, "["))
            at = events.end + 1
        else:
            value, at = _decode(text, at)
            if name == "baseTimeNanoseconds":
                base_ns = int(value)
        at = _skip_blanks(text, at)
        if text[at : at + 1] != "}":
            at = _skip_mark(text, at, ",")
    if events is None or not -math.inf < events.first_us <= events.last_us < math.inf:
        raise ValueError(f"it has no {EVENTS} with a time")
    np.int64(base_ns)  # raises OverflowError where it is no time
    return events, base_ns


def _scan_events(text: str, at: int) -> _EventList:
    first_us, last_us, is_empty = float("inf"), float("-inf"), True
    while text[at : at + 1] != "]":
        event, at = _decode(text, at)
        is_empty = False
        if not isinstance(event, dict):
            raise ValueError(f"the event {event!r} is not an object")
        if event.get("ph") == "X" and "ts" in event:
            first_us = min(first_us, float(event["ts"]))
            last_us = max(last_us, float(event["ts"]) + float(event.get("dur", 0)))
        at = _skip_blanks(text, at)
        if text[at : at + 1] != "]":
            at = _skip_mark(text, at, ",")
    return _EventList(at, is_empty, first_us, last_us)


def _skip_blanks(text: str, at: int) -> int:
    blanks = _blank.match(text, at)
    return blanks.end() if blanks else at


def _skip_mark(text: str, at: int, mark: str) -> int:
    at = _skip_blanks(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark!r} is missing at character {at}")
    return _skip_blanks(text, at + 1)
