"""What settings take of the memory and of ``/dev/shm``, and what there is."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from loaderviz import machine
from loaderviz._recommend.evidence import Evidence
from loaderviz.loader_settings import LoaderSettings

SHM = Path("/dev/shm")


@dataclass(frozen=True)
class Room:
    """Bytes that are free now, of the machine or of the container.

    ``shm`` is None where the system has no such limit of its own.
    """

    memory: int
    shm: int | None

    @classmethod
    def here(cls) -> Room:
        shm = shutil.disk_usage(SHM).free if SHM.is_dir() else None
        return cls(machine.memory_available_bytes(), shm)


def shm_bytes(evidence: Evidence, setting: LoaderSettings) -> int | None:
    """Of the batches in flight: tensors travel by shared memory."""
    if not setting.num_workers:
        return 0
    return None if evidence.batch_bytes is None else setting.in_flight * evidence.batch_bytes


def memory_bytes(evidence: Evidence, setting: LoaderSettings) -> int | None:
    """Of the workers, and of the batches in flight where their size is known."""
    if not setting.num_workers:
        return 0
    if evidence.worker_bytes is None:
        return None
    return setting.num_workers * evidence.worker_bytes + (shm_bytes(evidence, setting) or 0)


def fits(evidence: Evidence, setting: LoaderSettings, room: Room) -> bool:
    """Whether nothing says that it does not; a bound that counts shared pages says nothing."""
    shm, memory = shm_bytes(evidence, setting), memory_bytes(evidence, setting)
    if shm is not None and room.shm is not None and shm > room.shm:
        return False
    known = memory is not None and not evidence.worker_bytes_shared
    return not (known and memory is not None and memory > room.memory)
