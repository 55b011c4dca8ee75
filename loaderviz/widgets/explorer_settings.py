"""What the controls choose, the real DataLoader that it stands for, and the call that makes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch.utils.data import DataLoader, IterableDataset

from loaderviz.argument_checks import whole_number
from loaderviz.datasets import WorkingDataset, WorkingStream
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.describe_loader import describe

MOST_WORKERS = 16
TWO_WORKERS = LoaderSettings(2)

Kind = Literal["map", "naive iterable", "shared-out iterable"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class ExplorerSettings:
    """One position of the controls. Times are in seconds.

    Raises:
        LoaderVizError: for a value that no loader can have.
    """

    loader: LoaderSettings = TWO_WORKERS
    batch_size: int = 4
    kind: Kind = "map"
    step_s: float = 0.05
    n_samples: int = 96  # of an epoch, and no more than the dataset has
    epochs: int = 1
    cores: int | None = None  # CPUs that the processes may use; None: as many as this one may
    # Of the teaching dataset; a loader of one's own takes what it takes.
    sample_s: float = 0.02
    spread: float = 0.0  # standard deviation of the samples' times, as a part of their average
    cpu_share: float = 0.0  # of the samples' times, the part that keeps a CPU busy
    sample_bytes: int = 150_000

    def __post_init__(self) -> None:
        least = {"batch_size": 1, "n_samples": 1, "epochs": 1, "sample_bytes": 0}
        for name, at_least in least.items():
            whole_number(name, getattr(self, name), at_least=at_least)
        if self.cores is not None:
            whole_number("cores", self.cores, at_least=1)
        for name in ("sample_s", "step_s", "spread", "cpu_share"):
            value = getattr(self, name)
            what = "seconds" if name.endswith("_s") else "a number"
            if not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise LoaderVizError(f"{name}={value!r}: give {what}, 0 or more")
        if self.cpu_share > 1:
            raise LoaderVizError(f"cpu_share={self.cpu_share!r}: give a share, 0 to 1")
        if self.kind not in KINDS:
            raise LoaderVizError(f"kind={self.kind!r} is not one of {', '.join(KINDS)}")

    @property
    def n_batches(self) -> int:
        """Of an epoch, where every sample is delivered once and none is left out."""
        return math.ceil(self.n_samples / self.batch_size)

    def options(self) -> dict[str, Any]:
        """The arguments of ``DataLoader`` that differ from torch's defaults, batch size first."""
        return {"batch_size": self.batch_size, **self.loader.changed_options()}

    def code(self, own: DataLoader[Any] | None = None) -> str:
        """The call that makes this loader."""
        options = self.options()
        if own is not None and not has_batch_size(own):
            options = _of_batches(own, options)
        return f"DataLoader(dataset, {', '.join(f'{k}={v!r}' for k, v in options.items())})"

    def make_loader(self, own: DataLoader[Any] | None = None) -> DataLoader[Any]:
        """A loader with these settings: of the teaching dataset, or like the reader's own one."""
        if own is None:
            return DataLoader(self._teaching_dataset(), **self.options())
        options = _of_batches(own, self.options()) if not has_batch_size(own) else self.options()
        if self.loader.num_workers:
            options["multiprocessing_context"] = own.multiprocessing_context
            options["timeout"] = own.timeout
        return DataLoader(own.dataset, **_kept(own), **options)

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


def settings_of(own: DataLoader[Any]) -> ExplorerSettings:
    """Where the reader's own loader stands, and enough samples to see every worker twice."""
    batch_size = own.batch_size or 1
    stream = isinstance(own.dataset, IterableDataset)
    return ExplorerSettings(
        LoaderSettings.of({**describe(own), "pinned": own.pin_memory}),  # as asked for
        batch_size=batch_size,
        kind="shared-out iterable" if stream else "map",
        n_samples=batch_size * max(24, 2 * own.num_workers),
    )


def has_batch_size(loader: DataLoader[Any]) -> bool:
    """Whether torch cuts this loader's batches, so that their size can be chosen."""
    return loader.batch_size is not None


def _kept(own: DataLoader[Any]) -> dict[str, Any]:
    """What a changed loader keeps of the reader's own."""
    kept: dict[str, Any] = {
        "collate_fn": own.collate_fn,
        "worker_init_fn": own.worker_init_fn,
        "generator": own.generator,
    }
    if has_batch_size(own):
        kept["drop_last"] = own.drop_last
    if own.batch_size is not None or own.batch_sampler is None:
        if not isinstance(own.dataset, IterableDataset):
            kept["sampler"] = own.sampler
    else:
        kept["batch_sampler"] = own.batch_sampler
    return kept


def _of_batches(own: DataLoader[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Of a loader whose batches torch does not cut: its own stay as they are."""
    del options["batch_size"]
    return options if own.batch_sampler is not None else {"batch_size": None, **options}
