"""Reads on in a spool file while it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from loaderviz.spool import HEADER_BYTES, SpoolHead, Words, blocks
from loaderviz.spool_ring import BLOCK_HEAD


class SpoolTail:
    """A spool file that grows, read on from where the last read ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._block, self._at = 0, BLOCK_HEAD  # the number of the block read last, and how far
        self.head = SpoolHead(path)
        self._before = self._block, self._at  # the last read
        self._seen: list[tuple[int, int]] = []  # blocks of the last read: first word, and number
        self.live: Words = np.zeros(0, np.int64)  # the words of the file, at the last read

    def was_overtaken(self) -> bool:
        """Whether a block of the last read was written over since: then the next reads it again.

        Its records have a place of their own by then. So has a block that was moved while the last
        read was under way, which may have missed it, as where the file has grown for it.
        """
        view = max(self._mapped(), self.live, key=len).data
        seen = {number for _, number in self._seen}
        last = max(seen, default=0)
        there = {number for number, *_ in blocks(view) if self._before[0] <= number <= last}
        if there <= seen and all(view[at + 2] == number for at, number in self._seen):
            return False
        self._block, self._at = self._before
        return True

    def _mapped(self) -> Words:
        """The file's words after its header; none where it has no block yet, or is gone."""
        try:
            return np.memmap(self._path, np.int64, "r", HEADER_BYTES)
        except (OSError, ValueError):
            return np.zeros(0, np.int64)

    def read(self, *, copied: bool = False) -> tuple[Words, list[tuple[int, int]]]:
        """The file's words after its header, and of each new record the tag and first word.

        ``copied``: the blocks with new records as they are now, so that hardly any is overtaken
        meanwhile, and nothing of the others; ``live`` has all.
        """
        self.head = SpoolHead(self._path)
        self._before, self._seen = (self._block, self._at), []
        self.live = self._mapped()
        new_records: list[tuple[int, int]] = []
        words = np.zeros(len(self.live), np.int64) if copied else self.live
        view = words.data
        for number, start, end in blocks(self.live.data):
            if number < self._block:
                continue
            if number > self._block:
                self._block, self._at = number, BLOCK_HEAD
            self._seen.append((start, number))
            if copied:
                words[start:end] = self.live[start:end]
            at = start + self._at
            while at + 2 <= end and 2 <= view[at] <= end - at:
                new_records.append((view[at + 1], at))
                at += view[at]
            self._at = at - start
        return words, new_records

    def read_last_again(self, n_words: int) -> None:
        """Let the next ``read`` return the last record once more; it has ``n_words`` words."""
        self._at -= n_words
