"""A loader that promises to resume: interrupted, saved, and taken up by a fresh copy."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
from torch.utils.data import DataLoader

from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_outcomes import Fact, text_of
from loaderviz.loaders.content_hash import digest_or_none

MOST_BATCHES = 500
INTERRUPTED = 3  # after so many batches


def resumable(loader: DataLoader[Any]) -> bool:
    return all(hasattr(type(loader), name) for name in ("state_dict", "load_state_dict"))


def two_copies(setup: Setup) -> tuple[DataLoader[Any], DataLoader[Any]] | None:
    try:
        return copy.deepcopy(setup.loader), copy.deepcopy(setup.loader)
    except Exception:
        return None


def resume(spare: tuple[Any, Any], until: float) -> Fact | None:
    """Half an epoch, its state into a fresh loader, and the rest from there."""
    first, second = spare
    try:
        torch.manual_seed(1)
        at, rest = 0, []
        batches = iter(first)
        for at, batch in enumerate(batches, 1):
            if at == INTERRUPTED:
                state = first.state_dict()
                break
            del batch
        else:
            return None
        for batch in batches:
            rest.append(digest_or_none(batch))
            if time.monotonic() > until or len(rest) == MOST_BATCHES:
                return None
        torch.manual_seed(2)  # a new process begins with other draws
        second.load_state_dict(state)
        again = []
        for batch in second:
            again.append(digest_or_none(batch))
            if len(again) > len(rest) + at:
                break
    except Exception as error:
        return Fact("resume failed", text_of(error))
    return Fact("resumed", (at, tuple(rest), tuple(again)))
