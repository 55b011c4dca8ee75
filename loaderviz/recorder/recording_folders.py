"""Makes and removes the folders that recordings are written to.

The ranks of a run share one folder. In it ``rank-00003`` is the folder of a recording that runs, or
was killed; ``rank-00003.parquet`` is one that has ended. Where both are there, the recording was
interrupted at its very end, when the file was complete: the file counts.

A folder at a path of the user's is locked while a recording runs in it: another process that is
given the same path meanwhile records beside it, and says so.

The temporary folder of a process that is killed stays, since nothing of ours runs in it any more.
The next recording removes it: it is known by its lock, which the system takes from a process that
ends and which no child inherits (fcntl(2), "Record locks"). On a system without such locks,
leftovers stay.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

from loaderviz.errors import LoaderVizError
from loaderviz.own_errors import own_errors, own_errors_suppressed, warn_or_print

if os.name == "posix":
    import fcntl

_PREFIX = "loaderviz-"
_TEMPORARY_LOCK = "temporary.lock"
_RUNNING_LOCK = "running.lock"  # in a folder at a path of the user's
_locks: dict[Path, int] = {}  # of each folder that this process records into, the open lock file


def make(path: Path | None) -> Path:
    """Make the folder of a recording: at ``path``, or a temporary one.

    While another process records into ``path`` the folder is ``path-1``, or the next that is free;
    a warning says so.

    Raises:
        LoaderVizError: where ``path`` holds something already, or the folder cannot be made.
    """
    try:
        if path is None:
            return _make_temporary()
        for number in itertools.count():
            folder = (path.with_name(f"{path.name}-{number}") if number else path).absolute()
            if _claim(folder):
                break
    except own_errors(OSError) as error:
        where = "a temporary folder" if path is None else f"the folder {path}"
        raise LoaderVizError(f"cannot make {where} for the recording: {error}") from error
    if number:
        text = f"another process records into {path}: this recording is kept in {folder}"
        warn_or_print(text, stacklevel=3)
    return folder


def make_in_run(run: Path, rank: int, *, allow_restart: bool = False) -> Path:
    """Make the folder of one rank's recording, in the folder of a run that all ranks share.

    ``allow_restart``: where this rank has one already, as after a restart, make a further one.

    Raises:
        LoaderVizError: where the rank has one already, or the folder cannot be made.
    """
    name = f"rank-{rank:05d}"
    try:
        run.mkdir(parents=True, exist_ok=True)
        for number in itertools.count():
            folder = run / (f"{name}-{number}" if number else name)
            if number and not allow_restart:
                break
            if finished_file(folder).exists():
                continue
            with own_errors_suppressed(FileExistsError):
                folder.mkdir()
                return folder.absolute()
    except own_errors(OSError) as error:
        raise LoaderVizError(f"cannot make a folder in {run} for rank {rank}: {error}") from error
    raise LoaderVizError(
        f"{str(run)!r} holds a recording of rank {rank} already: each run needs a folder of its own"
    )


def finished_file(folder: Path) -> Path:
    """The path of the one file that replaces a rank's folder when its recording has ended."""
    return folder.with_name(f"{folder.name}.parquet")


def remove(folder: Path) -> None:
    """Remove the folder of a recording, as far as that can be done."""
    _remove_files(folder)
    _unlock(folder)


def keep(folder: Path) -> None:
    """Leave the folder of a recording that has ended to whoever reads it."""
    with own_errors_suppressed(OSError):
        (folder / _RUNNING_LOCK).unlink(missing_ok=True)
    _unlock(folder)


def _claim(folder: Path) -> bool:
    """Take a new or empty folder; False while another process records into it."""
    lock_path = folder / _RUNNING_LOCK
    is_folder = not folder.exists() or folder.is_dir()
    if is_folder and folder not in _locks:
        folder.mkdir(parents=True, exist_ok=True)
        if _is_empty(folder) or lock_path.exists():
            if os.name != "posix":
                return True
            lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _lock(lock) is False:
                os.close(lock)
                return False
            if _is_empty(folder):  # still, now that nobody else can take it
                _locks[folder] = lock
                return True
            os.close(lock)
    raise LoaderVizError(f"path={str(folder)!r} is taken: a recording needs a new or empty folder")


def _is_empty(folder: Path) -> bool:
    return all(entry.name == _RUNNING_LOCK for entry in folder.iterdir())


def _lock(fd: int) -> bool | None:
    """Lock an open file; False where another process has, None on a file system without locks."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except own_errors(BlockingIOError, PermissionError):  # fcntl(2): EAGAIN or EACCES
        return False
    except own_errors(OSError):
        return None
    return True


def _unlock(folder: Path) -> None:
    lock = _locks.pop(folder, None)
    if lock is not None:
        with own_errors_suppressed(OSError):  # the user's code has closed it
            os.close(lock)


def _remove_files(folder: Path) -> None:
    """Remove a folder of files; not shutil.rmtree, which can ignore errors of any origin only."""
    with own_errors_suppressed(OSError):
        for path in folder.iterdir():
            with own_errors_suppressed(OSError):
                path.unlink()
        folder.rmdir()


def _make_temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        if os.name == "posix":
            _remove_leftovers(folder.parent)
            lock = os.open(
                folder / f"{_TEMPORARY_LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600
            )
            _locks[folder] = lock
            if _lock(lock):  # before it gets its name: whoever finds the name finds it locked
                (folder / f"{_TEMPORARY_LOCK}.new").rename(folder / _TEMPORARY_LOCK)
    except BaseException:
        remove(folder)
        raise
    return folder


def _remove_leftovers(parent: Path) -> None:
    for lock_path in parent.glob(f"{_PREFIX}*/{_TEMPORARY_LOCK}"):
        if lock_path.parent in _locks:
            continue
        try:
            fd = os.open(lock_path, os.O_RDWR)
        except own_errors(OSError):  # another user's, or gone
            continue
        try:
            if _lock(fd):
                _remove_files(lock_path.parent)
        finally:
            os.close(fd)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.clear)  # they are the parent's
