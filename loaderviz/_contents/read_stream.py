"""What reading the first samples of a stream shows: what is overwritten, and what is replaced."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from loaderviz._contents.one_sample import Swallowed, noting_exceptions
from loaderviz._contents.read_alone import N_CLOSER
from loaderviz.loaders.content_hash import content_number

ELSEWHERE, FILLER = "a sample that comes elsewhere, too", "the same filler each time"


@dataclass(frozen=True)
class StreamRead:
    """What reading the first samples of a stream has shown.

    Attributes:
        overwritten: the place of a sample, from 0, that changed when the next one was read.
        replaced: what was met and not raised where another sample came, in a stream whose other
            samples all differ.
        by_what: came then: a sample that comes elsewhere, too, or the same filler each time.
    """

    overwritten: int | None = None
    replaced: Swallowed | None = None
    by_what: str = ""


def read_stream(dataset: Any) -> StreamRead:
    """Read the first samples of a stream, in a copy of this process. Raises what it raises."""
    watch = StreamWatch(dataset)
    for _ in islice(watch.items(), N_CLOSER):
        pass
    return watch.read()


class StreamWatch:
    """Looks closer at the first samples of a stream while somebody reads it."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._numbers: list[int | None] = []
        self._swallowed: dict[int, Swallowed] = {}
        self._overwritten: int | None = None

    def items(self) -> Iterator[Any]:
        """Each sample, in order. Raises what the dataset raises."""
        met: list[Swallowed] = []
        note = noting_exceptions(self._dataset, met)
        stream = iter(self._dataset)
        before = None
        for place in range(N_CLOSER):
            met.clear()
            others = sys.gettrace()  # a debugger, say, or what measures coverage: theirs goes first
            try:
                sys.settrace(others or note)
                sample = next(stream, StopIteration)
            finally:
                sys.settrace(others)
            if place and self._overwritten is None and content_number(before) != self._numbers[-1]:
                self._overwritten = place - 1
            if sample is StopIteration:
                return
            before = sample
            self._numbers.append(content_number(sample))
            if met:
                self._swallowed[place] = met[-1]
            yield sample
        yield from stream

    def read(self) -> StreamRead:
        """What has been seen so far."""
        swallowed = self._swallowed
        others = [number for place, number in enumerate(self._numbers) if place not in swallowed]
        twice = [place for place in swallowed if self._numbers[place] in others]
        failed = [place for place in swallowed if not swallowed[place].of_lookup]
        came = {self._numbers[place] for place in failed}
        filled = failed if len(failed) > 1 and len(came) == 1 and None not in came else []
        told_apart = None not in others and len({*others}) == len(others)
        if not told_apart or not (twice or filled):
            return StreamRead(self._overwritten)
        by_what = ELSEWHERE if twice else FILLER
        return StreamRead(self._overwritten, swallowed[(twice or filled)[0]], by_what)
