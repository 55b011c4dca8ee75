"""This process as the only worker of a loader, for a dataset that cannot be read without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data._utils import worker


@contextmanager
def as_only_worker(dataset: Any) -> Iterator[None]:
    """Let ``get_worker_info()`` answer as in the one worker of a loader with ``num_workers=1``.

    It returns this variable (torch/utils/data/_utils/worker.py, ``get_worker_info``).
    """
    before = worker._worker_info
    seed = torch.initial_seed()
    worker._worker_info = worker.WorkerInfo(id=0, num_workers=1, seed=seed, dataset=dataset)
    try:
        yield
    finally:
        worker._worker_info = before
