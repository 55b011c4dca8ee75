"""Crash-safe span files: one writer, any number of readers, at any moment.

A spool file is a header followed by blocks of records. All of it is int64 words in a shared
memory map, so what was written survives the process that wrote it, however that ended. A record is
reserved whole, then filled in as things happen: a zero means "not yet".

    header   magic, length of meta, ended_ns, rss_peak_bytes, unused_bytes, reserved..., meta as
             JSON, problem
    block    words in this block, words used, its number in the order of writing, records...
    record   words in this record, tag, fields...

A spool with a ``Ring`` writes over its oldest blocks, once they are old enough and nobody fills in
anything there any more: so its file stays as large as it is.

The problem, text at the end of the header, says why the writer gave up; it is empty otherwise.
"""

from __future__ import annotations

import errno
import functools
import json
import mmap
import os
import struct
from array import array
from pathlib import Path
from typing import Any, Protocol, SupportsIndex

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.own_errors import own_errors, own_errors_suppressed
from loaderviz.regular_file import open_regular
from loaderviz.spool_ring import BLOCK_HEAD, Ring

_NAMES = {n: b"LVSPOOL%d" % n for n in range(1, 7)}
# How the records are laid out, by the first word of a file: see ``loaderviz.record_layout``.
FORMATS = {int.from_bytes(name, "little"): n for n, name in _NAMES.items()}
MAGIC = int.from_bytes(_NAMES[6], "little")
WORD = 8
ENDED, RSS_PEAK, UNUSED = 2, 3, 4  # words of the header that change while the file is written
META_AT = 8 * WORD
HEADER_BYTES = mmap.ALLOCATIONGRANULARITY
PROBLEM_BYTES = 512
PROBLEM_AT = HEADER_BYTES - PROBLEM_BYTES
FIRST_BLOCK_BYTES = 1 << 18
LARGEST_BLOCK_BYTES = 1 << 24
WINDOW_BYTES = 1 << 16
RING_BLOCK_BYTES = 1 << 17
SMALL_WINDOW_BYTES = max(1 << 14, mmap.ALLOCATIONGRANULARITY)  # where there is a limit

Words = np.ndarray[Any, np.dtype[np.int64]]


class NoRoomError(Exception):
    """The recording may not use more bytes: see ``Limit``."""


class NoIntegersError(ValueError):
    """A field of a record is no integer, or none of 64 bits."""


class Limit(Protocol):
    """What a spool asks before its file grows."""

    largest_block_bytes: int

    def take(self, n_bytes: int) -> bool:
        """Whether the recording's files may grow by ``n_bytes``, which then count as used."""


