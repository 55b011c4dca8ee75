"""How many batches an epoch of a loader has, where no code of the user has to tell."""

from __future__ import annotations

from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

# ``len()`` of these is a number that they hold; ``RandomSampler`` asks its data for it, which it
# has done before, when it was made (torch/utils/data/sampler.py, ``RandomSampler.__init__``). A
# ``SequentialSampler`` asks for the first time when an epoch begins, in a dataset that workers may
# not have been forked with yet: so it is not asked.
_SAMPLERS = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)


def known_length(loader: DataLoader[Any]) -> int | None:
    """The batches of an epoch, None where only the user's code could tell."""
    plain = type(loader).__len__ is DataLoader.__len__
    batched = loader.batch_sampler is None or type(loader.batch_sampler) is BatchSampler
    if isinstance(loader.dataset, IterableDataset) or not plain or not batched:
        return None
    return len(loader) if type(loader.sampler) in _SAMPLERS else None
