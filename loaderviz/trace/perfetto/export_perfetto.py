"""What is where in an exported trace, and the file around it.

A process for each rank's consumer and for each worker. The consumer's lane holds
waits, steps and named spans. Where the main process loads, it has a lane for that beside it. A
worker's lane holds its batches, with samples and collate inside. A flow leads from the batch in its
worker, by way of the thread that pins, to the step on it. Counters: batches ready and not
delivered, and the memory of each worker.

Times are those of the trace, to the nanosecond. ``baseTimeNanoseconds`` is the wall clock at time
0, as in the files of torch.profiler (2.4 and later).
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.trace.atomic_file import replacing
from loaderviz.trace.enough_memory import need_room
from loaderviz.trace.merge.run_meta import left_out
from loaderviz.trace.perfetto import consumer_events, counters, event_writer, worker_events
from loaderviz.trace.perfetto.torch_profile import GRID_NS, Profile
from loaderviz.trace.perfetto.trace_source import Source

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

LAYERS: Final = (
    consumer_events.slices,
    worker_events.slices,
    consumer_events.pinning,
    consumer_events.device,
    counters.ready,
    counters.memory,
)
FAST: Final = 1  # gzip's level: the text is so regular that more effort gains little


def export(trace: Trace, path: str | os.PathLike[str], profile: Any = None) -> None:
    """What ``Trace.to_perfetto`` does."""
    need_room(trace, "an export")
    wall_ns = started_wall_ns(trace)
    if profile is None:
        before, after, shift_ns, grid_ns = _head(trace, wall_ns), b"\n]}\n", 0, 1
    else:
        found = Profile.read(profile)
        (before, after), grid_ns = found.around(), GRID_NS
        shift_ns = found.shift_of(trace, wall_ns)
    packs = str(path).endswith(".gz")
    with (
        replacing(path, "to_perfetto()") as file,
        gzip.GzipFile("", "wb", FAST, file, 0) if packs else nullcontext(file) as out,
    ):
        out.write(before)
        for piece in _events(trace, shift_ns, grid_ns):
            out.write(piece)
        out.write(after)


def started_wall_ns(trace: Trace) -> int:
    """The wall clock at time 0 of the trace, 0 where it has none."""
    try:
        return int(np.int64(trace.meta["started"][1]))
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0


def _head(trace: Trace, wall_ns: int) -> bytes:
    label = trace.meta.get("label")
    about = {
        "made by": "loaderviz",
        "simulated": bool(trace.meta.get("simulated")),
        **({"label": str(label)} if label is not None else {}),
        "left out": str(left_out(trace.meta)[0]),
    }
    told = ",".join(
        event_writer.text(key)
        + ":"
        + (event_writer.text(value) if isinstance(value, str) else json.dumps(value))
        for key, value in about.items()
    )
    return (
        f'{{"displayTimeUnit":"ms","baseTimeNanoseconds":{wall_ns},'
        f'"otherData":{{{told}}},"traceEvents":[\n'
    ).encode()


def _events(trace: Trace, shift_ns: int, grid_ns: int) -> Iterator[Any]:
    """All events as bytes, a comma after each but the last."""
    if not len(trace.batches) and not len(trace.workers) and not len(trace.spans):
        raise LoaderVizError(
            "the trace is empty: no batch was asked for while it was recorded, so there is nothing "
            "to export"
        )
    source = Source.of(trace, shift_ns, grid_ns)
    for layer in LAYERS:
        yield from layer(source)
    *most, last = source.places.about()
    yield from most
    yield last.removesuffix(event_writer.END.encode())
