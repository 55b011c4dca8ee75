"""What notebook 07 asks of a worker: functions that every kind of worker process can import."""

from __future__ import annotations

from typing import Any

import psutil
import torch


def own_mib(_samples: Any) -> float:
    """A ``collate_fn`` that gives the samples up: MiB that this process shares with no other.

    What psutil calls USS. A page that is written to after a fork counts from then on.
    """
    return int(psutil.Process().memory_full_info().uss) / 2**20


def threads(_samples: Any) -> int:
    """A ``collate_fn`` that gives the samples up: threads that torch computes with here."""
    return torch.get_num_threads()


def two_threads(_worker_id: int) -> None:
    """A ``worker_init_fn``: torch may compute with two threads in this worker."""
    torch.set_num_threads(2)
