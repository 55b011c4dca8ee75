"""How many batches: of an epoch, where no code of the user has to tell; and made ahead."""

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


def sampler_of(loader: DataLoader[Any]) -> Any:
    """What draws its keys: with a ``batch_sampler`` of its own, a loader's ``sampler`` does not."""
    batches = loader.__dict__.get("batch_sampler")
    if type(batches) is BatchSampler:
        return batches.sampler
    return loader.__dict__.get("sampler") if batches is None else batches


def _holds_its_length(cls: Any) -> bool:
    """Whether its ``len()`` is that of one of ``_SAMPLERS``, as of a subclass that seeds it."""
    if issubclass(cls, RandomSampler) and cls.num_samples is not RandomSampler.num_samples:
        return False
    return any(issubclass(cls, each) and cls.__len__ is each.__len__ for each in _SAMPLERS)


def known_length(loader: DataLoader[Any]) -> int | None:
    """The batches of an epoch, None where only the user's code could tell; raises nothing."""
    if type(loader).__len__ is not DataLoader.__len__:
        return None
    batches = loader.__dict__.get("batch_sampler")
    batched = batches is None or type(batches) is BatchSampler
    if loader.__dict__.get("_dataset_kind") != _DatasetKind.Map or not batched:
        return None
    if not _holds_its_length(type(sampler_of(loader))):
        return None
    try:
        return len(loader)
    except own_errors(Exception, method="__len__", of=(loader.__dict__.get("dataset"),)):
        return None


def n_ahead(iterator: Any) -> int:
    """Batches that wait in the queue, or for an earlier one; 0 where that cannot be told.

    torch keeps what arrives too early beside its worker's number (torch/utils/data/dataloader.py,
    ``_next_data``).
    """
    parts = getattr(iterator, "__dict__", {})
    n_early = sum(len(task) == 2 for task in parts.get("_task_info", {}).values())
    queue = parts.get("_data_queue")
    try:
        return n_early + (0 if queue is None else int(queue.qsize()))
    except own_errors(NotImplementedError):  # on macOS (docs.python.org, ``Queue.qsize``)
        return 0
