"""The settings that the controls choose, the DataLoader with them, and the code that makes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from loaderviz.argument_checks import number, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.describe_loader import describe
from loaderviz.working_dataset import WorkingDataset, WorkingStream

MOST_WORKERS = 16
TWO_WORKERS = LoaderSettings(2)

Kind = Literal["map", "naive iterable", "shared-out iterable"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class ExplorerSettings:
    """One position of the controls; times are in seconds.

    A loader is the user's own one, or loads the teaching dataset, whose samples take the time and
    the CPU that the settings say.

    Raises:
        LoaderVizError: for a value that no loader can have.
    """

    loader: LoaderSettings = TWO_WORKERS
    batch_size: int = 4
    kind: Kind = "map"
    step_s: float = 0.05
    n_samples: int = 48  # in an epoch; a dataset may hold fewer
    epochs: int = 1
    cores: int | None = None  # CPUs that the processes may use; None: as many as this process
    # Of the teaching dataset alone:
    sample_s: float = 0.02
    spread: float = 0.0  # standard deviation of the samples' times, divided by their mean
    cpu_share: float = 0.0  # part of the samples' times that keeps a CPU busy, 0 to 1
    sample_bytes: int = 150_000

    def __post_init__(self) -> None:
        minimums = {"batch_size": 1, "n_samples": 1, "epochs": 1, "sample_bytes": 0}
        for name, at_least in minimums.items():
            whole_number(name, getattr(self, name), at_least=at_least)
        if self.cores is not None:
            whole_number("cores", self.cores, at_least=1)
        for name in ("sample_s", "step_s", "spread"):
            number(name, getattr(self, name))
        number("cpu_share", self.cpu_share, at_most=1)
        if self.kind not in KINDS:
            raise LoaderVizError(f"kind={self.kind!r} is not one of {', '.join(KINDS)}")

    @property
    def n_batches(self) -> int:
        """Batches in an epoch, if every sample is delivered once and none is dropped."""
        return math.ceil(self.n_samples / self.batch_size)

    def options(self) -> dict[str, Any]:
        """The arguments of ``DataLoader`` that differ from torch's defaults, batch size first."""
        return {"batch_size": self.batch_size, **self.loader.changed_options()}

    def code(self, user_loader: DataLoader[Any] | None = None) -> str:
        """The call of ``DataLoader`` that makes a loader with these settings, as code."""
        options = self.options()
        if user_loader is not None and not has_batch_size(user_loader):
            options = self.loader.changed_options()
            if user_loader.batch_sampler is None:
                options = {"batch_size": None, **options}
        arguments = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"DataLoader(dataset, {arguments})"

    def make_loader(self, user_loader: DataLoader[Any] | None = None) -> DataLoader[Any]:
        """Make a loader with these settings: of the teaching dataset, or a copy of the user's.

        The copy cuts batches of another size, where torch cuts them.
        """
        if user_loader is None:
            return DataLoader(self._teaching_dataset(), **self.options())
        options = self.loader.options()
        if has_batch_size(user_loader):
            batches = BatchSampler(user_loader.sampler, self.batch_size, user_loader.drop_last)
            options |= {"batch_size": self.batch_size, "batch_sampler": batches}
        return copy_loader(user_loader, **options)

    def _teaching_dataset(self) -> WorkingDataset | WorkingStream:
        dataset = WorkingDataset(
            self.n_samples,
            self.sample_s,
            spread=self.spread,
            cpu_share=self.cpu_share,
            sample_bytes=self.sample_bytes,
        )
        if self.kind == "map":
            return dataset
        return WorkingStream(dataset, shared=self.kind == "shared-out iterable")


def settings_of(user_loader: DataLoader[Any]) -> ExplorerSettings:
    """The settings of the user's own loader, with two batches a worker or more if it has them."""
    batch_size = user_loader.batch_size or 1
    n_samples = batch_size * max(24, 2 * user_loader.num_workers)
    n_samples = max(1, min(n_samples, samples_of(user_loader) or n_samples))
    is_stream = isinstance(user_loader.dataset, IterableDataset)
    # Whether batches are pinned: as the user asked for it, also where there is no GPU.
    described = {**describe(user_loader), "pinned": user_loader.pin_memory}
    return ExplorerSettings(
        LoaderSettings.of(described),
        batch_size=batch_size,
        kind="shared-out iterable" if is_stream else "map",
        n_samples=n_samples,
    )


def samples_of(user_loader: DataLoader[Any]) -> int | None:
    """How many samples the loader's dataset has; None if it does not say."""
    try:
        return len(user_loader.dataset)  # type: ignore[arg-type]
    except Exception:  # from the user's code, where a stream's len() may do anything
        return None


def has_batch_size(loader: DataLoader[Any]) -> bool:
    """Whether torch forms this loader's batches, so that their size can be chosen."""
    return loader.batch_size is not None
