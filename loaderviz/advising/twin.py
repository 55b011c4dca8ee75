"""A loader like the user's own with other settings, which leaves that one as it is."""

from __future__ import annotations

import copy
from typing import Any

from torch.utils.data import DataLoader

from loaderviz.advising.settings import Setting


def twin(loader: DataLoader[Any], setting: Setting, timeout_s: float = 0.0) -> DataLoader[Any]:
    """A loader like this one, of the same dataset and sampler, with these settings."""
    twin = copy.copy(loader)
    own = twin.__dict__
    own.update(setting.options())
    own["_iterator"] = None  # of persistent workers
    own["timeout"] = (own["timeout"] or timeout_s) if setting.num_workers else 0
    if not setting.num_workers:
        own["_DataLoader__multiprocessing_context"] = None
    return twin
