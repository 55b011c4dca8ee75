"""Tries out a loader that promises to resume: interrupt it, save it, continue in a fresh copy."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_outcomes import error_text
from loaderviz.loaders.content_hash import digest_or_none

MOST_BATCHES = 500
INTERRUPTED_AFTER = 3  # batches


@dataclass(frozen=True)
class ResumeTrial:
    """The batches after an interruption, as digests of their contents (None: has no digest)."""

    n_before: int = 0  # batches until the interruption
    expected: tuple[int | None, ...] = ()  # those that the uninterrupted loader went on with
    resumed: tuple[int | None, ...] = ()  # those of a fresh copy with the saved state
    failure: str = ""  # why it could not be resumed


def resumable(loader: DataLoader[Any]) -> bool:
    """Whether the loader has ``state_dict`` and ``load_state_dict``."""
    return all(hasattr(type(loader), name) for name in ("state_dict", "load_state_dict"))


def two_copies(setup: Setup) -> tuple[DataLoader[Any], DataLoader[Any]] | None:
    """Two deep copies of the loader; None if it cannot be copied."""
    try:
        return copy.deepcopy(setup.loader), copy.deepcopy(setup.loader)
    except Exception:
        return None


def try_to_resume(copies: tuple[Any, Any], until: float) -> ResumeTrial | None:
    """Interrupt the first copy, iterate it to its end, and resume the second from its state.

    Args:
        copies: see ``two_copies``.
        until: when to give up, in seconds of ``time.monotonic()``.

    Returns:
        None if the epoch is too short to be interrupted, or too long.
    """
    uninterrupted, fresh = copies
    try:
        torch.manual_seed(1)
        n_before = 0
        expected: list[int | None] = []
        batches = iter(uninterrupted)
        for n_before, batch in enumerate(batches, 1):
            if n_before == INTERRUPTED_AFTER:
                state = uninterrupted.state_dict()
                break
            del batch
        else:
            return None
        for batch in batches:
            expected.append(digest_or_none(batch))
            if time.monotonic() > until or len(expected) == MOST_BATCHES:
                return None
        torch.manual_seed(2)  # a new process begins with other draws
        fresh.load_state_dict(state)
        resumed: list[int | None] = []
        for batch in fresh:
            resumed.append(digest_or_none(batch))
            if len(resumed) > len(expected) + n_before:
                break
    except Exception as error:
        return ResumeTrial(failure=error_text(error))
    return ResumeTrial(n_before, tuple(expected), tuple(resumed))
