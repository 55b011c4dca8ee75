"""Files that are there whole or not at all: what is written takes its place when it is complete."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from loaderviz.errors import LoaderVizError


@contextmanager
def replacing(
    path: str | os.PathLike[str], call: str, what: str = "save a trace"
) -> Iterator[BinaryIO]:
    """A file, open for reading and writing, that is at ``path`` once the block has ended well.

    ``call``: what the user called, and ``what`` it was to do, as the message of an error names it.

    Raises:
        LoaderVizError: where the path is none, or the file cannot be written.
    """
    import pyarrow as pa

    try:
        target = Path(path)
    except TypeError as error:
        raise LoaderVizError(f"{call} takes the path of a file, not {path!r}") from error
    try:
        target = target.resolve()  # a link stays a link
        if target.exists() and not target.is_file():
            raise LoaderVizError(f"{str(path)!r} is not a file; {call} writes or replaces a file")
        beside = target.with_name(f".loaderviz-{uuid.uuid4().hex}.tmp")
        try:
            with beside.open("x+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except (MemoryError, OSError, RuntimeError, ValueError, pa.ArrowException) as error:
        raise LoaderVizError(
            f"cannot {what} as {str(path)!r} ({error}); "
            f"{call} takes the path of a file, in a folder that exists and has room"
        ) from error
