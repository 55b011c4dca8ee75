"""What the sliders choose, and the real DataLoader that it stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from loaderviz.datasets import SleepingDataset
from loaderviz.errors import LoaderVizError

MOST_WORKERS = 16


@dataclass(frozen=True)
class Settings:
    """One position of the sliders. Times are in seconds.

    Raises:
        LoaderVizError: for a value that no loader can have.
    """

    num_workers: int = 2
    batch_size: int = 4
    prefetch_factor: int = 2  # has no meaning, and is not passed on, without workers
    sample_s: float = 0.02  # of the teaching dataset; a loader of one's own takes what it takes
    step_s: float = 0.05

    def __post_init__(self) -> None:
        for name, least in (("num_workers", 0), ("batch_size", 1), ("prefetch_factor", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise LoaderVizError(f"{name}={value!r}: give a whole number, {least} or more")
        for name in ("sample_s", "step_s"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise LoaderVizError(f"{name}={value!r}: give seconds, 0 or more")

    @property
    def n_batches(self) -> int:
        """How many batches a run takes: enough that every worker is seen more than once."""
        return max(12, 2 * self.num_workers)

    def loader(self, own: DataLoader[Any] | None = None) -> DataLoader[Any]:
        """A loader with these settings: of the teaching dataset, or like the reader's own one."""
        chosen: dict[str, Any] = {"num_workers": self.num_workers}
        if self.num_workers:
            chosen["prefetch_factor"] = self.prefetch_factor
        if own is None:
            dataset = SleepingDataset(self.n_batches * self.batch_size, self.sample_s)
            return DataLoader(dataset, batch_size=self.batch_size, **chosen)
        if self.num_workers:
            chosen["multiprocessing_context"] = own.multiprocessing_context
            chosen["timeout"] = own.timeout
        return DataLoader(own.dataset, **chosen, **_kept(own, self.batch_size))


def settings_of(own: DataLoader[Any]) -> Settings:
    """Where the reader's own loader stands."""
    begin = Settings()
    return replace(
        begin,
        num_workers=own.num_workers,
        batch_size=own.batch_size or begin.batch_size,
        prefetch_factor=own.prefetch_factor or begin.prefetch_factor,
    )


def has_batch_size(loader: DataLoader[Any]) -> bool:
    """Whether torch cuts this loader's batches, so that their size can be chosen."""
    return loader.batch_size is not None


def _kept(own: DataLoader[Any], batch_size: int) -> dict[str, Any]:
    """What a changed loader keeps of the reader's own."""
    kept: dict[str, Any] = {
        "collate_fn": own.collate_fn,
        "pin_memory": own.pin_memory,
        "worker_init_fn": own.worker_init_fn,
        "generator": own.generator,
        "in_order": own.in_order,
    }
    if has_batch_size(own):
        kept |= {"batch_size": batch_size, "drop_last": own.drop_last}
    elif own.batch_sampler is not None:
        return kept | {"batch_sampler": own.batch_sampler}
    else:
        kept["batch_size"] = None
    if not isinstance(own.dataset, IterableDataset):
        kept["sampler"] = own.sampler
    return kept
