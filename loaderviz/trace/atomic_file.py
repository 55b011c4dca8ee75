"""Files that are there whole or not at all: one that is written is put in place once complete."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from loaderviz.errors import LoaderVizError
from loaderviz.own_errors import own_errors


@contextmanager
def replacing(
    path: str | os.PathLike[str], call: str, purpose: str = "save a trace"
) -> Iterator[BinaryIO]:
    """A file, open for reading and writing, that is at ``path`` once the block has ended well.

    Args:
        path: where to; a file that is there is replaced.
        call: what the user called, as the message of an error names it.
        purpose: what the call was to do, as the message of an error names it.

    Raises:
        LoaderVizError: where ``path`` is not a path or not one of a file, or cannot be written.
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
        temporary = target.with_name(f".loaderviz-{uuid.uuid4().hex}.tmp")
        try:
            with temporary.open("x+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except own_errors(MemoryError, OSError, RuntimeError, ValueError, pa.ArrowException) as error:
        raise LoaderVizError(
            f"cannot {purpose} as {str(path)!r} ({error}); "
            f"{call} takes the path of a file, in a folder that exists and has room"
        ) from error
