"""Index lists that look at the clock as they are gone through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from loaderviz.clocks.process_clock import now


class Stamped:
    """An index list that writes down when each of its indices is drawn.

    ``index`` is the list, or what another recording made of it; ``keys`` is the list itself.
    """

    def __init__(
        self, index: Iterable[Any], keys: Sequence[Any], block: memoryview[int], at: int
    ) -> None:
        self.keys = keys
        self._index = index
        self._block = block
        self._at = at

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        block, at = self._block, self._at
        for key in self._index:
            block[at] = now()
            at += 1
            yield key
        block[at] = now()


class Gathered:
    """The same for an index list that does not say what is in it until it is gone through."""

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
