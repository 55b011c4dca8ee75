"""A copy of the user's loader with other settings; the loader itself stays as it is."""

from __future__ import annotations

import copy
from typing import Any

from torch.utils.data import DataLoader

# What a loader without workers has (torch/utils/data/dataloader.py, ``DataLoader.__init__``).
WITHOUT_WORKERS = {
    "timeout": 0,
    "prefetch_factor": None,
    "persistent_workers": False,
    "_DataLoader__multiprocessing_context": None,
}


def copy_loader(loader: DataLoader[Any], **settings: Any) -> DataLoader[Any]:
    """A loader of the same dataset, sampler and ``collate_fn``, with workers of its own.

    Args:
        loader: the one to copy; it keeps its settings, and its workers where they are persistent.
        settings: as ``DataLoader`` takes them, in place of the loader's own. Nothing is checked,
            and no ``__init__`` runs. With ``num_workers=0``, settings that need workers are reset.
    """
    copied = copy.copy(loader)
    state = copied.__dict__  # torch's __setattr__ refuses these once a loader is made
    state.update(settings)
    state["_iterator"] = None  # with persistent workers, it is the loader's own
    if "_initial_iter_for_state_dict" in state:  # torchdata's, which would begin with that one
        state["_initial_iter_for_state_dict"] = False
    if not state["num_workers"]:
        state.update(WITHOUT_WORKERS)
    return copied


def let_go_of_iterator(copied: DataLoader[Any]) -> None:
    """Have a loader made by ``copy_loader`` no longer hold its iterator, nor persistent workers."""
    copied._iterator = None
