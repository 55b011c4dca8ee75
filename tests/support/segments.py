"""Whose a segment of shared memory is, which neither its name nor the kernel's books tell.

/dev/shm is one for the whole machine, and other test processes work in it at the same time. What
tells is, in this order: that the maker or a child of it registered the segment with the resource
tracker of this process, that a process has it in its memory, and the process id that torch writes
into its names. What nothing tells of, `unclaimed.py` looks for when all tests have ended.
"""

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

import psutil

SHARED_MEMORY = Path("/dev/shm")  # on Linux; other systems do not list their segments
ANSWER_S = 30.0  # what is written into a pipe comes out of it, however busy the machine


listeners: set[int] = set()  # process ids, of this process's children


class Segment(NamedTuple):
    name: str
    device: int
    inode: int


def segments() -> Iterator[Segment]:
    """Those of this user. What appears under a name that was used before is another segment."""
    for path in SHARED_MEMORY.iterdir() if SHARED_MEMORY.is_dir() else ():
        with suppress(FileNotFoundError):
            stat = path.stat()
            if stat.st_uid == os.getuid():
                yield Segment(path.name, stat.st_dev, stat.st_ino)


def holders(segment: Segment, pids: Iterable[int]) -> set[int]:
    """Those of the processes that have it in their memory."""
    # By inode: a semaphore is mapped under a first name, which it has lost since.
    device = f"{os.major(segment.device):02x}:{os.minor(segment.device):02x}"
    mapped = re.compile(rf" {device} {segment.inode} ")
    found = set()
    for pid in pids:
        with suppress(OSError):
            if mapped.search(Path(f"/proc/{pid}/maps").read_text(errors="replace")):
                found.add(pid)
    return found


class Hearsay:
    """Overhears what this process, and those that it starts, tell the resource tracker.

    Python's shared memory and its semaphores are registered there, by children too: even when the
    child has been killed since. tee passes on what it hears.
    """

    def __init__(self) -> None:
        descriptor, self._heard = tempfile.mkstemp(prefix="lv-heard-")
        os.close(descriptor)
        self._tell = -1

    def listen(self) -> None:
        """From now on, unless it does already; there may be a new tracker since the last call."""
        resource_tracker.ensure_running()
        tracker = resource_tracker._resource_tracker
        if tracker._fd == self._tell:
            return
        hear, tell = os.pipe()
        ends = [(os.POSIX_SPAWN_DUP2, hear, 0), (os.POSIX_SPAWN_DUP2, tracker._fd, 1)]
        # Like the tracker it ignores Ctrl-C. It ends with the tracker, as Python has to notice.
        command = ["tee", "-ia", self._heard]
        listeners.add(
            os.posix_spawnp(
                "tee", command, os.environ, file_actions=ends, setsigdef=[signal.SIGPIPE]
            )
        )
        os.close(hear)
        os.close(tracker._fd)
        self._tell = tracker._fd = tell

    def mentions(self, segment: Segment) -> bool:
        name = segment.name.removeprefix("sem.")
        return f":/{name}:" in self._all_until_now()

    def _all_until_now(self) -> str:
        if resource_tracker._resource_tracker._fd != self._tell:
            raise RuntimeError("the test has ended the resource tracker: what it made is not known")
        now = f"PROBE:{time.monotonic_ns()}:noop\n"
        os.write(self._tell, now.encode())
        deadline = time.monotonic() + ANSWER_S
        while now not in (heard := Path(self._heard).read_text()):
            if time.monotonic() > deadline:
                raise RuntimeError("nothing comes through to the resource tracker")
            time.sleep(0.001)
        return heard

    def forget(self) -> None:
        Path(self._heard).unlink()


def is_ours(segment: Segment, hearsay: Hearsay) -> bool:
    """Whether the segment is still there, and this process or one that it started has made it.

    False too where nothing tells who has.
    """
    if segment not in set(segments()):
        return False
    if hearsay.mentions(segment):
        return True
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    theirs = set(psutil.pids()) - ours
    if holders(segment, theirs):
        return False
    if holders(segment, ours):
        return True
    maker = re.match(r"torch_(\d+)_", segment.name)
    return maker is not None and int(maker[1]) in ours
