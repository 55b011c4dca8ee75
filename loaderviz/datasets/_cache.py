"""Folders of pictures that are made once, and Pillow, which makes and reads them."""

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loaderviz.errors import LoaderVizError


def kept(name: str, n: int, make: Callable[[Path], None]) -> Path:
    """The cache's folder of this name with n pictures in it, made now if it is not there yet.

    It is there whole or not at all: several processes may call this at the same time, and an
    interrupted call leaves nothing that a later one would take for a full set.

    make: called with an empty folder, to fill it; files that are no `.jpg` do not count.

    Raises LoaderVizError without Pillow, where the folder cannot be written, and where pictures
    are missing from it.
    """
    pillow()  # here, in the main process, rather than first in a worker
    cache = cache_folder()
    folder = cache / name
    try:
        if not folder.is_dir():
            _make(folder, make)
        found = sum(path.suffix == ".jpg" for path in folder.iterdir())
    except OSError as error:
        raise LoaderVizError(
            f"cannot keep {n} pictures in {cache} ({error}): "
            "set the environment variable LOADERVIZ_CACHE to a folder that can be written"
        ) from error
    if found != n:
        raise LoaderVizError(
            f"{folder} holds {found} pictures instead of {n}: delete that folder and try again"
        )
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    # The name is unique, for two threads or hosts too, and beside the final one: a rename within
    # one folder never copies. Not tempfile.mkdtemp, whose folders only their owner can read.
    unfinished = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    unfinished.mkdir(parents=True)
    try:
        make(unfinished)
        try:
            unfinished.rename(folder)
        except OSError:
            # Another process was first; its pictures are as good as ours.
            if not folder.is_dir():
                raise
    finally:
        # Also on KeyboardInterrupt. After the rename there is nothing left here to remove.
        shutil.rmtree(unfinished, ignore_errors=True)


def cache_folder() -> Path:
    own = os.environ.get("LOADERVIZ_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if shared.is_absolute():  # the XDG base directory specification has others ignored
        return shared / "loaderviz"
    try:
        return Path.home() / ".cache" / "loaderviz"
    except RuntimeError:
        raise LoaderVizError(
            "no home folder to keep the pictures in: set the environment variable LOADERVIZ_CACHE "
            "to a folder that can be written"
        ) from None


def pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise LoaderVizError(
            "the pictures need Pillow, which is not installed: pip install loaderviz[notebook]"
        ) from None
    return Image
