"""A trigger in torch's DataLoader: the first one that is iterated begins the recording.

``_get_iterator`` is called below every ``__iter__``, once for each iterator. A class that defines
its own (torchdata's StatefulDataLoader) is armed too, when it is made. When the trigger goes off it
is gone, and the recorder's own changes take its place. Arming imports nothing of torch.
"""

from __future__ import annotations

import functools
import threading
from contextlib import suppress
from typing import Any

from loaderviz._run import closing_line

_NAME = "_get_iterator"
_lock = threading.RLock()
_armed: dict[type, Any] = {}  # class: its own _get_iterator
_gone_off = False


def arm(base: type) -> None:
    """Lay the trigger in ``base``, torch's DataLoader, and in each subclass that needs it."""
    _lay(base)
    if "__init_subclass__" not in vars(base):
        base.__init_subclass__ = classmethod(  # type: ignore[assignment]
            functools.partial(_subclass_made, base)
        )


def arm_again(classes: set[type]) -> None:
    """In a forked process, which is not the one that is recorded."""
    global _lock, _gone_off
    _lock = threading.RLock()  # another thread may have held it, and is not here
    _gone_off = False
    for cls in classes:
        _lay(cls)


def _lay(cls: type) -> None:
    original = vars(cls)[_NAME]

    @functools.wraps(original)
    def _get_iterator(loader: Any) -> Any:
        _go_off()
        try:
            return vars(cls)[_NAME](loader)
        except BaseException as error:
            error.__traceback__ = _below(error)  # the script's own, without this frame
            raise

    _armed[cls] = original
    setattr(cls, _NAME, _get_iterator)


def _below(error: BaseException) -> Any:
    return error.__traceback__.tb_next if error.__traceback__ is not None else None


def _go_off() -> None:
    with _lock:  # a loader of another thread waits until it is recorded too
        if _gone_off:
            return
        try:
            from loaderviz._run import process_recording

            _disarm()
            process_recording.begin()
        except Exception as error:  # the script goes on
            _disarm()
            closing_line.say(f"this process is not recorded: {error}")


def _disarm() -> None:
    global _gone_off
    _gone_off = True
    while _armed:
        cls, original = _armed.popitem()
        setattr(cls, _NAME, original)


def _subclass_made(base: Any, cls: type, **given: Any) -> None:
    super(base, cls).__init_subclass__(**given)
    if _NAME not in vars(cls):
        return
    if not _gone_off:
        _lay(cls)
        return
    with suppress(Exception):  # where this process is not recorded, that has been said
        from loaderviz._run import process_recording

        process_recording.add_class(cls)
