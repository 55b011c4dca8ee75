"""How many bytes the processes of one recording may still write: ``max_bytes``.

Each file is a ring: where it may not grow it writes over its oldest block. Those of the main
process stop growing when half of the bytes are used, those of workers later, so that there is room
for further workers and for what the main process notes of them. The bytes taken so far are the
length of one file, a byte for each page, which every process appends to: appending needs no lock
that a killed process could keep.
"""

from __future__ import annotations

import os
from pathlib import Path

from loaderviz.errors import LoaderVizError
from loaderviz.plain_value import whole
from loaderviz.recorder.control_page import Control
from loaderviz.spool import HEADER_BYTES, SMALL_WINDOW_BYTES

LEAST_BYTES = 1 << 20
MOST_BYTES = 1 << 62
PAGE_BYTES = HEADER_BYTES  # parts of a file are mapped from multiples of it
MIN_BLOCKS = 64  # no block of a file is larger than the limit divided by this
_NAME = "budget"
# The description (twice while it is rewritten), the control page, and a spool without records.
_OTHER_BYTES = 1 << 16
WORKER_BYTES = HEADER_BYTES + 2 * SMALL_WINDOW_BYTES
# Until which part of the limit is used who may take more: 0 to 1.
BATCHES, WORKERS, NEW_WORKERS, EVENTS = 1 / 2, 3 / 4, 7 / 8, 1


def checked_max_bytes(max_bytes: object) -> int | None:
    """``max_bytes`` as an int, of any type of number; None for no limit.

    Raises:
        LoaderVizError: for anything else, and for less than 1 MiB.
    """
    if max_bytes is None:
        return None
    number = None if isinstance(max_bytes, bool | float) else whole(max_bytes)
    if number is None or not LEAST_BYTES <= number <= MOST_BYTES:
        raise LoaderVizError(
            f"max_bytes={max_bytes!r}: give {LEAST_BYTES:,} (1 MiB) or more, or None for no limit"
        )
    return number


class Budget:
    """The bytes of a recording, as one process takes them: ``take``, before a file grows.

    ``part``: until which part of them is used.
    """

    def __init__(self, folder: Path, control: Control, part: float) -> None:
        self._folder, self._path = folder, folder / _NAME
        self._control, self._part = control, part
        self._max_pages = control.max_bytes() // PAGE_BYTES
        self.largest_block_bytes = max(self._max_pages // MIN_BLOCKS, 1) * PAGE_BYTES

    @classmethod
    def create(cls, folder: Path, control: Control, max_bytes: int) -> Budget:
        """Begin the budget of a new recording; raises OSError where its file cannot be written."""
        control.set_max_bytes(max_bytes)
        budget = cls(folder, control, EVENTS)
        budget._path.touch(exist_ok=False)
        budget.take(_OTHER_BYTES + max_bytes // PAGE_BYTES)
        return budget

    @classmethod
    def attach(cls, folder: Path, control: Control) -> Budget | None:
        """The budget of a running recording; None where it has no limit."""
        return cls(folder, control, WORKERS) if control.max_bytes() else None

    def until(self, part: float) -> Budget:
        """The same for who may take less of it."""
        return Budget(self._folder, self._control, part)

    def take(self, n_bytes: int) -> bool:
        """Take ``n_bytes`` of what is left; returns whether there was so much.

        Raises OSError where this cannot be told: the disk is full, or the recording's folder gone.
        """
        most_pages = int(self._part * self._max_pages)
        n_pages = -(-n_bytes // PAGE_BYTES)
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self._path, flags)
        try:
            n_freed = self._control.freed_bytes() // PAGE_BYTES
            fits = os.fstat(fd).st_size - n_freed + n_pages <= most_pages
            if fits:
                os.write(fd, bytes(n_pages))
                end = os.lseek(fd, 0, os.SEEK_CUR)  # where this write ended, whoever else wrote
                fits = end - n_freed <= self._max_pages
        finally:
            os.close(fd)
        if not fits and self._part == EVENTS:
            self._control.set_spent()
        return fits

    def give_back(self, n_bytes: int) -> None:
        """Give back what a file took that is gone; the main process does.

        The file that counts them stays as long as they made it.
        """
        self._control.add_freed_bytes(n_bytes - n_bytes // PAGE_BYTES)
