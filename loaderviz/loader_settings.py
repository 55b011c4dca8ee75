"""The options of a DataLoader that say who loads the batches, and how far ahead.

What the batches are, by dataset, sampler and batch size, is no part of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from loaderviz.argument_checks import true_or_false, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.text import count

PREFETCH_FACTOR: Final = 2  # torch's own, where there are workers


@dataclass(frozen=True)
class LoaderSettings:
    """As ``DataLoader`` names them. ``prefetch_factor`` is None without workers, and only then.

    Raises:
        LoaderVizError: for a value that an option cannot have, or that torch refuses without
            workers.
    """

    num_workers: int = 0
    prefetch_factor: int | None = None  # given as None: torch's own, where there are workers
    in_order: bool = True
    persistent_workers: bool = False
    pin_memory: bool = False

    def __post_init__(self) -> None:
        workers = whole_number("num_workers", self.num_workers, at_least=0)
        checked: dict[str, Any] = {
            name: true_or_false(name, getattr(self, name))
            for name in ("in_order", "persistent_workers", "pin_memory")
        }
        prefetch = self.prefetch_factor
        if not workers:
            refuse_without_workers("prefetch_factor", prefetch)
            refuse_without_workers("persistent_workers", self.persistent_workers or None)
        elif prefetch is None:
            prefetch = PREFETCH_FACTOR
        else:
            prefetch = whole_number("prefetch_factor", prefetch, at_least=1)
        checked |= {"num_workers": workers, "prefetch_factor": prefetch}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> LoaderSettings:
        """Of a loader as the recorder describes it, or of options by their names.

        What means nothing without workers is put aside. Where it is known whether batches really
        were ``pinned``, that counts, and not whether it was asked for.
        """
        workers = int(about.get("num_workers") or 0)
        return cls(
            workers,
            int(about.get("prefetch_factor") or PREFETCH_FACTOR) if workers else None,
            bool(about.get("in_order", True)) or workers == 0,
            bool(about.get("persistent_workers", False)) and workers > 0,
            bool(about.get("pinned", about.get("pin_memory", False))),
        )

    def options(self) -> dict[str, Any]:
        """All of them, as ``DataLoader`` takes them, and ``simulate``."""
        return asdict(self)

    def changed_options(self) -> dict[str, Any]:
        """Those that differ from torch's defaults."""
        usual = {**LoaderSettings(self.num_workers).options(), "num_workers": 0}
        return {name: each for name, each in self.options().items() if each != usual[name]}

    @property
    def max_tasks(self) -> int:
        """Batches that the workers are asked for at any time, at most.

        See torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter._try_put_index``.
        """
        return self.num_workers * (self.prefetch_factor or 0)

    @property
    def in_flight(self) -> int:
        """Batches in shared memory at most: all that are under way, and the loop's own."""
        return self.max_tasks + 1 if self.num_workers else 0

    def __str__(self) -> str:
        """In words, as short as they are plain."""
        if not self.num_workers:
            return "no workers"
        words = [count(self.num_workers, "worker")]
        if self.prefetch_factor != PREFETCH_FACTOR:
            words.append(f"prefetch_factor={self.prefetch_factor}")
        if not self.in_order:
            words.append("in_order=False")
        if self.persistent_workers:
            words.append("persistent_workers=True")
        return ", ".join(words)


def refuse_without_workers(name: str, value: Any) -> None:
    """What ``DataLoader.__init__`` refuses where ``num_workers`` is 0: anything but None."""
    if value is not None:
        raise LoaderVizError(
            f"{name}={value!r} with num_workers=0: torch refuses it, as there is no worker "
            f"that it would hold for. Leave it out, or give num_workers=1 or more."
        )
