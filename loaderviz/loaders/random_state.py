"""The state of random generators: read, and restored after a run that has drawn from them.

Iterating a loader draws from its generator or from torch's own, and so do samplers (torch/utils/
data/dataloader.py, ``_BaseDataLoaderIter.__init__``; sampler.py); a dataset draws from any.
"""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.fetch import _IterableDatasetFetcher

from loaderviz.loaders.held_objects import Part, attributes, is_a, known_to_code, walk

_FRAMES = 8  # between a collate_fn and the fetch that calls it
_KINDS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)


class State(NamedTuple):
    """Where a generator stands, and the function that puts it back there."""

    path: str  # such as "numpy.random" or "dataset.transform.rng"
    value: Any
    restore: Callable[[Any], None]


def global_states() -> Iterator[State]:
    """The states of the global generators of torch (on the CPU), NumPy and ``random``."""
    yield State("torch", torch.get_rng_state(), torch.set_rng_state)
    # Not the legacy form, which warns where the user has chosen another bit generator.
    yield State("numpy.random", np.random.get_state(legacy=False), np.random.set_state)
    yield State("random", random.getstate(), random.setstate)


def held_generators(**roots: Any) -> list[Part]:
    """The random generators that these objects hold at any depth, such as ``dataset.rng``.

    And those that its code knows: of a class, or of a module, as ``train.rng``.
    ``random.SystemRandom`` is none of them: it has no state.
    """
    parts = [part for name, root in roots.items() for part in walk(name, root)]
    generators: dict[int, Part] = {}
    for part in (*parts, *known_to_code(parts)):
        if is_a(part.value, *_KINDS) and not is_a(part.value, random.SystemRandom):
            generators.setdefault(id(part.value), part)
    return list(generators.values())


def held_states(**roots: Any) -> Iterator[State]:
    """The state of each of ``held_generators(**roots)``."""
    for path, generator in held_generators(**roots):
        if is_a(generator, random.Random):
            yield State(path, generator.getstate(), generator.setstate)
        elif is_a(generator, torch.Generator):
            yield State(path, generator.get_state(), generator.set_state)
        elif is_a(generator, np.random.RandomState):
            yield State(path, generator.get_state(legacy=False), generator.set_state)
        else:
            bits = generator.bit_generator
            yield State(path, bits.state, partial(setattr, bits, "state"))


@contextmanager
def keep_random_state(loader: DataLoader[Any]) -> Iterator[None]:
    """Restore every random generator at the end, so that training goes on as if nothing had run.

    These are the global ones of torch, NumPy and ``random``, those of all CUDA devices where CUDA
    is initialised, and those that the loader, its samplers and its dataset hold.
    """
    states = [*global_states(), *held_states(loader=loader)]
    if torch.cuda.is_initialized():  # to ask for the states before would initialise it
        cuda = torch.cuda.get_rng_state_all()
        states.append(State("torch.cuda", cuda, torch.cuda.set_rng_state_all))
    with ExitStack() as exit_stack:  # restores the others even where one cannot be restored
        for state in states:
            exit_stack.callback(state.restore, state.value)
        yield


def numpy_generators(dataset: Any, iterator: Any) -> dict[str, np.random.Generator]:
    """By path, those that the dataset holds and those in the variables of its ``__iter__``."""
    paths = dict(held_generators(dataset=dataset))
    while iterator is not None:
        inner = None
        variables = attributes(iterator)
        if is_a(iterator, types.GeneratorType):
            variables = dict(iterator.gi_frame.f_locals) if iterator.gi_frame else {}
            inner = iterator.gi_yieldfrom
        for name, value in variables.items():
            paths.setdefault(f"{name} in __iter__", value)
        iterator = inner
    return {path: value for path, value in paths.items() if is_a(value, np.random.Generator)}


def stream_being_read() -> Any:
    """The iterator over an iterable-style dataset from which a batch is collated right now.

    For a ``collate_fn``: its caller is the fetch (torch/utils/data/_utils/fetch.py,
    ``_IterableDatasetFetcher.fetch``). None for a map-style dataset.
    """
    frame = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame.f_back is None:
            break
        frame = frame.f_back
        fetcher = frame.f_locals.get("self")
        if is_a(fetcher, _IterableDatasetFetcher):
            return getattr(fetcher, "dataset_iter", None)
    return None
