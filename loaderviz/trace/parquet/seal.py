"""A seal inside a Parquet file: a digest that covers the whole file.

Readers of Parquet find the footer from the end of the file, and the data from the footer; they do
not look at bytes between the last data page and the footer. The seal is there: 8 bytes that name
it, then the BLAKE2b digest (32 bytes) of every other byte of the file. To any other reader the
file is plain Parquet. The digest shows damage, not forgery: anyone can seal a file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Final

from loaderviz.errors import LoaderVizError

NAME: Final = b"LVSEAL01"
DIGEST_BYTES: Final = 32
_PARQUET: Final = b"PAR1"  # both ends of a Parquet file
_END_BYTES: Final = 8  # the length of the footer, then PAR1
_READ_BYTES: Final = 1 << 20


def seal(file: BinaryIO) -> None:
    """Seal a whole Parquet file, which is open for reading and writing."""
    at = _footer_at(file)
    file.seek(at)
    footer = file.read()
    file.seek(at)
    file.write(NAME + bytes(DIGEST_BYTES) + footer)
    digest = _digest(file, at + len(NAME))
    file.seek(at + len(NAME))
    file.write(digest)


def check_seal(file: BinaryIO, path: Path) -> None:
    """Check that a file is what was sealed, to the bit; ``path`` is its name in the error.

    Raises:
        LoaderVizError: where it is not; says whether the file is damaged or was never sealed.
    """
    file.seek(0)
    if file.read(len(_PARQUET)) != _PARQUET:
        raise not_a_trace(path)
    at = _footer_at(file) - len(NAME) - DIGEST_BYTES
    if at < len(_PARQUET):
        raise damaged(path, "its end is missing or unreadable")
    file.seek(at)
    stored_seal = file.read(len(NAME) + DIGEST_BYTES)
    if not stored_seal.startswith(NAME):
        raise not_a_trace(path)
    if stored_seal[len(NAME) :] != _digest(file, at + len(NAME)):
        raise damaged(path, "its content does not match its digest")


def not_a_trace(path: Path) -> LoaderVizError:
    """The error for a file that is not a saved trace."""
    return LoaderVizError(
        f"{str(path)!r} is a file, but not a trace saved by loaderviz; load() opens what "
        "Trace.save(path) wrote, or the folder that record(..., path=folder) wrote"
    )


def damaged(path: Path, how: object) -> LoaderVizError:
    """The error for a saved trace that is damaged; ``how`` says what is wrong with it."""
    return LoaderVizError(
        f"the saved trace {str(path)!r} is damaged ({how}); "
        "copy it again from where it was saved, or save the trace anew"
    )


def _footer_at(file: BinaryIO) -> int:
    """The byte at which the footer begins; negative where there is none."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _END_BYTES, 0))
    end = file.read(_END_BYTES)
    if len(end) < _END_BYTES or not end.endswith(_PARQUET):
        return -1
    return size - _END_BYTES - int.from_bytes(end[:4], "little")


def _digest(file: BinaryIO, at: int) -> bytes:
    """The digest of everything in the file but the digest itself, which is at byte ``at``."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    file.seek(0)
    n_before = at
    while n_before and (block := file.read(min(n_before, _READ_BYTES))):
        digest.update(block)
        n_before -= len(block)
    file.seek(at + DIGEST_BYTES)
    while block := file.read(_READ_BYTES):
        digest.update(block)
    return digest.digest()