class Spool:
    """The writing end, used by one thread of one process at a time. Records stay where they are.

    With a ``limit`` it takes the bytes of each part of its file one part ahead, so that what is
    under way when the last bytes are taken still has room; after that ``reserve`` and ``write``
    raise NoRoomError. ``paid_bytes`` were taken for it beforehand. With a ``ring`` old blocks are
    written over before the file grows, and at the limit the oldest, however old.

    Raises:
        LoaderVizError: for a ``meta`` that does not fit the header.
        NoRoomError: where the limit has no room for the header.
        OSError: where the file exists already or cannot be made.
    """

    def __init__(
        self,
        path: Path,
        meta: dict[str, Any],
        limit: Limit | None = None,
        paid_bytes: int = 0,
        ring: Ring | None = None,
    ) -> None:
        text = json.dumps(meta).encode()
        if len(text) > PROBLEM_AT - META_AT:
            raise LoaderVizError(f"spool meta of {len(text)} bytes does not fit its header")
        self._limit, self._paid_bytes = limit, paid_bytes
        self._ring = ring
        self._take_bytes(HEADER_BYTES)
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            self._fd = os.open(path, flags, 0o666)
            self._identity = _identity(self._fd)
            _allocate(self._fd, 0, HEADER_BYTES)
            page = mmap.mmap(self._fd, HEADER_BYTES)
            page[META_AT : META_AT + len(text)] = text
            self.header = memoryview(page).cast("q")
            self.header[1] = len(text)
            self.header[0] = MAGIC
        except own_errors(FileExistsError):  # another's file
            raise
        except BaseException:  # a full disk, or Ctrl-C: half a file would look damaged
            self.close()
            with own_errors_suppressed(OSError):
                path.unlink()
            raise
        self._page = page
        self._file_bytes = HEADER_BYTES
        self._next_block_bytes = self._limited(FIRST_BLOCK_BYTES)
        self._block, self._block_at = self.header[:0], 0  # and where it is in the file
        self._block_number = 0
        self._used = 0
        self._latest = self._block, 0

    def reserve(self, n_words: int, tag: int) -> tuple[memoryview[int], int]:
        """Room for a record of ``n_words``, its first two words included.

        Returns the block and the word in it at which the record begins; the other words are zero.

        Raises:
            NoRoomError: where the limit is reached.
            OSError: where the disk is full, or the user's code has closed the file.
        """
        start = self._used
        if start + n_words > len(self._block):
            self._make_room(n_words)
            start = self._used
        block = self._block
        block[start + 1] = tag
        block[start] = n_words
        self._used = block[1] = start + n_words
        return block, start

    def write(self, tag: int, *fields: int) -> tuple[memoryview[int], int]:
        """Write a whole record; returns where it is and raises as ``reserve`` does."""
        n_words = 2 + len(fields)
        return self.pack(_words(n_words), (n_words, tag, *fields))

    def pack(
        self, layout: struct.Struct, words: tuple[SupportsIndex, ...]
    ) -> tuple[memoryview[int], int]:
        """Write one record or more, laid out like this, whole: their lengths are among ``words``.

        Returns where the first is and raises as ``reserve`` does; NoIntegersError for other words.
        """
        n_words = layout.size // WORD
        start = self._used
        if start + n_words > len(self._block):
            self._make_room(n_words)
            start = self._used
        block = self._block
        try:
            layout.pack_into(block, start * WORD, *words)
        except BaseException as error:
            block[start : start + n_words] = memoryview(bytes(n_words * WORD)).cast("q")
            if isinstance(error, own_errors(Exception, method="__index__", of=words)):
                raise NoIntegersError from error
            raise
        self._used = block[1] = start + n_words  # before this they do not count
        return block, start

    def overwrite(self, n_words: int, tag: int) -> tuple[memoryview[int], int]:
        """Reserve a record, where it fits in place of the one that ``overwrite`` gave last."""
        block, start = self._latest
        if not len(block) or block[start] < n_words:
            self._latest = self.reserve(n_words, tag)
            return self._latest
        end = start + block[start]
        block[start + 2 : end] = memoryview(bytes((end - start - 2) * WORD)).cast("q")
        return block, start

    @property
    def block_number(self) -> int:
        """The number of the block that is being filled, of a ring; else 0, as none is lost."""
        return 0 if self._ring is None else self._block_number

    def note_problem(self, problem: object) -> None:
        """Write down why nothing more will be written; only the first reason is kept."""
        if not self._page[PROBLEM_AT]:
            text = (str(problem) or type(problem).__name__).encode("utf-8", "replace")
            text = text[: PROBLEM_BYTES - 1]
            self._page[PROBLEM_AT : PROBLEM_AT + len(text)] = text

    def note_end(self, at_ns: int) -> None:
        """Write down that its process ends, and how much of its limit it does not use."""
        self.header[ENDED], self.header[UNUSED] = at_ns, self._paid_bytes

    def close(self) -> None:
        """Close the file, unless the user's code has done so; blocks stay mapped while in use."""
        if self._fd >= 0 and _identity(self._fd) == self._identity:
            os.close(self._fd)
        self._fd = -1

    def _check_file(self) -> None:
        """Raise OSError unless the file is still open.

        The user's code may close any file, and open its own under the number of this one.
        """
        if _identity(self._fd) != self._identity:
            self._fd = -1
            raise OSError(errno.EBADF, "the recording's file was closed by another part")

    def _make_room(self, n_words: int) -> None:
        self._check_file()
        n_bytes = self._next_block_bytes
        if self._ring is not None:
            n_bytes = self._limited(RING_BLOCK_BYTES)
        while n_bytes < (n_words + BLOCK_HEAD) * WORD:
            n_bytes *= 2
        ring = self._ring
        if ring is not None and len(self._block):
            ring.note_full(self._block_at, self._block, is_mapped=True)
        offset = self._old_block(n_bytes)
        if ring is not None and offset >= 0:
            self._reuse(offset, n_bytes, ring)
        else:
            self._add_block(n_bytes)
        self._next_block_bytes = self._limited(min(2 * self._next_block_bytes, LARGEST_BLOCK_BYTES))
        self._tell_of_lost()

    def _old_block(self, n_bytes: int) -> int:
        """Where the ring has an old block to write over; -1 where the file may grow instead.

        Raises:
            NoRoomError: where it may not.
        """
        ring = self._ring
        if ring is None:
            self._take_bytes(n_bytes, ahead=True)
            return -1
        offset = ring.take(n_bytes)
        if offset < 0:
            try:
                self._take_bytes(n_bytes)
            except NoRoomError:
                offset = ring.take(n_bytes, however_old=True)
                if offset < 0:
                    raise
        return offset

    def _reuse(self, offset: int, n_bytes: int, ring: Ring) -> None:
        """Begin to write over an old block of the ring."""
        block = memoryview(mmap.mmap(self._fd, n_bytes, offset=offset)).cast("q")
        ring.lose(block)
        used = block[1]
        block[1] = BLOCK_HEAD
        block[BLOCK_HEAD:used] = memoryview(bytes((used - BLOCK_HEAD) * WORD)).cast("q")
        self._block_number += 1
        block[2] = self._block_number
        self._block, self._block_at, self._used = block, offset, BLOCK_HEAD

    def _tell_of_lost(self) -> None:
        """In a new block of a ring, say what has been written over."""
        if self._ring is not None:
            for tag, *fields in self._ring.told():
                self.write(tag, *fields)

    def _limited(self, n_bytes: int) -> int:
        return n_bytes if self._limit is None else min(n_bytes, self._limit.largest_block_bytes)

    def _take_bytes(self, n_bytes: int, *, ahead: bool = False) -> None:
        if self._limit is None:
            return
        lacking = n_bytes - self._paid_bytes
        if lacking > 0 and self._limit.take(lacking):
            self._paid_bytes = n_bytes
        if self._paid_bytes < n_bytes:
            raise NoRoomError
        self._paid_bytes -= n_bytes
        if ahead and self._paid_bytes < n_bytes and self._limit.take(n_bytes - self._paid_bytes):
            self._paid_bytes = n_bytes

    def _add_block(self, n_bytes: int) -> None:
        _allocate(self._fd, self._file_bytes, n_bytes)
        block = memoryview(mmap.mmap(self._fd, n_bytes, offset=self._file_bytes)).cast("q")
        self._block_number += 1
        block[:BLOCK_HEAD] = array("q", [n_bytes // WORD, BLOCK_HEAD, self._block_number])
        self._block, self._block_at, self._used = block, self._file_bytes, BLOCK_HEAD
        self._file_bytes += n_bytes


class RollingSpool(Spool):
    """A spool whose records are complete when the next one is reserved.

    So one mapped block is enough: when it is full, a plain write copies it to the end of the file,
    which costs far less than touching as many new pages of a map. A process that is killed in
    between leaves a block twice, under one number.
    """

    def _make_room(self, n_words: int) -> None:
        self._check_file()
        block, used = self._block, self._used
        n_bytes = WINDOW_BYTES if self._limit is None else SMALL_WINDOW_BYTES
        while n_bytes < 8 * n_words * WORD:  # what stays unused at its end is an eighth at most
            n_bytes *= 2
        grows = n_bytes > len(block) * WORD
        if len(block):
            self._put(block)
        if grows:
            self._take_bytes(n_bytes)
            self._add_block(n_bytes)
        else:
            zeros = memoryview(bytes((used - BLOCK_HEAD) * WORD)).cast("q")
            # Nothing is called from here on, so that no signal handler comes in between.
            self._block_number += 1
            block[1], block[2] = BLOCK_HEAD, self._block_number
            block[BLOCK_HEAD:used] = zeros
            self._used = BLOCK_HEAD
        self._latest = self._block[:0], 0
        self._tell_of_lost()

    def _put(self, block: memoryview[int]) -> None:
        """Copy a full block to the end of the file, or over an old one of the ring."""
        ring, n_bytes = self._ring, len(block) * WORD
        offset = self._old_block(n_bytes)
        if ring is not None and offset >= 0:
            ring.lose(memoryview(_read_at(self._fd, n_bytes, offset)).cast("q"))
            # Empty until all is there, for whoever is killed in between.
            _write_at(self._fd, offset, memoryview(_words(BLOCK_HEAD).pack(n_bytes // WORD, 3, 0)))
            head = BLOCK_HEAD * WORD
            _write_at(self._fd, offset + head, block.cast("B")[head:])
            _write_at(self._fd, offset, block.cast("B")[:head])
        else:
            offset = self._file_bytes
            _write_at(self._fd, offset, block.cast("B"))
            self._file_bytes += n_bytes
        if ring is not None:
            ring.note_full(offset, block, is_mapped=False)


@functools.cache
def _words(n: int) -> struct.Struct:
    return struct.Struct(f"{n}q")


def _write_at(fd: int, offset: int, data: memoryview[int]) -> None:
    if hasattr(os, "pwrite"):
        written = os.pwrite(fd, data, offset)
    else:
        os.lseek(fd, offset, os.SEEK_SET)
        written = os.write(fd, data)
    if written < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read_at(fd: int, n_bytes: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(fd, n_bytes, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, n_bytes)


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except own_errors(OSError):
        return None
    return status.st_dev, status.st_ino


def _allocate(fd: int, offset: int, n_bytes: int) -> None:
    """Grow a file and reserve its space: on a full disk, a write to a sparse map would be fatal."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, offset, n_bytes)
    else:
        os.lseek(fd, offset, os.SEEK_SET)
        os.write(fd, bytes(n_bytes))


def _read_words(path: Path, count: int = -1, offset: int = 0) -> Words:
    try:
        with open_regular(path) as file:
            file.seek(offset)
            # Not numpy.fromfile, which loses the exception of a signal that comes meanwhile.
            data = file.read(count * WORD if count >= 0 else -1)
    except own_errors(OSError) as error:
        raise LoaderVizError(f"cannot read the recording file {str(path)!r}: {error}") from error
    n_words = len(data) // WORD
    return np.frombuffer(data, np.int64, n_words) if n_words else np.zeros(0, np.int64)


class SpoolHead:
    """The reading end: what the header says at the moment of opening.

    Raises:
        LoaderVizError: for a file that cannot be read, is no spool or has a damaged header.
    """

    def __init__(self, path: Path) -> None:
        data = _read_words(path, count=HEADER_BYTES // WORD)
        if len(data) * WORD < HEADER_BYTES or int(data[0]) not in FORMATS:
            raise LoaderVizError(
                f"{str(path)!r} is no recording file of loaderviz (or an empty one)"
            )
        self.format = FORMATS[int(data[0])]
        raw = data[META_AT // WORD : HEADER_BYTES // WORD].tobytes()
        try:
            self.meta: dict[str, Any] = dict(json.loads(raw[: int(data[1])]))
        except own_errors(ValueError, TypeError, RecursionError) as error:
            raise LoaderVizError(f"the header of {str(path)!r} is damaged: {error}") from error
        self.ended_ns = int(data[ENDED])
        self.rss_peak_bytes = int(data[RSS_PEAK])
        self.unused_bytes = int(data[UNUSED])  # taken of a limit
        problem = data[PROBLEM_AT // WORD : HEADER_BYTES // WORD].tobytes()
        self.problem = problem.split(b"\0", 1)[0].decode("utf-8", "replace")


class SpoolFile(SpoolHead):
    """The reading end with all that the file holds: ``words``, int64 of shape (n_words,).

    Raises:
        LoaderVizError: as ``SpoolHead`` does.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.words = _read_words(path, offset=HEADER_BYTES)

    def records(self) -> dict[int, Words]:
        """By tag: where in ``words`` each record begins, int64 of shape (n_records,).

        In the order of writing, up to the first record that is damaged.
        """
        words = self.words.data
        starts: list[int] = []
        for _, block_start, end in blocks(words):
            start = block_start + BLOCK_HEAD
            while start + 2 <= end and 2 <= words[start] <= end - start:
                starts.append(start)
                start += words[start]
            if start < end:
                break
        all_starts = np.array(starts, dtype=np.int64)
        tags = self.words[all_starts + 1]
        return {int(tag): all_starts[tags == tag] for tag in np.unique(tags)}


def blocks(words: memoryview[int]) -> list[tuple[int, int, int]]:
    """Each block's number, first word and the end of its records, in the order of writing."""
    by_number: dict[int, tuple[int, int, int]] = {}
    start = 0
    while start + BLOCK_HEAD <= len(words):
        n_words, used, number = words[start : start + BLOCK_HEAD]
        if not BLOCK_HEAD <= used <= n_words:
            break
        end = start + used
        if end <= len(words) or number not in by_number:  # else a copy that was cut off
            by_number[number] = number, start, min(end, len(words))
        start += n_words
    return [by_number[number] for number in sorted(by_number)]
