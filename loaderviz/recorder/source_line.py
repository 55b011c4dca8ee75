"""Where in the user's code a loop begins: the line that iterates a loader, to tell it by."""

from __future__ import annotations

import sys
from pathlib import Path

_NOT_THEIRS = ("loaderviz", "torch")  # packages whose own lines say nothing of the user's code
_OF_A_CELL = "ipykernel_"  # in the path of what IPython compiles


def source_line() -> str | None:
    """The innermost line outside loaderviz and torch that is being run, as "train.py:42".

    Of the path only the file's name: recordings are passed on. None where there is no such line.
    """
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__", "")).partition(".")[0] in _NOT_THEIRS:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    path = frame.f_code.co_filename
    if _OF_A_CELL in path or path.startswith("<"):
        return f"cell, line {frame.f_lineno}"
    return f"{Path(path).name}:{frame.f_lineno}"
