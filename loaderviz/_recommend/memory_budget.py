"""How much memory and ``/dev/shm`` a setting takes, and how much is free."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaderviz import machine
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


@dataclass(frozen=True)
class Sizes:
    """Bytes of one worker and of one batch's tensors; None: not known.

    ``own`` is whether ``worker`` leaves out pages that are shared with the main process. Otherwise
    it is an upper bound, which proves nothing.
    """

    worker: int | None = None
    batch: int | None = None
    own: bool = False

    def shm_bytes(self, setting: LoaderSettings) -> int | None:
        """Shared memory of the batches in flight; None where that is not known."""
        if not setting.num_workers:
            return 0
        return None if self.batch is None else setting.in_flight * self.batch

    def memory_bytes(self, setting: LoaderSettings) -> int | None:
        """Memory of the workers and of the batches in flight; None where that is not known."""
        if not setting.num_workers:
            return 0
        if self.worker is None:
            return None
        return setting.num_workers * self.worker + (self.shm_bytes(setting) or 0)

    def columns(self, setting: LoaderSettings, free: FreeBytes) -> dict[str, Any]:
        """What a table of settings says of it; NaN: not known."""
        memory, shm = self.memory_bytes(setting), self.shm_bytes(setting)
        return {
            "memory_bytes": math.nan if memory is None else float(memory),
            "shm_bytes": math.nan if shm is None else float(shm),
            "fits": self.fit(setting, free),
        }

    def fit(self, setting: LoaderSettings, free: FreeBytes) -> bool:
        """Whether a setting is not known to take more than is free."""
        shm, memory = self.shm_bytes(setting), self.memory_bytes(setting)
        if shm is not None and free.shm is not None and shm > free.shm:
            return False
        return not (self.own and memory is not None and memory > free.memory)
