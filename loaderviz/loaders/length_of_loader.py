"""How many batches an epoch of a loader has, where no code of the user has to tell."""

from __future__ import annotations

from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    _DatasetKind,
)
from torch.utils.data.distributed import DistributedSampler

from loaderviz.own_errors import own_errors

# ``len()`` of these is a number that they hold; ``RandomSampler`` asks its data for it, which it
# has done before, when it was made (torch/utils/data/sampler.py, ``RandomSampler.__init__``). A
# ``SequentialSampler`` asks for the first time when an epoch begins, in a dataset that workers may
# not have been forked with yet: so it is not asked.
_SAMPLERS = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)


def known_length(loader: DataLoader[Any]) -> int | None:
    """The batches of an epoch, None where only the user's code could tell; raises nothing."""
    if type(loader).__len__ is not DataLoader.__len__:
        return None
    batches, sampler = loader.__dict__.get("batch_sampler"), loader.__dict__.get("sampler")
    batched = batches is None or type(batches) is BatchSampler
    if loader.__dict__.get("_dataset_kind") != _DatasetKind.Map or not batched:
        return None
    if type(sampler) not in _SAMPLERS:
        return None
    try:
        return len(loader)
    except own_errors(Exception, method="__len__", of=(loader.__dict__.get("dataset"),)):
        return None
