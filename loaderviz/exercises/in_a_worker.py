"""What notebooks 07 and 08 ask of a worker: functions that any kind of it can import."""

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


def cuda_in_here(_samples: Any) -> str:
    """A ``collate_fn`` that gives the samples up: what comes of ``.cuda()`` in this worker."""
    try:
        torch.zeros(1).cuda()
    except (RuntimeError, AssertionError) as error:
        return str(error)
    return "it works"
