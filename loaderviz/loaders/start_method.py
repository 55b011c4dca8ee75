"""How workers are started."""

from __future__ import annotations

import multiprocessing
from typing import Any


def start_method(context: Any = None) -> str:
    """``fork``, ``forkserver`` or ``spawn``, of this ``multiprocessing_context`` or in general.

    Where nobody has chosen it is Python's own, and stays open: to ask for it without ``allow_none``
    would settle it for good (docs.python.org, ``multiprocessing.get_start_method``).
    """
    context = context or multiprocessing
    method: str | None = context.get_start_method(allow_none=True)
    return method or str(context.get_all_start_methods()[0])
