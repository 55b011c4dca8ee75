"""The options of a DataLoader that say which processes load the batches, and how far ahead.

Dataset, sampler and batch size, which say what the batches are, do not belong to them.
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
    """Options, named as ``DataLoader`` does. ``prefetch_factor`` is None only without workers.

    Raises:
        LoaderVizError: for a value that an option cannot have, or that torch refuses without
            workers.
    """

    num_workers: int = 0
    prefetch_factor: int | None = None  # None becomes torch's own, where there are workers
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
    def of(cls, description: Mapping[str, Any]) -> LoaderSettings:
        """The settings of a loader, from its description by the recorder or from options by name.

        Options that mean nothing without workers are ignored. Whether batches really were
        ``pinned`` counts, where it is known, rather than whether the loader was asked to pin them.
        """
        workers = int(description.get("num_workers") or 0)
        return cls(
            workers,
            int(description.get("prefetch_factor") or PREFETCH_FACTOR) if workers else None,
            bool(description.get("in_order", True)) or workers == 0,
            bool(description.get("persistent_workers", False)) and workers > 0,
            bool(description.get("pinned", description.get("pin_memory", False))),
        )

    def options(self) -> dict[str, Any]:
        """All options by name, as ``DataLoader`` and ``simulate`` take them."""
        return asdict(self)

    def changed_options(self) -> dict[str, Any]:
        """The options that differ from torch's defaults, by name."""
        defaults = {**LoaderSettings(self.num_workers).options(), "num_workers": 0}
        return {name: value for name, value in self.options().items() if value != defaults[name]}

    @property
    def max_tasks(self) -> int:
        """The most batches that the workers are asked for at any time.

        See torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter._try_put_index``.
        """
        return self.num_workers * (self.prefetch_factor or 0)

    @property
    def in_flight(self) -> int:
        """The most batches in shared memory: those asked for, and two within ``next()``.

        That is the one it hands over, and the one before, which the loop holds until then.
        """
        return self.max_tasks + 2 if self.num_workers else 0

    def __str__(self) -> str:
        """A few words, such as "4 workers, prefetch_factor=4"."""
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
    """Refuse anything but None, as ``DataLoader.__init__`` does where ``num_workers`` is 0.

    Raises:
        LoaderVizError: for any other value.
    """
    if value is not None:
        raise LoaderVizError(
            f"{name}={value!r} with num_workers=0: torch refuses it, as there is no worker "
            f"that it would apply to. Leave it out, or give num_workers=1 or more."
        )
