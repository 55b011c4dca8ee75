"""A loader like the user's own, with other settings, which leaves that one as it is."""

from __future__ import annotations

import copy
from typing import Any

from torch.utils.data import DataLoader

# What torch/utils/data/dataloader.py, ``DataLoader.__init__``, has for a loader without workers.
WITHOUT_WORKERS = {
    "timeout": 0,
    "prefetch_factor": None,
    "persistent_workers": False,
    "_DataLoader__multiprocessing_context": None,
}


def copy_loader(loader: DataLoader[Any], **settings: Any) -> DataLoader[Any]:
    """A loader of the same dataset, sampler and ``collate_fn``, with workers of its own.

    Args:
        loader: it keeps its settings, and its workers where they live on.
        settings: as ``DataLoader`` takes them, in place of the loader's own; what needs workers is
            put aside where ``num_workers`` is 0. Nothing is checked, and no ``__init__`` runs.
    """
    copied = copy.copy(loader)
    own = copied.__dict__  # torch's __setattr__ refuses these once a loader is made
    own.update(settings)
    own["_iterator"] = None  # of persistent workers
    if not own["num_workers"]:
        own.update(WITHOUT_WORKERS)
    return copied
