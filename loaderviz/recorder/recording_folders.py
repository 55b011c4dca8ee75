"""Where a recording's files lie; a temporary folder that a killed process left goes with the next.

The ranks of a run share one folder. In it ``rank-00003`` is the folder of a recording that runs, or
was killed; ``rank-00003.parquet`` is one that has ended. Where both are there, its end was
interrupted after the file was whole: the file counts.

Nothing runs in a process that is killed, so its temporary folder stays. It is known by its lock,
which the system takes from a process that ends and which no child inherits (fcntl(2), "Record
locks"). Where a system has no such locks, leftovers stay.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from loaderviz.errors import LoaderVizError

if os.name == "posix":
    import fcntl

_PREFIX = "loaderviz-"
_LOCK = "temporary.lock"
_locks: dict[Path, int] = {}  # open files of the temporary folders of this process


def make(path: Path | None) -> Path:
    """The folder of a recording, a temporary one where none is asked for.

    Raises:
        LoaderVizError: where ``path`` holds something already, or it cannot be made.
    """
    try:
        if path is None:
            return _make_temporary()
        taken = path.exists() and (not path.is_dir() or any(path.iterdir()))
        if not taken:
            path.mkdir(parents=True, exist_ok=True)
            return path.absolute()
    except OSError as error:
        where = "a temporary folder" if path is None else f"the folder {path}"
        raise LoaderVizError(f"cannot make {where} for the recording: {error}") from error
    raise LoaderVizError(f"path={str(path)!r} is taken: a recording needs a new or empty folder")


def make_in_run(run: Path, rank: int, *, again: bool = False) -> Path:
    """The folder of one rank's recording in the folder of a run that several processes share.

    ``again``: where this rank has one already, as after a restart, it gets a further one.

    Raises:
        LoaderVizError: where the rank has one already, and where the folder cannot be made.
    """
    name = f"rank-{rank:05d}"
    try:
        run.mkdir(parents=True, exist_ok=True)
        for number in itertools.count():
            folder = run / (f"{name}-{number}" if number else name)
            if number and not again:
                break
            if sealed(folder).exists():
                continue
            with suppress(FileExistsError):
                folder.mkdir()
                return folder.absolute()
    except OSError as error:
        raise LoaderVizError(f"cannot make a folder in {run} for rank {rank}: {error}") from error
    raise LoaderVizError(
        f"{str(run)!r} holds a recording of rank {rank} already: each run needs a folder of its own"
    )


def sealed(folder: Path) -> Path:
    """The one file that takes the place of a rank's folder when its recording has ended."""
    return folder.with_name(f"{folder.name}.parquet")


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock = _locks.pop(folder, None)
    if lock is not None:
        os.close(lock)


def _make_temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    if os.name == "posix":
        _remove_leftovers(folder.parent)
        lock = os.open(folder / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _locks[folder] = lock
        if _hold(lock):  # first held, then named: whoever finds the name finds it held
            (folder / f"{_LOCK}.new").rename(folder / _LOCK)
    return folder


def _remove_leftovers(home: Path) -> None:
    for lock in home.glob(f"{_PREFIX}*/{_LOCK}"):
        if lock.parent in _locks:
            continue
        try:
            fd = os.open(lock, os.O_RDWR)
        except OSError:  # another user's, or gone
            continue
        try:
            if _hold(fd):
                shutil.rmtree(lock.parent, ignore_errors=True)
        finally:
            os.close(fd)


def _hold(fd: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
