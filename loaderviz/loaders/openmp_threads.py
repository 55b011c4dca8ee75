"""The threads with which torch computes one operation, before a fork."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from loaderviz.own_errors import own_errors

_LIBRARY = re.compile(r"/\S*/lib(?:gomp|iomp5|omp)\b\S*\.so\S*$", re.MULTILINE)
_SOFT = 1  # the settings are kept (OpenMP 5.0, ``omp_pause_resource_t``)


def end_idle_threads() -> bool:
    """End those of this thread, which wait for work; the next operation starts them again.

    A fork does not have them, and what it computes with GNU's OpenMP would wait for them for ever
    (docs.pytorch.org, "Multiprocessing best practices"). Returns whether they are known to be gone;
    Linux only.
    """
    try:
        libraries = set(_LIBRARY.findall(Path("/proc/self/maps").read_text("utf-8", "replace")))
        pauses = [ctypes.CDLL(library).omp_pause_resource_all for library in libraries]
    except own_errors(OSError, AttributeError):  # another system, or an OpenMP before 5.0
        return False
    return bool(pauses) and not any(pause(_SOFT) for pause in pauses)
