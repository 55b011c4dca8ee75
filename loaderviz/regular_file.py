"""Opens files that may come from a stranger: regular files alone, of a size that fits in memory.

Pipes, devices and sockets are refused, so that nothing waits for ever; so are links that lead out
of the folder in which they were found.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from loaderviz import machine
from loaderviz.errors import LoaderVizError
from loaderviz.text import size

MOST_TEXT_BYTES: Final = 1 << 26  # of a JSON file, which takes up to 24 times as much memory
SMALL_BYTES: Final = 1 << 26  # a smaller file fits into any machine


def open_regular(path: Path, *, may_lead_out: bool = False) -> BinaryIO:
    """The file, open for reading.

    Args:
        path: of the file.
        may_lead_out: whether it may be a link to a file elsewhere, as where the user named it.

    Raises:
        LoaderVizError: where it is no regular file, leads out of its folder, or is larger than the
            free memory.
        OSError: where it cannot be opened.
    """
    if not may_lead_out:
        refuse_leading_out(path)
    _refuse_irregular(path, path.stat())
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115
    try:
        status = os.fstat(file.fileno())
        _refuse_irregular(path, status)
        if status.st_size > SMALL_BYTES and status.st_size > machine.memory_available_bytes():
            raise LoaderVizError(
                f"{str(path)!r} has {size(status.st_size)}, more than the free memory; "
                "open it on a larger machine"
            )
    except BaseException:
        file.close()
        raise
    return file


def read_text(path: Path) -> str:
    """The text of a small file; raises as ``open_regular`` does, and ValueError for no UTF-8."""
    with open_regular(path) as file:
        data = file.read(MOST_TEXT_BYTES + 1)
    if len(data) > MOST_TEXT_BYTES:
        raise LoaderVizError(
            f"{str(path)!r} is larger than {size(MOST_TEXT_BYTES)}, the most that is read of it; "
            "copy it again from where it was written"
        )
    return data.decode()


def refuse_leading_out(path: Path) -> None:
    """Raise LoaderVizError for a link that leads out of the folder that it is in."""
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(
        os.path.realpath(path.parent)
    ):
        raise LoaderVizError(
            f"{str(path)!r} is a link that leads out of its folder; put what it leads to in its "
            "place, or open that by its own path"
        )


def _refuse_irregular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise LoaderVizError(f"{str(path)!r} is not a regular file: remove it, or copy it again")


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for a writer
