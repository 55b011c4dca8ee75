"""Keeps the recorder out of the errors that pass through it."""

from __future__ import annotations

import signal
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
    for frame, below in zip(frames, [*frames[1:], None], strict=False):  # or there is none
        frame.tb_next = below
    error.__traceback__ = frames[0] if frames else None
    return error


def is_recorder_error(error: Exception) -> bool:
    """Whether the recorder failed, rather than a signal handler that interrupted it.

    Torch's own handler raises where a worker has died (torch/utils/data/_utils/signal_handling.py).
    """
    handlers = {
        getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()
    }
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code in handlers:
            return False
        frame = frame.tb_next
    return True
