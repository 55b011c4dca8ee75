"""Recording stays out of the errors that pass through it."""

from __future__ import annotations

import signal
from types import TracebackType
from typing import TypeVar

_OURS = __name__.rpartition(".")[0]

Error = TypeVar("Error", bound=BaseException)


def unseen(error: Error) -> Error:
    """The error without the recorder's frames in its traceback.

    A worker's error reaches the loop as text that contains its traceback (torch/_utils.py,
    ``ExceptionWrapper``), so that frames of ours would change its message.
    """
    frames: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        if not step.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
            frames.append(step)
        step = step.tb_next
    for step, below in zip(frames, [*frames[1:], None], strict=True):
        step.tb_next = below
    error.__traceback__ = frames[0] if frames else None
    return error


def is_ours(error: Exception) -> bool:
    """Whether the recorder failed, not a signal handler that ran in the middle of it.

    Torch's own handler raises where a worker has died (torch/utils/data/_utils/signal_handling.py).
    """
    handlers = {
        getattr(signal.getsignal(each), "__code__", None) for each in signal.valid_signals()
    }
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in handlers:
            return False
        step = step.tb_next
    return True
