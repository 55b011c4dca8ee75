"""Folders of pictures that are made once and kept, and Pillow, which makes and reads them."""

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loaderviz.errors import LoaderVizError


def cached_folder(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache; made now if it does not exist yet.

    The folder is complete or absent: several processes may call this at the same time, and an
    interrupted call leaves nothing that a later one would take for a complete set.

    make: called with an empty folder, to fill it.

    Raises LoaderVizError if Pillow is not installed or the folder cannot be written.
    """
    pillow()  # here, in the main process, rather than first in a worker
    try:
        folder = _cache_folder() / name
        if not folder.is_dir():
            _make(folder, make)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        raise LoaderVizError(
            f"cannot keep the pictures {name} ({error}): "
            "set the environment variable LOADERVIZ_CACHE to a folder that can be written"
        ) from error
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    # The name is unique, even among threads and hosts. It is beside the final one, since a rename
    # within one folder never copies. Not tempfile.mkdtemp: only the owner can read its folders.
    unfinished = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    unfinished.mkdir(parents=True)
    try:
        make(unfinished)
        unfinished.rename(folder)
    except OSError:
        # Another process may have been faster, and has made the same pictures.
        if not folder.is_dir():
            raise
    finally:
        # Runs on KeyboardInterrupt, too. After the rename there is nothing left to remove.
        shutil.rmtree(unfinished, ignore_errors=True)


def _cache_folder() -> Path:
    """`$LOADERVIZ_CACHE`, or else `$XDG_CACHE_HOME/loaderviz`, or else `~/.cache/loaderviz`."""
    if chosen := os.environ.get("LOADERVIZ_CACHE"):
        return Path(chosen).expanduser().absolute()
    xdg_cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG base directory specification ignores a relative path.
    return (xdg_cache if xdg_cache.is_absolute() else Path.home() / ".cache") / "loaderviz"


def pillow() -> Any:
    """Pillow's module `PIL.Image`; raises LoaderVizError if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise LoaderVizError(
            "the pictures need Pillow, which is not installed: pip install 'loaderviz[notebook]'"
        ) from None
    return Image
