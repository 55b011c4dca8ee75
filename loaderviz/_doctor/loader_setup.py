"""What a loader shows without being run: its attributes, read so that no user code runs."""

from __future__ import annotations

import dis
import itertools
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, IterableDataset

from loaderviz.loaders.held_objects import Part, attributes, is_a, walk
from loaderviz.loaders.start_method import start_method

MANY_OBJECTS = 10_000  # in one container
COPIED_BYTES = 4 << 20  # that become a worker's own
_OBJECT_BYTES = 64  # at least, of an object whose size is not known


@dataclass(frozen=True)
class Setup:
    """A loader's configuration and parts."""

    loader: DataLoader[Any]
    set_epoch_is_called: bool = False  # somewhere in the code which called the doctor
    loader_names: frozenset[str] = frozenset()  # that it gives to this loader
    resume: bool | Mapping[str, Any] = False  # see ``doctor``

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The loader's attributes by name, such as ``batch_size``."""
        return attributes(self.loader)

    @property
    def name(self) -> str:
        """The loader's class."""
        return type(self.loader).__name__

    @property
    def dataset(self) -> Any:
        """The loader's dataset."""
        return self.settings["dataset"]

    @property
    def num_workers(self) -> int:
        """How many workers each epoch has; 0 if the main process loads."""
        return int(self.settings["num_workers"])

    @property
    def iterable(self) -> bool:
        """Whether the dataset is iterable-style."""
        return is_a(self.dataset, IterableDataset)

    @property
    def start_method(self) -> str | None:
        """How workers are started, such as ``"fork"``; None if there are none."""
        if not self.num_workers:
            return None
        return start_method(self.loader.multiprocessing_context)

    @property
    def forks(self) -> bool:
        """Whether workers are forked."""
        return self.start_method == "fork"

    @property
    def persistent(self) -> bool:
        """Whether workers stay from epoch to epoch."""
        return bool(self.settings["persistent_workers"])

    @property
    def is_to_resume(self) -> bool:
        """Whether somebody wants to resume it, so that this is tried out."""
        return resumable(self.loader) or bool(self.resume)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The dataset and the objects that it holds."""
        return tuple(walk("dataset", self.dataset))

    @cached_property
    def large_containers(self) -> tuple[Part, ...]:
        """Containers of many Python objects that the dataset holds."""
        return tuple(part for part in self.parts if _is_large_container(part.value))

    @cached_property
    def sampler(self) -> Part:
        """The sampler that the batch sampler draws from, or the loader's own."""
        own = self.settings.get("sampler")
        inner = attributes(self.settings.get("batch_sampler")).get("sampler")
        if inner is not None and inner is not own:
            return Part("batch_sampler.sampler", inner)
        return Part("sampler", own)

    @cached_property
    def other_threads(self) -> tuple[str, ...]:
        """The names of the threads of this process, without the current one."""
        current = threading.current_thread()
        return tuple(thread.name for thread in threading.enumerate() if thread is not current)

    def __str__(self) -> str:
        style = "iterable" if self.iterable else "map"
        return (
            f"{self.name} of {type(self.dataset).__name__} ({style}-style), "
            f"batch_size={self.settings['batch_size']}, num_workers={self.num_workers}"
        )


def resumable(loader: DataLoader[Any]) -> bool:
    """Whether the loader has ``state_dict`` and ``load_state_dict``."""
    return all(hasattr(type(loader), name) for name in ("state_dict", "load_state_dict"))


def _is_large_container(value: Any) -> bool:
    is_array = type(value) is np.ndarray and value.dtype == object
    if not is_array and type(value) not in (list, tuple, dict, set):
        return False
    return len(value) >= MANY_OBJECTS and _bytes_in(value) >= COPIED_BYTES


def _bytes_in(container: Any) -> int:
    """A rough estimate of what its objects take, from the first hundred of them."""
    builtin = (str, bytes, int, float, tuple, list, dict)  # to ask others could run user code
    items = list(itertools.islice(container, 100))
    sizes = [sys.getsizeof(item) if type(item) in builtin else _OBJECT_BYTES for item in items]
    return len(container) * (8 + sum(sizes) // len(items))


def _calls(code: types.CodeType, name: str) -> bool:
    """Whether this code, or a function defined in it, takes what has that name, to call it.

    A text that speaks of it does not, nor does a class that defines it.
    """
    if name in code.co_names:
        taken = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME")
        if any(step.argval == name for step in dis.get_instructions(code) if step.opname in taken):
            return True
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return any(_calls(each, name) for each in inner)


def callers_call(name: str, frame: types.FrameType | None) -> bool:
    """Whether this frame or one that called it does, or a function or method beside them."""
    modules: list[int] = []
    while frame is not None:
        if _calls(frame.f_code, name):
            return True
        if id(frame.f_globals) not in modules:
            modules.append(id(frame.f_globals))
            functions = _functions_in(frame.f_globals)
            if any(_calls(function.__code__, name) for function in functions):
                return True
        frame = frame.f_back
    return False


def _functions_in(module: dict[str, Any]) -> Iterator[types.FunctionType]:
    """The functions of a module, and the methods of its classes."""
    for value in list(module.values()):
        is_class = is_a(value, type) and value.__module__ == module.get("__name__")
        members = list(type.__getattribute__(value, "__dict__").values()) if is_class else [value]
        for member in members:
            if type(member) is types.FunctionType and member.__module__ == module.get("__name__"):
                yield member


def names_given_to(value: Any, frame: types.FrameType | None) -> frozenset[str]:
    """The variables of this frame and its module that hold the value."""
    if frame is None:
        return frozenset()
    scope = {**frame.f_globals, **frame.f_locals}
    return frozenset(name for name, held in scope.items() if held is value)
