"""What reading the first samples of a stream shows: what is overwritten, and what is replaced."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from loaderviz._contents.read_alone import N_CLOSER
from loaderviz._contents.swallowed_exceptions import Swallowed, noting_exceptions
from loaderviz.loaders.content_hash import content_number


@dataclass(frozen=True)
class StreamRead:
    """What reading the first samples of a stream has shown.

    Attributes:
        overwritten: the place of a sample, from 0, that changed when the next one was read.
        replaced: what was met and not raised where a sample came that comes elsewhere, too, in a
            stream whose other samples all differ.
    """

    overwritten: int | None = None
    replaced: Swallowed | None = None


def read_stream(dataset: Any) -> StreamRead:
    """Read the first samples of a stream, in a copy of this process. Raises what it raises."""
    met: list[Swallowed] = []
    watch = noting_exceptions(dataset, met)
    stream = iter(dataset)
    numbers: list[int | None] = []
    swallowed: dict[int, Swallowed] = {}
    overwritten, before = None, None
    for place in range(N_CLOSER):
        met.clear()
        try:
            sys.settrace(watch)
            sample = next(stream, StopIteration)
        finally:
            sys.settrace(None)
        if overwritten is None and place and content_number(before) != numbers[-1]:
            overwritten = place - 1
        if sample is StopIteration:
            break
        before = sample
        numbers.append(content_number(sample))
        if met:
            swallowed[place] = met[-1]
    others = [number for place, number in enumerate(numbers) if place not in swallowed]
    twice = [place for place in swallowed if numbers[place] in others]
    told_apart = None not in others and len({*others}) == len(others)
    return StreamRead(overwritten, swallowed[twice[0]] if twice and told_apart else None)
