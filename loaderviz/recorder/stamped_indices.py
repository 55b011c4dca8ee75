"""Index lists that note the time at which each of their indices is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from loaderviz.clocks.process_clock import now
from loaderviz.record_layout import Task

_FROM_COLLATE = Task.STAMPS - Task.COLLATE


class StampedIndices:
    """An index list that writes into a record when each of its indices is drawn, in ns.

    ``keys`` is the list itself; ``index`` is that list, or what another recording has made of it.
    The times go into ``block``, from the word ``start`` of a Task's stamps on, one more than there
    are keys: the last is when all samples are read, and so also when they are collated.
    """

    __slots__ = ("_block", "_index", "_start", "keys")

    def __init__(
        self, index: Iterable[Any], keys: Sequence[Any], block: memoryview[int], start: int
    ) -> None:
        self.keys = keys
        self._index = index
        self._block = block
        self._start = start

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        block, word = self._block, self._start
        for key in self._index:
            block[word] = now()
            word += 1
            yield key
        block[word] = block[self._start - _FROM_COLLATE] = now()


class GatheredIndices:
    """The same for an index list whose keys and length are known only once it has been drawn.

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
