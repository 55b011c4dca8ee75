"""Reads a sample by its key, under random numbers that are the same each time."""

from __future__ import annotations

import random
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from torch.utils.data import dataset as torch_dataset

from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.held_objects import is_a, walk
from loaderviz.loaders.random_state import held_generators

SEED, OTHER_SEED = 1, 2  # any two
LONGEST_RING = 8  # samples that are kept: of large ones no more fit into memory


def read_sample(dataset: Any, key: Any) -> Any:
    """One sample, by its key; as torch asks for it where the dataset has no ``__getitem__``."""
    if hasattr(type(dataset), "__getitem__"):
        return dataset[key]
    return dataset.__getitems__([key])[0]


def seeder(*roots: Any) -> Callable[[int], None]:
    """A function that seeds the global generators, and those that these objects hold now.

    Not by ``torch.manual_seed``: before CUDA is used that writes down a traceback for later, each
    time (torch/cuda/__init__.py, ``_lazy_call``), which takes longer than to read a small sample.
    """
    held = [part.value for part in held_generators(dataset=roots)]

    def seed_all(seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        for generator in held:
            if is_a(generator, torch.Generator):
                generator.manual_seed(seed)
            elif is_a(generator, np.random.Generator):
                bits = generator.bit_generator
                bits.state = type(bits)(seed).state
            else:
                generator.seed(seed)

    return seed_all


class LatestSamples:
    """Keeps a few samples for a while, to see whether reading others changes them.

    A dataset may give one buffer again and again, or a few in turn.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[Any, Any, int | None]] = deque()

    def changed_by(self, key: Any, sample: Any, number: int | None) -> list[Any]:
        """Take in the sample of a key and its hash; which earlier keys have changed."""
        changed = self._let_go(LONGEST_RING)
        self._kept.append((key, sample, number))
        return changed

    def changed(self) -> list[Any]:
        """The same of all that are still kept, which are let go."""
        return self._let_go(0)

    def _let_go(self, most: int) -> list[Any]:
        changed = []
        if self._kept and content_number(self._kept[-1][1]) != self._kept[-1][2]:
            changed.append(self._kept.pop()[0])
        while len(self._kept) > most:
            key, sample, number = self._kept.popleft()
            if content_number(sample) != number:
                changed.append(key)
        return changed


Tracer = Callable[[types.FrameType, str, Any], Any]


@dataclass(frozen=True)
class Swallowed:
    """An exception that the code of a dataset met, and did not raise."""

    name: str  # of its class
    message: str
    line: str  # "file.py:12"
    of_lookup: bool = False  # a word that is not in a table, say: what comes then is meant so


def noting_exceptions(dataset: Any, met: list[Swallowed]) -> Tracer:
    """A trace function that notes the exceptions in the code that reads a sample, in no other."""
    files = _files_of(dataset)

    def inside(frame: types.FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_lines = False
        if event == "exception" and not issubclass(arg[0], StopIteration):
            line = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            of_lookup = issubclass(arg[0], LookupError | AttributeError)
            met.append(Swallowed(arg[0].__name__, str(arg[1])[:100], line, of_lookup))
        return inside

    def entered(frame: types.FrameType, event: str, arg: Any) -> Any:
        return inside if frame.f_code.co_filename in files else None

    return entered


def _files_of(dataset: Any) -> set[str]:
    """Those of the code that reads a sample, of the dataset and of those that it wraps."""
    held = [part.value for part in walk("dataset", dataset) if is_a(part.value, Dataset)]
    functions = [
        vars(cls).get(name)
        for each in (dataset, *held)
        for cls in type(each).__mro__
        for name in ("__getitem__", "__getitems__", "__iter__", "__next__")
    ]
    files = {
        each.__code__.co_filename for each in functions if isinstance(each, types.FunctionType)
    }
    return files - {torch_dataset.__file__}
