"""The lines of code that readers were seen at: a lane of each process that was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loaderviz.export.chrome_events import json_text, slice_events
from loaderviz.export.perfetto_lanes import Source
from loaderviz.trace.lines_of_code import PHASES, looked, own_frames


def line_samples(source: Source) -> Iterator[Any]:
    """Events, as bytes: of each look the user's innermost line, as long as the look stands for.

    It ends when it was seen, and begins after the look before.
    """
    seen = [row for row in looked(source.trace) if row.moments]
    if not seen:
        return
    row = np.repeat(np.arange(len(seen)), [len(each.moments) for each in seen])
    at_s = np.concatenate([each.moments for each in seen]) / 1e6
    readers = np.array([[each.rank, each.loader, each.worker] for each in seen])[row]
    process = source.readers_at(readers, at_s)
    order = np.lexsort((at_s, process))[np.count_nonzero(process < 0) :]
    if not len(order):
        return
    row, process, end = row[order], process[order], source.to_ns(at_s[order])
    part_ns = np.array([each.seconds / len(each.moments) * 1e9 for each in seen], np.int64)[row]
    before = np.where(np.diff(process, prepend=-1) == 0, np.roll(end, 1), end - part_ns)
    start = np.maximum(np.maximum(before, end - part_ns), source.to_ns(np.zeros(1)))
    args = {
        "function": np.array([_innermost(each.stack, "function") for each in seen], object)[row],
        "source": np.array([_innermost(each.stack, "source") for each in seen], object)[row],
        "phase": np.array([PHASES[each.phase] for each in seen], object)[row],
    }
    places = [
        json_text(f"{_innermost(each.stack, 'file')}:{_innermost(each.stack, 'line')}")
        for each in seen
    ]
    location = source.lane_locations(process, "lines", start, end)
    yield from slice_events(np.array(places, object)[row], location, start, end, args)


def _innermost(stack: Any, name: str) -> Any:
    own = own_frames(stack)
    return getattr(own[-1], name) if own else "?"
