"""Functions that notebooks 07 and 08 run in workers.

They live in a module, so that workers of every start method can import them.
"""

from __future__ import annotations

from typing import Any

import psutil
import torch


def own_mib(_samples: Any) -> float:
    """A ``collate_fn`` that drops the samples and returns the process's own memory, in MiB.

    Own memory is shared with no other process; psutil calls it USS. A page that is shared after a
    fork counts from the moment it is written to.
    """
    return int(psutil.Process().memory_full_info().uss) / 2**20


def threads(_samples: Any) -> int:
    """A ``collate_fn`` that drops the samples and returns torch's number of threads here.

    In a worker that is 1 (``torch/utils/data/_utils/worker.py``, ``_worker_loop``).
    """
    return torch.get_num_threads()


def two_threads(_worker_id: int) -> None:
    """A ``worker_init_fn``: lets torch compute with two threads in this worker."""
    torch.set_num_threads(2)


def cuda_in_here(_samples: Any) -> str:
    """A ``collate_fn`` that drops the samples and returns the error of ``.cuda()`` in this worker.

    Returns "it works" if there is none.
    """
    try:
        torch.zeros(1).cuda()
    except (RuntimeError, AssertionError) as error:
        return str(error)
    return "it works"
