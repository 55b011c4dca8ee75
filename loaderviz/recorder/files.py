"""The files of one recording: a folder with its description and one spool for each process.

Used by any thread of the process that records. What cannot be written ends the recording, with one
warning; never what is recorded.
"""

from __future__ import annotations

import json
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

from loaderviz.errors import LoaderVizError
from loaderviz.recorder.control import Control
from loaderviz.records import Tag
from loaderviz.spool import FAILED, Spool
from loaderviz.trace import META_NAME

MAIN_PROCESS = -1  # in place of a worker's number


def make_folder(path: Path | None) -> Path:
    """The folder of a recording, a temporary one where none is asked for.

    Raises:
        LoaderVizError: where ``path`` holds something already, or cannot be made.
    """
    if path is None:
        return Path(tempfile.mkdtemp(prefix="loaderviz-"))
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise LoaderVizError(
            f"path={str(path)!r} is taken: a recording needs a new or empty folder"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoaderVizError(f"cannot make the recording folder {path}: {error}") from error
    return path.absolute()


class Files:
    """Open from the start of a recording to its end; raises OSError where it cannot begin."""

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        self._meta = meta
        self._told = False
        self._here: list[Spool] = []  # of the fetches in this process
        self._free: list[Spool] = []
        self._save_meta()
        self._control = Control.create(folder)
        self._main: Spool | None = Spool(folder / "main.spool", {})
        self._open = True

    def stopped(self) -> bool:
        return not self._open

    def write(self, tag: Tag, *fields: int) -> tuple[memoryview[int], int] | None:
        """Write down one event of the main process; returns where, None where it could not."""
        with self.lock:
            if self._main is None:
                return None
            try:
                return self._main.write(tag, *fields)
            except (OSError, ValueError) as error:  # and not what torch raises on a worker's death
                self.fail(error)
                return None

    def add_loader(self, description: dict[str, Any]) -> None:
        self._meta["loaders"].append(description)
        self._save_meta()

    def borrow(self, iterator: int) -> Spool | None:
        """A spool for an iterator that loads in this process; None where there can be none.

        Each has one to itself while it lives, since several may run in turns or in threads.
        """
        if self._free:
            return self._free.pop()
        try:
            spool = Spool(self.folder / f"here-{iterator}.spool", {"worker": MAIN_PROCESS})
        except OSError as error:
            self.fail(error)
            return None
        self._here.append(spool)
        return spool

    def give_back(self, spool: Spool) -> None:
        self._free.append(spool)

    def fail(self, error: Exception) -> None:
        """A recorder that cannot write stops recording; the training goes on."""
        if self._main is not None:
            self._main.header[FAILED] = 1
            self._main.close()
            self._main = None
        self._open = False
        self._control.stop()
        self.tell(error)

    def tell(self, what: object) -> None:
        """Warn that something is missing, once."""
        if not self._told:
            self._told = True
            warnings.warn(f"loaderviz could not record everything: {what}", stacklevel=3)

    def finish(self, at: int) -> None:
        """Write that the recording has ended, here and for all workers."""
        with self.lock:
            self.write(Tag.FINISH, at)
            self._open = False
            if self._main is not None:
                self._control.stop()
                self._main.header[FAILED] |= self._control.has_failure()
                self._main.close()
            for spool in self._here:
                spool.close()

    def forget(self) -> None:
        """In a forked process: never write to the files of the process that is recorded."""
        self.lock = threading.RLock()  # another thread may have held it, and is not here
        self._open = False
        self._main = None
        self._free.clear()

    def _save_meta(self) -> None:
        written = self.folder / f"{META_NAME}.new"
        written.write_text(json.dumps(self._meta, indent=1))
        written.replace(self.folder / META_NAME)
