"""The start method of workers."""

from __future__ import annotations

import multiprocessing
from typing import Any


def start_method(context: Any = None) -> str:
    """``fork``, ``forkserver`` or ``spawn``: of a ``multiprocessing_context``, or of this process.

    Where none was chosen, it is Python's default, and another can still be chosen: asking without
    ``allow_none`` would fix it (docs.python.org, ``multiprocessing.get_start_method``).
    """
    context = context or multiprocessing
    method: str | None = context.get_start_method(allow_none=True)
    return method or str(context.get_all_start_methods()[0])
