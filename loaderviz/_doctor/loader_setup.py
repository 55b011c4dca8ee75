"""What a loader shows without being run: attributes, read so that no code of the user runs."""

from __future__ import annotations

import threading
import types
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from loaderviz.loaders.held_objects import Part, attributes, is_a, walk
from loaderviz.loaders.start_method import start_method


@dataclass(frozen=True)
class Setup:
    """A loader's configuration and parts."""

    loader: DataLoader[Any]
    callers: frozenset[str] = frozenset()  # names that the code which called the doctor uses
    called: frozenset[str] = frozenset()  # names that it gives to this loader

    @cached_property
    def own(self) -> dict[str, Any]:
        return attributes(self.loader)

    @property
    def name(self) -> str:
        return type(self.loader).__name__

    @property
    def dataset(self) -> Any:
        return self.own["dataset"]

    @property
    def num_workers(self) -> int:
        return int(self.own["num_workers"])

    @property
    def iterable(self) -> bool:
        return is_a(self.dataset, IterableDataset)

    @property
    def method(self) -> str | None:
        """How workers are started; None without any."""
        if not self.num_workers:
            return None
        return start_method(self.loader.multiprocessing_context)

    @property
    def forks(self) -> bool:
        return self.method == "fork"

    @property
    def persistent(self) -> bool:
        return bool(self.own["persistent_workers"])

    @property
    def in_flight(self) -> int:
        """How many batches the workers have been asked for at any time."""
        return self.num_workers * (self.own["prefetch_factor"] or 0)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The dataset and what it holds."""
        return tuple(walk("dataset", self.dataset))

    @cached_property
    def sampler(self) -> Part:
        """The sampler that the batch sampler draws from, or the loader's own."""
        path, value = "batch_sampler", self.own.get("batch_sampler")
        inner = attributes(value).get("sampler")
        if inner is not None:
            return Part(f"{path}.sampler", inner)
        return Part("sampler", self.own.get("sampler"))

    @property
    def distributed_sampler(self) -> Part | None:
        return self.sampler if is_a(self.sampler.value, DistributedSampler) else None

    @cached_property
    def threads(self) -> tuple[str, ...]:
        """Other threads of this process than the one that asks."""
        here = threading.current_thread()
        return tuple(each.name for each in threading.enumerate() if each is not here)

    def __str__(self) -> str:
        style = "iterable" if self.iterable else "map"
        return (
            f"{self.name} of {type(self.dataset).__name__} ({style}-style), "
            f"batch_size={self.own['batch_size']}, num_workers={self.num_workers}"
        )


def names_in(code: types.CodeType) -> frozenset[str]:
    """The names that a piece of code, and what is defined in it, calls or looks up."""
    inner = [names_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(code.co_names).union(*inner)


def callers_of(frame: types.FrameType | None) -> frozenset[str]:
    """The names used by the calling code: each frame's own, and the functions of its module."""
    names: set[str] = set()
    modules: list[int] = []
    while frame is not None:
        names |= names_in(frame.f_code)
        if id(frame.f_globals) not in modules:
            modules.append(id(frame.f_globals))
            module = frame.f_globals.get("__name__")
            for value in list(frame.f_globals.values()):
                if type(value) is types.FunctionType and value.__module__ == module:
                    names |= names_in(value.__code__)
        frame = frame.f_back
    return frozenset(names)


def names_of(value: Any, frame: types.FrameType | None) -> frozenset[str]:
    """What the calling frame calls it."""
    if frame is None:
        return frozenset()
    scope = {**frame.f_globals, **frame.f_locals}
    return frozenset(name for name, each in scope.items() if each is value)
