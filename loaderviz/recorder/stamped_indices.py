"""Index lists that note the time at which each of their indices is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from loaderviz.clocks.process_clock import now
from loaderviz.record_layout import Task

_STAMPS, _COLLATE = Task.STAMPS, Task.COLLATE


class StampedIndices:
    """An index list that writes into a record when each of its keys is drawn, in ns.

    One stamp more is written than there are keys: the last is when all samples are read, and so
    also when they are collated. One serves for fetch after fetch, since to make one takes time.

    Attributes:
        keys: the list itself.
        index: that list, or what another recording has made of it.
        block, start: where the TASK record is: the block, and the word in it at which it begins.
    """

    __slots__ = ("block", "index", "keys", "start")

    keys: Sequence[Any]
    index: Any
    block: memoryview[int]
    start: int

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        block, start = self.block, self.start
        word = start + _STAMPS
        for key in self.index:
            block[word] = now()
            word += 1
            yield key
        block[word] = block[start + _COLLATE] = now()


class GatheredIndices:
    """Notes the same for an index list whose keys are known only once they have been drawn.

    ``keys`` and ``stamps``, in ns, grow meanwhile; in the end there is one more stamp than keys.
    """

    def __init__(self, index: Any) -> None:
        self.keys: list[Any] = []
        self.stamps: list[int] = []
        self._index = index

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[Any]:
        for key in self._index:
            self.keys.append(key)
            self.stamps.append(now())
            yield key
        self.stamps.append(now())
