"""How much memory and ``/dev/shm`` a setting takes, and how much is free."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from loaderviz import machine
from loaderviz._recommend.evidence import Evidence
from loaderviz.loader_settings import LoaderSettings

SHM = Path("/dev/shm")


@dataclass(frozen=True)
class FreeBytes:
    """Bytes that are free in memory and in ``/dev/shm``, of the machine or of the container.

    ``shm`` is None where the system does not limit shared memory apart from the rest.
    """

    memory: int
    shm: int | None

    @classmethod
    def now(cls) -> FreeBytes:
        """What is free at this moment."""
        shm = shutil.disk_usage(SHM).free if SHM.is_dir() else None
        return cls(machine.memory_available_bytes(), shm)


def shm_bytes(evidence: Evidence, setting: LoaderSettings) -> int | None:
    """Shared memory of the batches in flight; None where the size of a batch is not known."""
    if not setting.num_workers:
        return 0
    return None if evidence.batch_bytes is None else setting.in_flight * evidence.batch_bytes


def memory_bytes(evidence: Evidence, setting: LoaderSettings) -> int | None:
    """Memory of the workers, and of the batches in flight where their size is known.

    None where the size of a worker is not known.
    """
    if not setting.num_workers:
        return 0
    if evidence.worker_bytes is None:
        return None
    return setting.num_workers * evidence.worker_bytes + (shm_bytes(evidence, setting) or 0)


def fits(evidence: Evidence, setting: LoaderSettings, free_bytes: FreeBytes) -> bool:
    """Whether a setting is not known to take more memory or shared memory than is free.

    A worker's memory that includes shared pages is an upper bound, which proves nothing.
    """
    shm, memory = shm_bytes(evidence, setting), memory_bytes(evidence, setting)
    if shm is not None and free_bytes.shm is not None and shm > free_bytes.shm:
        return False
    known = memory is not None and not evidence.worker_bytes_shared
    return not (known and memory is not None and memory > free_bytes.memory)
