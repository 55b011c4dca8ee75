"""An audit draws what the loader's next epoch would draw, and gives it back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader


@contextmanager
def kept(loader: DataLoader[Any]) -> Iterator[None]:
    """Afterwards every generator is where it was: a training after the audit is as without it.

    To iterate a loader draws from its generator or the global one, and so do samplers
    (torch/utils/data/dataloader.py, ``_BaseDataLoaderIter.__init__``; sampler.py).
    """
    samplers = loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)
    given = [getattr(each, "generator", None) for each in (loader, *samplers)]
    drawn = [each for each in given if isinstance(each, torch.Generator)]
    generators = {id(each): each for each in (torch.default_generator, *drawn)}.values()
    states = [(each, each.get_state()) for each in generators]
    python, legacy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        for generator, state in states:
            generator.set_state(state)
        random.setstate(python)
        np.random.set_state(legacy)
