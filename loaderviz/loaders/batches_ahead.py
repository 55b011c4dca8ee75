"""How many batches the workers of an iterator have made that the loop has not got yet."""

from __future__ import annotations

from typing import Any

from loaderviz.own_errors import own_errors


def n_ahead(iterator: Any) -> int:
    """Batches that wait in the queue, or for an earlier one; 0 where that cannot be told.

    torch keeps what arrives too early beside its worker's number (torch/utils/data/dataloader.py,
    ``_next_data``).
    """
    parts = getattr(iterator, "__dict__", {})
    n_early = sum(len(task) == 2 for task in parts.get("_task_info", {}).values())
    queue = parts.get("_data_queue")
    try:
        return n_early + (0 if queue is None else int(queue.qsize()))
    except own_errors(NotImplementedError):  # on macOS (docs.python.org, ``Queue.qsize``)
        return 0
