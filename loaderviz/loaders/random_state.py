"""The state of random generators: read, and given back after a run that has drawn from them.

To iterate a loader draws from its generator or torch's own, and so do samplers (torch/utils/data/
dataloader.py, ``_BaseDataLoaderIter.__init__``; sampler.py); a dataset draws from what it likes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader

from loaderviz.loaders.held_objects import Part, is_a, walk

_KINDS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)


class State(NamedTuple):
    """Where a generator stands, and the function that puts it back there."""

    path: str  # such as "numpy.random" or "dataset.transform.rng"
    value: Any
    give_back: Callable[[Any], None]


def global_states() -> Iterator[State]:
    """Of the CPU's."""
    yield State("torch", torch.get_rng_state(), torch.set_rng_state)
    # Not the legacy form, which warns where the user has chosen another bit generator.
    yield State("numpy.random", np.random.get_state(legacy=False), np.random.set_state)
    yield State("random", random.getstate(), random.setstate)


def held_generators(name: str, root: Any) -> list[Part]:
    """Those that ``root`` and what it holds keep; the system's source of chance has no state."""
    held = (part for part in walk(name, root) if is_a(part.value, *_KINDS))
    return [part for part in held if not is_a(part.value, random.SystemRandom)]


def held_states(name: str, root: Any) -> Iterator[State]:
    for path, generator in held_generators(name, root):
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
    """Afterwards every generator is where it was: a training goes on as if nothing had run.

    That is the global ones of torch, NumPy and ``random``, those of all CUDA devices where CUDA is
    initialised, and those that the loader, its samplers and its dataset hold.
    """
    states = [*global_states(), *held_states("loader", loader)]
    if torch.cuda.is_initialized():  # to ask before would initialise it
        cuda = torch.cuda.get_rng_state_all()
        states.append(State("torch.cuda", cuda, torch.cuda.set_rng_state_all))
    with ExitStack() as at_the_end:  # one that cannot be given back keeps no other from it
        for state in states:
            at_the_end.callback(state.give_back, state.value)
        yield
