"""A trigger in torch's DataLoader, which goes off as the first loader of a process is iterated.

``_get_iterator`` is called below every ``__iter__``, once for each iterator (torch/utils/data/
dataloader.py). A class that defines its own (torchdata's StatefulDataLoader) is armed too, when it
is made. When the trigger goes off it is gone. Nothing of torch is imported here.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_NAME = "_get_iterator"


@dataclass(eq=False)
class Trigger:
    """``goes_off`` is called once, before the first iterator is made.

    ``class_made`` is called with each class, made later, that has an own way to make iterators.
    Neither may raise.
    """

    goes_off: Callable[[], None]
    class_made: Callable[[type], None]
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _armed: dict[type, Any] = field(default_factory=dict)  # class: its own _get_iterator
    _gone_off: bool = False

    def arm(self, base: type) -> None:
        """Lay the trigger in ``base``, torch's DataLoader, and in each subclass that needs it."""
        self._lay(base)
        if "__init_subclass__" not in vars(base):
            base.__init_subclass__ = classmethod(  # type: ignore[assignment]
                functools.partial(self._subclass_made, base)
            )

    def arm_again(self, classes: set[type]) -> None:
        """In a forked process."""
        self._lock = threading.RLock()  # another thread may have held it, and is not here
        self._gone_off = False
        for cls in classes:
            self._lay(cls)

    def _lay(self, cls: type) -> None:
        original = vars(cls)[_NAME]

        @functools.wraps(original)
        def _get_iterator(loader: Any) -> Any:
            self._go_off()
            try:
                return vars(cls)[_NAME](loader)
            except BaseException as error:
                error.__traceback__ = _below(error)  # the script's own, without this frame
                raise

        self._armed[cls] = original
        setattr(cls, _NAME, _get_iterator)

    def _go_off(self) -> None:
        with self._lock:  # a loader of another thread waits until all is done
            if self._gone_off:
                return
            self._gone_off = True
            while self._armed:
                cls, original = self._armed.popitem()
                setattr(cls, _NAME, original)
            self.goes_off()

    def _subclass_made(self, base: Any, cls: type, **given: Any) -> None:
        super(base, cls).__init_subclass__(**given)  # type: ignore[misc]
        if _NAME not in vars(cls):
            return
        if self._gone_off:
            self.class_made(cls)
        else:
            self._lay(cls)


def _below(error: BaseException) -> Any:
    return error.__traceback__.tb_next if error.__traceback__ is not None else None
