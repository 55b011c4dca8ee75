"""What is where in an exported trace, and the file around it.

Each rank's consumer and each worker is a process. The consumer's lane holds waits and steps, the
lane below it named spans; where the main process loads, another lane of it holds the batches. A
worker's lane holds its batches, with samples and collate inside, and the one below it the lines of
code that it was seen at. A flow leads from each batch in its worker, by way of the pin thread, to
the step on it. Counters show the batches that are ready and not delivered, and the memory of each
worker.

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

from loaderviz.errors import LoaderVizError
from loaderviz.export.chrome_events import SEPARATOR, json_text
from loaderviz.export.consumer_events import (
    consumer_slices,
    device_slices,
    named_spans,
    pin_slices,
    ready_batches,
)
from loaderviz.export.line_samples import line_samples
from loaderviz.export.perfetto_lanes import Source
from loaderviz.export.torch_profile import EVENTS, GRID_NS, Profile
from loaderviz.export.worker_events import process_memory, worker_slices
from loaderviz.trace.atomic_file import replacing
from loaderviz.trace.described_loaders import left_out
from loaderviz.trace.unread_samples import require_memory

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

LAYERS: Final = (
    consumer_slices,
    named_spans,
    worker_slices,
    line_samples,
    pin_slices,
    device_slices,
    ready_batches,
    process_memory,
)
GZIP_LEVEL: Final = 1  # the fastest: the text is so regular that more effort gains little


def export(trace: Trace, path: str | os.PathLike[str], profile: Any = None) -> None:
    """What ``Trace.to_perfetto`` does."""
    require_memory(trace, "an export")
    _, wall_ns = trace.meta.get("started") or (0, 0)  # the wall clock at time 0, in ns since 1970
    if profile is None:
        members, theirs, shift_ns, grid_ns = _members(trace, int(wall_ns)), [], 0, 1
    else:
        beside = Profile.read(profile)
        members, theirs, grid_ns = beside.members, beside.events, GRID_NS
        shift_ns = beside.shift_ns(trace, int(wall_ns))
    as_gzip = str(path).endswith(".gz")
    with (
        replacing(path, "to_perfetto()") as file,
        gzip.GzipFile("", "wb", GZIP_LEVEL, file, 0) if as_gzip else nullcontext(file) as out,
    ):
        out.write(f'{json.dumps(members)[:-1]},"{EVENTS}":[\n'.encode())
        for event in theirs:
            out.write(f"{json.dumps(event)}{SEPARATOR}".encode())
        for piece in _events(trace, shift_ns, grid_ns):
            out.write(piece)
        out.write(b"\n]}\n")


def _members(trace: Trace, wall_ns: int) -> dict[str, Any]:
    """What the file says beside its events."""
    label = trace.meta.get("label")
    about = {
        "made by": "loaderviz",
        "simulated": bool(trace.meta.get("simulated")),
        **({"label": json.loads(json_text(str(label)))} if label is not None else {}),
        "left out": str(left_out(trace.meta)[0]),
    }
    return {"displayTimeUnit": "ms", "baseTimeNanoseconds": wall_ns, "otherData": about}


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
    *metadata, last = source.metadata_events()
    yield from metadata
    yield last.removesuffix(SEPARATOR.encode())
