"""One spool file for what many ended processes wrote: each epoch may have workers of its own.

It has a record for each file that was moved into it. A record gets its tag last, and the file goes
after that: whoever is killed in between leaves the file, or both.
"""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import numpy as np

from loaderviz.record_layout import Tag, pack_text, unpack_text
from loaderviz.spool import Spool, SpoolFile, Words, blocks
from loaderviz.spool_ring import BLOCK_HEAD

LARGEST_FILE_BYTES = 1 << 20  # what a larger one does not use is little: it need not be moved
_ENDED, _RSS_PEAK, _N_TEXT, _TEXT = range(2, 6)


class ArchivedSpool(SpoolFile):
    """A spool file as it was when it was moved: from its record in the archive."""

    def __init__(self, archive_format: int, record: Words) -> None:
        text_end = _TEXT + int(record[_N_TEXT])
        self.format = archive_format
        self.ended_ns, self.rss_peak_bytes = record[_ENDED:_N_TEXT].tolist()
        meta, self.problem = json.loads(unpack_text(record[_TEXT:text_end]))
        self.meta = dict(meta)
        self.words = record[text_end:]


def move(path: Path, archive: Spool) -> int:
    """Move the file of a process that has ended into ``archive``.

    Returns how many bytes this frees, those that a limited spool had taken and not used included.

    Raises:
        LoaderVizError: for a file that cannot be read.
        OSError, NoRoomError: where the archive has no room.
    """
    n_bytes = path.stat().st_size
    file = SpoolFile(path)
    text = pack_text(json.dumps([file.meta, file.problem]))
    parts = [file.words[start + BLOCK_HEAD : end] for _, start, end in blocks(file.words.data)]
    n_words = BLOCK_HEAD + sum(map(len, parts))
    block_head = [n_words, n_words, 1]
    head = [file.ended_ns, file.rss_peak_bytes, len(text), *text, *block_head]
    words = array("q", np.concatenate([np.array(head, np.int64), *parts]).tobytes())
    block, start = archive.reserve(2 + len(words), 0)
    block[start + 2 : start + 2 + len(words)] = memoryview(words)
    block[start + 1] = Tag.ENDED_FILE
    path.unlink()
    return n_bytes + file.unused_bytes


def records(archive: SpoolFile) -> list[Words]:
    """The record of each file that was moved into ``archive``, for ``ArchivedSpool``."""
    starts = archive.records().get(Tag.ENDED_FILE, np.zeros(0, np.int64)).tolist()
    words = archive.words
    return [words[start : start + words[start]] for start in starts]
