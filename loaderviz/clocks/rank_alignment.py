"""One clock for the recordings of many ranks: when each began, on the clock of the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

_NONSENSE = (KeyError, OverflowError, TypeError, ValueError)


class Begun(NamedTuple):
    """When a recording began."""

    at_ns: int  # on the clock of the first recording
    uncertainty_s: float | None  # 0 on that clock itself; None: only the wall clocks tell


@dataclass(frozen=True)
class Clock:
    """What the ``meta`` of a recording says of its clock."""

    started_ns: int
    wall_ns: int  # at the same moment
    domain: object  # recordings that have the same one share a clock
    host: object
    reference: object = None  # the host against whose clock this one was measured
    offset_ns: int = 0  # to be added for the reference's time
    uncertainty_ns: int = 0

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Clock | None:
        """None where the recording does not tell: it is simulated, or not of a recorder."""
        try:
            started, wall = (int(np.int64(each)) for each in meta["started"])
        except _NONSENSE:
            return None
        plain = cls(started, wall, meta.get("clock_domain") or object(), meta.get("host"))
        try:
            measured = meta["clock"]
            offset, uncertainty = (
                int(np.int64(measured[name])) for name in ("offset_ns", "uncertainty_ns")
            )
        except _NONSENSE:
            return plain
        return cls(
            started, wall, plain.domain, plain.host, measured.get("reference"), offset, uncertainty
        )


class _Offset(NamedTuple):
    reference: object
    ns: int
    uncertainty_ns: int


def align(clocks: Sequence[Clock | None]) -> list[Begun]:
    """When each began. One without a clock is taken to begin with the first."""
    first = next((clock for clock in clocks if clock is not None), None)
    if first is None:
        return [Begun(0, None)] * len(clocks)
    offsets = _offsets([clock for clock in clocks if clock is not None])
    here = offsets.get(first.domain)
    begun = []
    for clock in clocks:
        if clock is None:
            begun.append(Begun(first.started_ns, None))
            continue
        there = offsets.get(clock.domain)
        if clock.domain == first.domain:
            begun.append(Begun(clock.started_ns, 0.0))
        elif here and there and here.reference == there.reference:
            both_ns = abs(here.uncertainty_ns) + abs(there.uncertainty_ns)
            begun.append(Begun(clock.started_ns + there.ns - here.ns, both_ns / 1e9))
        else:
            begun.append(Begun(first.started_ns + clock.wall_ns - first.wall_ns, None))
    return begun


def _offsets(clocks: Sequence[Clock]) -> dict[object, _Offset]:
    """Of each clock that was measured, or that others were measured against: how it is off."""
    offsets: dict[object, _Offset] = {}
    for clock in sorted(clocks, key=lambda each: abs(each.uncertainty_ns)):
        if clock.reference is not None:
            offset = _Offset(clock.reference, clock.offset_ns, clock.uncertainty_ns)
            offsets.setdefault(clock.domain, offset)
    references = {offset.reference for offset in offsets.values()}
    for clock in clocks:
        if clock.host in references:
            offsets.setdefault(clock.domain, _Offset(clock.host, 0, 0))
    return offsets
