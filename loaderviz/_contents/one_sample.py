"""Reads a sample by its key, under random numbers that are the same each time."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.held_objects import is_a
from loaderviz.loaders.random_state import held_generators

SEED, OTHER_SEED = 1, 2  # any two
LONGEST_RING = 8  # samples that are kept: of large ones no more fit into memory


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
