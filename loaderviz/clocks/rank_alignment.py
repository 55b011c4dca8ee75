"""One clock for the recordings of many ranks: when each began, on the clock of the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple


class RecordingStart(NamedTuple):
    """When a recording began."""

    at_ns: int  # on the clock of the first recording
    uncertainty_s: float | None  # 0 on that clock itself; None: told by the wall clocks


@dataclass(frozen=True)
class Clock:
    """What the ``meta`` of a recording says of its clock."""

    started_ns: int
    wall_ns: int  # at the same moment
    domain: object  # recordings of one domain share a clock
    host: object
    reference: object = None  # the host against whose clock this one was measured
    offset_ns: int = 0  # to add to this clock to get the reference's
    uncertainty_ns: int = 0

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> Clock | None:
        """None where ``meta`` does not tell: the trace is simulated, or not of our recorder."""
        if meta.get("started") is None:
            return None
        started, wall = meta["started"]
        unmeasured = cls(started, wall, meta.get("clock_domain") or object(), meta.get("host"))
        measured = meta.get("clock") or {}
        offset, uncertainty = measured.get("offset_ns"), measured.get("uncertainty_ns")
        if offset is None or uncertainty is None:
            return unmeasured
        return replace(
            unmeasured,
            reference=measured.get("reference"),
            offset_ns=offset,
            uncertainty_ns=uncertainty,
        )


class _Offset(NamedTuple):
    reference: object
    ns: int
    uncertainty_ns: int


def align_starts(clocks: Sequence[Clock | None]) -> list[RecordingStart]:
    """When each recording began, in the order of ``clocks``.

    One without a clock is taken to begin with the first recording that has one.
    """
    first = next((clock for clock in clocks if clock is not None), None)
    if first is None:
        return [RecordingStart(0, None)] * len(clocks)
    offsets = _offsets([clock for clock in clocks if clock is not None])
    first_offset = offsets.get(first.domain)
    starts = []
    for clock in clocks:
        if clock is None:
            starts.append(RecordingStart(first.started_ns, None))
            continue
        offset = offsets.get(clock.domain)
        if clock.domain == first.domain:
            starts.append(RecordingStart(clock.started_ns, 0.0))
        elif first_offset and offset and first_offset.reference == offset.reference:
            at_ns = clock.started_ns + offset.ns - first_offset.ns
            uncertainty_ns = abs(first_offset.uncertainty_ns) + abs(offset.uncertainty_ns)
            starts.append(RecordingStart(at_ns, uncertainty_ns / 1e9))
        else:
            at_ns = first.started_ns + clock.wall_ns - first.wall_ns
            starts.append(RecordingStart(at_ns, None))
    return starts


def _offsets(clocks: Sequence[Clock]) -> dict[object, _Offset]:
    """By domain: the offset of each clock that was measured or is itself a reference."""
    offsets: dict[object, _Offset] = {}
    for clock in sorted(clocks, key=lambda clock: abs(clock.uncertainty_ns)):
        if clock.reference is not None:
            offset = _Offset(clock.reference, clock.offset_ns, clock.uncertainty_ns)
            offsets.setdefault(clock.domain, offset)
    references = {offset.reference for offset in offsets.values()}
    for clock in clocks:
        if clock.host in references:
            offsets.setdefault(clock.domain, _Offset(clock.host, 0, 0))
    return offsets
