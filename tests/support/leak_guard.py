"""A pytest plugin that fails any test which leaves something running or lying about.

Processes, threads, shared-memory segments and temporary files count. What a fixture of a wider
scope holds does not: it was there before the test, and so was the parent of what it starts.
What was left is reported once, and the next test is not blamed for it; nor is one that runs at the
same time in another process. Processes are looked for below this one, temporary files in a folder
that only this one has, and whose the segments are, `segments.py` works out.
"""

import gc
import multiprocessing
import multiprocessing.util
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import psutil
import pytest

from segments import Segment, is_ours, segments

pytest_plugins = ["unclaimed"]

# Workers and queue feeders may still be on their way out when the last line of a test has run.
GRACE_S = 2.0
LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()  # most Linux kernels


@pytest.fixture(scope="session")
def temporary_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that stands in for /tmp while a test runs.

    One for all tests, because the fork server of multiprocessing, started by one test, keeps its
    TMPDIR and serves the later ones.
    """
    # These choose their own folders for good when first asked, and must not choose ours.
    tmp_path_factory.getbasetemp()
    multiprocessing.util.get_temp_dir()
    # Not in pytest's folder: the path of a socket in here may have about 100 characters at most.
    with tempfile.TemporaryDirectory(prefix="lv-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def leak_guard(temporary_home: Path) -> Iterator[None]:
    before = _things(temporary_home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary_home))
        patch.setenv("TMPDIR", str(temporary_home))
        yield
    deadline = time.monotonic() + GRACE_S
    while (left := _left(before, temporary_home)) and time.monotonic() < deadline:
        gc.collect()  # an exception of a test may hold an iterator, and that its workers
        time.sleep(0.02)
    if left:
        names = ", ".join(_describe(thing) for thing in left)
        for thing in left:
            _remove(thing)
        pytest.fail(f"the test left behind: {names}", pytrace=False)


def _things(home: Path) -> set[Any]:
    return {*processes(), *threading.enumerate(), *segments(), *_temporary_files(home)}


def _left(before: set[Any], home: Path) -> list[Any]:
    return [
        thing
        for thing in _things(home) - before
        if not isinstance(thing, Segment) or is_ours(thing)
    ]


def processes() -> list[psutil.Process]:
    """The running children of this process and of the fork server, which forks on its behalf."""
    multiprocessing.active_children()  # reaps those that have ended
    # These helpers serve every later test and end with this process.
    fork_server = forkserver._forkserver._forkserver_pid
    helpers = {fork_server, resource_tracker._resource_tracker._pid}
    parents = {os.getpid(), *filter(None, [fork_server])}
    running = []
    for pid in {pid for parent in parents for pid in _children(parent)} - helpers:
        with suppress(psutil.NoSuchProcess):
            child = psutil.Process(pid)
            if child.status() != psutil.STATUS_ZOMBIE:
                running.append(child)
    return running


def _children(parent: int) -> Iterator[int]:
    """Those whose parent it is; psutil would read of each process of the machine, twice a test."""
    if LISTS_CHILDREN:
        for thread in Path(f"/proc/{parent}/task").glob("*"):
            with suppress(OSError):  # it has ended
                yield from map(int, (thread / "children").read_text().split())
    else:
        with suppress(psutil.NoSuchProcess):
            yield from (child.pid for child in psutil.Process(parent).children())


def _temporary_files(home: Path) -> list[Path]:
    return [path for path in home.iterdir() if not _is_of_a_killed_worker(path)]


def _is_of_a_killed_worker(path: Path) -> bool:
    """Its folder, which nobody removes then; or an empty file of torch's.

    Where a worker has died torch opens some, to see whether it still may (``_try_get_data`` in
    torch/utils/data/dataloader.py), and its SIGCHLD handler raises in the middle of that.
    """
    if path.name.startswith("pymp-"):
        return True
    with suppress(FileNotFoundError):
        return path.name.startswith("tmp") and path.is_file() and not path.stat().st_size
    return True


def _describe(thing: Any) -> str:
    if isinstance(thing, psutil.Process):
        with suppress(psutil.Error):
            return f"process {thing.pid} ({' '.join(thing.cmdline())[:200]})"
        return f"process {thing.pid}"
    if isinstance(thing, threading.Thread):
        return f"thread {thing.name!r}"
    kind = "shared-memory segment" if isinstance(thing, Segment) else "temporary file"
    return f"{kind} {thing.name}"


def _remove(thing: Any) -> None:
    """Put away what is surely ours; what stays is there before the next test starts.

    That is a thread, which nothing can end from outside, and a segment: should it be another
    program's after all, a failed test is harm enough.
    """
    if isinstance(thing, psutil.Process):
        with suppress(psutil.NoSuchProcess):
            tree = [*thing.children(recursive=True), thing]
            # Politely first: of a DataLoader's worker that is killed, torch tells by an exception
            # out of its SIGCHLD handler, here in the middle of pytest.
            for process in tree:
                process.terminate()
            for process in psutil.wait_procs(tree, timeout=GRACE_S)[1]:
                process.kill()
    elif isinstance(thing, Path):
        if thing.is_dir() and not thing.is_symlink():
            shutil.rmtree(thing, ignore_errors=True)
        else:
            thing.unlink(missing_ok=True)
