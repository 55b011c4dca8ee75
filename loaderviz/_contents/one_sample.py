"""Reads a sample by its key, under random numbers that are the same each time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from loaderviz.loaders.held_objects import is_a
from loaderviz.loaders.random_state import held_generators


def read_sample(dataset: Any, key: Any) -> Any:
    """One sample, by its key; as torch asks for it where the dataset has no ``__getitem__``."""
    if hasattr(type(dataset), "__getitem__"):
        return dataset[key]
    return dataset.__getitems__([key])[0]


def seeder(*roots: Any) -> Callable[[int], None]:
    """A function that seeds the global generators, and those that these objects hold now."""
    held = [part.value for part in held_generators(dataset=roots)]

    def seed_all(seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        for generator in held:
            if is_a(generator, torch.Generator):
                generator.manual_seed(seed)
            elif is_a(generator, np.random.Generator):
                bits = generator.bit_generator
                bits.state = type(bits)(seed).state
            else:
                generator.seed(seed)

    return seed_all
