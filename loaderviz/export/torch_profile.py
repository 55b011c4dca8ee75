"""A trace of torch.profiler that another one is put beside, on one time axis.

torch.profiler gives its times in microseconds of the wall clock since ``baseTimeNanoseconds``
(libkineto's output_json.cpp; without that member, before torch 2.4, since 1970).
"""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
    *(ArithmeticError, LookupError, TypeError, ValueError, RecursionError),
)


@dataclass(frozen=True)
class Profile:
    """What a profile holds, which stays as it is, and when that was.

    Attributes:
        path: the file.
        members: all but the events.
        events: as they are in the file; times are in microseconds.
        base_ns: the wall clock at time 0 of the events, in ns since 1970.
        first_us, last_us: when the first event began, and the last one ended.
    """

    path: Path
    members: dict[str, Any]
    events: list[dict[str, Any]]
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
            file = Path(path)
            members = dict(json.loads(_unpacked(file)))
            events = members.pop(EVENTS)
            timed = [each for each in events if each.get("ph") == "X" and "ts" in each]
            first_us = min(float(each["ts"]) for each in timed)
            last_us = max(float(each["ts"]) + float(each.get("dur", 0)) for each in timed)
            if not -math.inf < first_us <= last_us < math.inf:
                raise ValueError(f"its {EVENTS} have no time")
            base_ns = int(np.int64(members.get("baseTimeNanoseconds", 0)))
            return cls(file, members, events, base_ns, first_us, last_us)
        except (*_UNREADABLE, AttributeError) as error:
            raise LoaderVizError(
                f"{str(path)!r} cannot be read as a profile ({error}); give the file that "
                "torch.profiler's export_chrome_trace wrote"
            ) from error

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
        apart_s = max(first_us - self.last_us, self.first_us - last_us) / 1e6
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
