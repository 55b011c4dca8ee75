"""A trigger in torch's DataLoader, which goes off when the first loader of a process is iterated.

It wraps ``_get_iterator``, which every ``__iter__`` calls once for each iterator (torch/utils/data/
dataloader.py). A subclass that defines its own, such as torchdata's StatefulDataLoader, gets a
trigger too when it is defined; and so does the ``__iter__`` of one, which a loop asks before. All
of them are removed when one goes off. This module does not import torch.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_METHODS = "_get_iterator", "__iter__"


@dataclass(eq=False)
class Trigger:
    """Calls ``on_first_iteration`` once, before the first iterator is made.

    After that, ``on_new_class`` is called with each class that is defined with a ``_get_iterator``
    or an ``__iter__`` of its own. Neither raises but what comes from outside, as from a signal
    handler.
    """

    on_first_iteration: Callable[[], None]
    on_new_class: Callable[[type], None]
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _originals: dict[tuple[type, str], Any] = field(default_factory=dict)  # of class and method
    _has_gone_off: bool = False

    def arm(self, base: type) -> None:
        """Put the trigger into ``base``, torch's DataLoader, and each subclass that needs it."""
        self._wrap(base, _METHODS[0])
        if "__init_subclass__" not in vars(base):
            base.__init_subclass__ = classmethod(  # type: ignore[assignment]
                functools.partial(self._on_subclass, base)
            )

    def arm_again(self, classes: set[type]) -> None:
        """In a forked process: put the trigger into these classes, where it has gone off before."""
        self._lock = threading.RLock()  # a thread that did not survive the fork may have held it
        self._has_gone_off = False
        for cls in classes:
            self._wrap(cls, _METHODS[0])

    def _wrap(self, cls: type, method: str) -> None:
        original = vars(cls)[method]

        @functools.wraps(original)
        def wrapper(loader: Any) -> Any:
            self._go_off()
            try:
                return vars(cls)[method](loader)
            except BaseException as error:
                error.__traceback__ = _traceback_below(error)  # without this frame
                raise

        self._originals[cls, method] = original
        setattr(cls, method, wrapper)

    def _go_off(self) -> None:
        with self._lock:  # a loader in another thread waits until this is done
            if self._has_gone_off:
                return
            originals = dict(self._originals)
            try:
                for (cls, method), original in originals.items():
                    setattr(cls, method, original)
                self._has_gone_off = True
                self.on_first_iteration()
            except BaseException:  # from outside: try again at the next loader
                self._has_gone_off = False
                for (cls, method), original in originals.items():
                    setattr(cls, method, original)
                    self._wrap(cls, method)
                raise
            self._originals.clear()

    def _on_subclass(self, base: Any, cls: type, **kwargs: Any) -> None:
        """``__init_subclass__`` of ``base``: is called with each subclass as it is defined."""
        super(base, cls).__init_subclass__(**kwargs)  # type: ignore[misc]
        own = [method for method in _METHODS if method in vars(cls)]
        if own and self._has_gone_off:
            self.on_new_class(cls)
        elif not self._has_gone_off:
            for method in own:
                self._wrap(cls, method)


def _traceback_below(error: BaseException) -> Any:
    return error.__traceback__.tb_next if error.__traceback__ is not None else None
