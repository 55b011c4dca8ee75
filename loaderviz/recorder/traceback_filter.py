"""Takes the recorder's frames out of the errors that pass through it."""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import TypeVar

_RECORDER = __name__.rpartition(".")[0]

Error = TypeVar("Error", bound=BaseException)


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
