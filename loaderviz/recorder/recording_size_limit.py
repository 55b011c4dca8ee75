"""How many bytes the processes of one recording may still write: ``max_bytes``.

Half is for samples and spans. Past it only batches are written, until all is taken: then no process
takes more, and the main process only counts. What is taken is the length of a file that all append
to, a byte for each page: appending needs no lock that a killed process could hold.
"""

from __future__ import annotations

import os
from pathlib import Path

from loaderviz.errors import LoaderVizError
from loaderviz.recorder.control_page import Control
from loaderviz.spool import HEADER_BYTES, SMALL_WINDOW_BYTES

LEAST_BYTES = 1 << 20
MOST_BYTES = 1 << 62
PAGE_BYTES = HEADER_BYTES  # a file is mapped from such a place on
LARGEST_SHARE = 64  # no block of a file is larger than this part of the whole
_NAME = "budget"
# The description, twice while it is written anew, the control page, and a spool without records.
_OTHER_BYTES = 1 << 16
WORKER_BYTES = HEADER_BYTES + 2 * SMALL_WINDOW_BYTES


def check(max_bytes: object) -> None:
    """Raises LoaderVizError for what is no budget."""
    if max_bytes is None:
        return
    if type(max_bytes) is not int or not LEAST_BYTES <= max_bytes <= MOST_BYTES:
        raise LoaderVizError(
            f"max_bytes={max_bytes!r}: give {LEAST_BYTES:,} (1 MiB) or more, or None for no limit"
        )


class Budget:
    """What one process knows of it; ``take`` is called where a file must grow."""

    def __init__(self, folder: Path, control: Control) -> None:
        self._path = folder / _NAME
        self._control = control
        self._pages = control.max_bytes() // PAGE_BYTES
        self.largest_block_bytes = max(self._pages // LARGEST_SHARE, 1) * PAGE_BYTES

    @classmethod
    def create(cls, folder: Path, control: Control, max_bytes: int) -> Budget:
        control.limit(max_bytes)
        budget = cls(folder, control)
        budget._path.touch(exist_ok=False)
        budget.take(_OTHER_BYTES + max_bytes // PAGE_BYTES)
        return budget

    @classmethod
    def attach(cls, folder: Path, control: Control) -> Budget | None:
        """None where the recording has no limit."""
        return cls(folder, control) if control.max_bytes() else None

    def take(self, n_bytes: int) -> bool:
        """Whether so many more may be written. Once they may not, no process writes more.

        Raises OSError where this cannot be told: the disk is full, or the recording's folder gone.
        """
        if self._control.is_spent():
            return False
        pages = -(-n_bytes // PAGE_BYTES)
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self._path, flags)
        try:
            fits = os.fstat(fd).st_size + pages <= self._pages
            if fits:
                os.write(fd, bytes(pages))
                end = os.lseek(fd, 0, os.SEEK_CUR)  # where this write ended, whoever else wrote
                fits = end <= self._pages
        finally:
            os.close(fd)
        if not fits:
            self._control.spend()
        elif 2 * end > self._pages:
            self._control.fill()
        return fits
