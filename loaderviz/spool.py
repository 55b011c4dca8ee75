"""Crash-safe span files: one writer, any number of readers, at any moment.

A spool file is a header followed by blocks of records. All of it is int64 words in a shared
memory map, so that what was written outlives the process that wrote it, however it ended. A record
is reserved whole, then filled in as things happen: a zero means "not yet".

    header   magic, length of meta, ended_ns, rss_peak_bytes, failed, reserved..., meta as JSON
    block    words in this block, words used, records...
    record   words in this record, tag, fields...
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loaderviz.errors import LoaderVizError

MAGIC = int.from_bytes(b"LVSPOOL1", "little")
WORD = 8
ENDED, RSS_PEAK, FAILED = 2, 3, 4  # words of the header that change while the file is written
META_AT = 8 * WORD
HEADER_BYTES = mmap.ALLOCATIONGRANULARITY
FIRST_BLOCK_BYTES = 1 << 18
LARGEST_BLOCK_BYTES = 1 << 24


class Spool:
    """The writing end, used by one thread of one process at a time."""

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        text = json.dumps(meta).encode()
        if len(text) > HEADER_BYTES - META_AT:
            raise LoaderVizError(f"spool meta of {len(text)} bytes does not fit its header")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0))
        try:
            _allocate(self._fd, 0, HEADER_BYTES)
            page = mmap.mmap(self._fd, HEADER_BYTES)
        except OSError:
            self.close()
            raise
        page[META_AT : META_AT + len(text)] = text
        self.header = memoryview(page).cast("q")
        self.header[1] = len(text)
        self.header[0] = MAGIC
        self._size = HEADER_BYTES
        self._next_block_bytes = FIRST_BLOCK_BYTES
        self._block = self.header[:0]
        self._used = 0

    def reserve(self, n_words: int, tag: int) -> tuple[memoryview[int], int]:
        """Room for a record of ``n_words``, its first two words included.

        Returns the block and where in it the record begins; the other words are zero.
        Raises OSError where the disk is full.
        """
        at = self._used
        if at + n_words > len(self._block):
            self._add_block(n_words)
            at = self._used
        block = self._block
        block[at + 1] = tag
        block[at] = n_words
        self._used = block[1] = at + n_words
        return block, at

    def write(self, tag: int, *fields: int) -> tuple[memoryview[int], int]:
        """One record, written at once; returns where it is, as ``reserve`` does."""
        # The tag comes last: a writer that is stopped half-way leaves a record that means nothing.
        block, at = self.reserve(2 + len(fields), 0)
        for i, field in enumerate(fields, at + 2):
            block[i] = field
        block[at + 1] = tag
        return block, at

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _add_block(self, n_words: int) -> None:
        n_bytes = self._next_block_bytes
        while n_bytes < (n_words + 2) * WORD:
            n_bytes *= 2
        _allocate(self._fd, self._size, n_bytes)
        block = memoryview(mmap.mmap(self._fd, n_bytes, offset=self._size)).cast("q")
        block[1] = 2
        block[0] = n_bytes // WORD
        self._size += n_bytes
        self._next_block_bytes = min(2 * self._next_block_bytes, LARGEST_BLOCK_BYTES)
        self._block, self._used = block, 2


def _allocate(fd: int, offset: int, n_bytes: int) -> None:
    """Grow a file for real: a write to a sparse map on a full disk would kill the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, offset, n_bytes)
    else:
        os.lseek(fd, offset, os.SEEK_SET)
        os.write(fd, bytes(n_bytes))


class Record(NamedTuple):
    tag: int
    words: np.ndarray[Any, np.dtype[np.int64]]  # all its words, the first two included


class SpoolFile:
    """The reading end: what the file held at the moment of opening."""

    def __init__(self, path: Path) -> None:
        try:
            data = np.fromfile(path, dtype=np.int64)
        except OSError as error:
            raise LoaderVizError(f"cannot read the recording file {path}: {error}") from error
        if len(data) * WORD < HEADER_BYTES or data[0] != MAGIC:
            raise LoaderVizError(f"{path} is no recording file of loaderviz (or an empty one)")
        raw = data[META_AT // WORD : HEADER_BYTES // WORD].tobytes()
        try:
            self.meta: dict[str, Any] = dict(json.loads(raw[: int(data[1])]))
        except (ValueError, TypeError, RecursionError) as error:
            raise LoaderVizError(f"the header of {path} is damaged: {error}") from error
        self.ended_ns = int(data[ENDED])
        self.rss_peak_bytes = int(data[RSS_PEAK])
        self.failed = bool(data[FAILED])
        self._data = data[HEADER_BYTES // WORD :]

    def records(self) -> Iterator[Record]:
        """Every record, in the order of writing; stops at the first one that is damaged."""
        data, start = self._data, 0
        while start + 2 <= len(data):
            n_words, used = int(data[start]), int(data[start + 1])
            if n_words < 2 or not 2 <= used <= n_words:
                return
            at, end = start + 2, min(start + used, len(data))
            while at + 2 <= end:
                n = int(data[at])
                if n < 2 or at + n > end:
                    return
                yield Record(int(data[at + 1]), data[at : at + n])
                at += n
            start += n_words
