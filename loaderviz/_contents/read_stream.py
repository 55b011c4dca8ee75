"""What reading a stream in one process shows: its samples, and which it overwrites or replaces."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import IterableDataset

from loaderviz._contents.one_sample import Swallowed, noting_exceptions
from loaderviz._contents.read_alone import N_CLOSER
from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.only_worker import as_only_worker

ELSEWHERE, FILLER = "a sample that comes elsewhere, too", "the same filler each time"


@dataclass(frozen=True)
class StreamRead:
    """What reading a stream in one process has shown.

    Attributes:
        numbers: of each sample, in order, the hash of its content; None where it has none. Empty
            where somebody else keeps them.
        has_more: whether the stream goes on after these.
        overwritten: the place of a sample, from 0, that changed when the next one was read.
        replaced: what was met and not raised where another sample came, in a stream whose other
            samples all differ.
        by_what: came then: a sample that comes elsewhere, too, or the same filler each time.
        fails_alone: what it raised where ``get_worker_info()`` is None, so that it was read as its
            only worker would; None where it can be read by itself.
    """

    numbers: tuple[int | None, ...] = ()
    has_more: bool = False
    overwritten: int | None = None
    replaced: Swallowed | None = None
    by_what: str = ""
    fails_alone: Exception | None = None


def read_stream(dataset: Any, most: int, until: float) -> StreamRead:
    """Read a stream to its end, or so many samples of it, or until this ``time.monotonic()``.

    Raises what it raises.
    """
    watch, numbers, has_more = StreamWatch(dataset), list[int | None](), False
    for sample in watch.items():
        has_more = len(numbers) == most or time.monotonic() > until
        if has_more:
            break
        numbers.append(content_number(sample))
    return replace(watch.read(), numbers=tuple(numbers), has_more=has_more)


class StreamWatch:
    """Looks closer at the first samples of a stream while somebody reads it."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._numbers: list[int | None] = []
        self._swallowed: dict[int, Swallowed] = {}
        self._overwritten: int | None = None
        self._fails_alone: Exception | None = None
        self._stream: Iterator[Any] = iter(())

    def items(self) -> Iterator[Any]:
        """Each sample, in order. Raises what the dataset raises."""
        met: list[Swallowed] = []
        note = noting_exceptions(self._dataset, met)
        before = None
        for place in range(N_CLOSER):
            met.clear()
            others = sys.gettrace()  # a debugger, say, or what measures coverage: theirs goes first
            try:
                sys.settrace(others or note)
                sample = self._next() if place else self._first()
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
        if self._fails_alone is None:
            yield from self._stream
            return
        while (sample := self._next()) is not StopIteration:
            yield sample

    def _first(self) -> Any:
        try:
            self._stream = iter(self._dataset)
            return self._next()
        except Exception as error:
            if not isinstance(self._dataset, IterableDataset) or "NoneType" not in str(error):
                raise
            self._fails_alone = error
            try:
                with as_only_worker(self._dataset):
                    self._stream = iter(self._dataset)
                return self._next()
            except Exception:
                raise error from None

    def _next(self) -> Any:
        """The next sample; StopIteration where there is none."""
        alone = self._fails_alone is None
        with nullcontext() if alone else as_only_worker(self._dataset):
            return next(self._stream, StopIteration)

    def read(self) -> StreamRead:
        """What has been seen so far."""
        swallowed = self._swallowed
        others = [number for place, number in enumerate(self._numbers) if place not in swallowed]
        twice = [place for place in swallowed if self._numbers[place] in others]
        failed = [place for place in swallowed if not swallowed[place].of_lookup]
        came = {self._numbers[place] for place in failed}
        filled = failed if len(failed) > 1 and len(came) == 1 and None not in came else []
        told_apart = None not in others and len({*others}) == len(others)
        seen = StreamRead(overwritten=self._overwritten, fails_alone=self._fails_alone)
        if not told_apart or not (twice or filled):
            return seen
        by_what = ELSEWHERE if twice else FILLER
        replaced = swallowed[(twice or filled)[0]]
        return replace(seen, replaced=replaced, by_what=by_what)
