"""Segments of shared memory, and whose they are: neither a name nor the kernel's books tell.

/dev/shm is one for the whole machine, and other test processes work in it at the same time. What
tells is, in this order: that a process has it in its memory, and the process id that torch writes
into its names. What nothing tells of, `unclaimed.py` looks for when all tests have ended.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

SHARED_MEMORY = Path("/dev/shm")  # on Linux; other systems do not list their segments
# A browser's own, which it leaves behind where it is ended between making and unlinking one.
OF_A_BROWSER = (".org.chromium.", ".com.google.Chrome.")


class Segment(NamedTuple):
    name: str
    device: int
    inode: int


def segments() -> Iterator[Segment]:
    """Those of this user. What appears under a name that was used before is another segment."""
    for path in SHARED_MEMORY.iterdir() if SHARED_MEMORY.is_dir() else ():
        if path.name.startswith(OF_A_BROWSER):
            continue
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


def is_ours(segment: Segment) -> bool:
    """Whether the segment is still there, and this process or one that it started has made it.

    False too where nothing tells who has.
    """
    if segment not in set(segments()):
        return False
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    if holders(segment, set(psutil.pids()) - ours):
        return False
    maker = re.match(r"torch_(\d+)_", segment.name)
    return bool(holders(segment, ours)) or (maker is not None and int(maker[1]) in ours)
