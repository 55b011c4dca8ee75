"""Which frames are the user's: the line that iterates a loader, who keeps it, and tracebacks."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import TypeVar

MOST_FRAMES = 3  # of other code that may use a loader between torch and the loop, such as tqdm's
_NOT_THEIRS = ("loaderviz", "torch")  # packages whose own lines say nothing of the user's code
_OF_A_CELL = "ipykernel_"  # in the path of what IPython compiles
_RECORDER = __name__.rpartition(".")[0]
_no_cycle_at: set[tuple[str, int]] = set()  # file and line: where a look has found none

Error = TypeVar("Error", bound=BaseException)


def _users_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Those outside loaderviz and torch, from this frame to its outermost caller."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _NOT_THEIRS:
            yield frame
        frame = frame.f_back


def source_line() -> str | None:
    """The user's innermost line that is being run, as "train.py:42"; None where there is none.

    Of the path only the file's name: recordings are passed on.
    """
    frame = next(_users_frames(sys._getframe(1)), None)
    if frame is None:
        return None
    path = frame.f_code.co_filename
    if _OF_A_CELL in path or path.startswith("<"):
        return f"cell, line {frame.f_lineno}"
    return f"{Path(path).name}:{frame.f_lineno}"


def is_cycled(iterator: object) -> bool:
    """Whether an ``itertools.cycle`` holds it: it keeps an epoch's batches and replays them.

    To be asked while the iterator is asked for a batch. A look at all that may hold it takes some
    30 ms in a process of 200,000 objects. So it is taken only where the code that asks knows
    ``itertools``, and no more at a line that asked without a ``cycle``, as that of an evaluation
    whose loader is made anew.
    """
    asking = list(itertools.islice(_users_frames(sys._getframe(1)), MOST_FRAMES))
    if not asking:
        return False
    line = asking[0].f_code.co_filename, asking[0].f_lineno
    if line in _no_cycle_at or not any(map(_knows_itertools, asking)):
        return False
    found = any(type(holder) is itertools.cycle for holder in gc.get_referrers(iterator))
    if not found:
        _no_cycle_at.add(line)
    return found


def _knows_itertools(frame: FrameType) -> bool:
    known = list(frame.f_globals.values())  # at once: other threads may add to it
    return any(value is itertools or value is itertools.cycle for value in known)


def hide_recorder_frames(error: Error) -> Error:
    """Take the recorder's frames out of an error's traceback; returns the same error.

    A worker's error reaches the loop as text that contains its traceback (torch/_utils.py,
    ``ExceptionWrapper``), so frames of ours would change its message.
    """
    frames: list[TracebackType] = []
    frame = error.__traceback__
    while frame is not None:
        if not frame.tb_frame.f_globals.get("__name__", "").startswith(_RECORDER):
            frames.append(frame)
        frame = frame.tb_next
    for frame, below in itertools.zip_longest(frames, frames[1:]):
        frame.tb_next = below
    error.__traceback__ = frames[0] if frames else None
    return error
