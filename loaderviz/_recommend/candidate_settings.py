"""The settings that are compared, and which of two is the cheaper one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final

from loaderviz.text import count

PREFETCH: Final = (2, 1, 4, 8)  # torch's own first
FINE: Final = 8  # up to here every number of workers is tried
LEAST_REACH: Final = 16  # workers that wait for a disk or a network are of use beyond the CPUs


@dataclass(frozen=True)
class Setting:
    """What ``recommend`` chooses; ``prefetch_factor`` is None without workers."""

    num_workers: int
    prefetch_factor: int | None = None
    in_order: bool = True
    persistent_workers: bool = False
    pin_memory: bool = False

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Setting:
        """Of a loader, as the recorder describes it."""
        workers = int(about.get("num_workers") or 0)
        return cls(
            workers,
            int(about.get("prefetch_factor") or PREFETCH[0]) if workers else None,
            bool(about.get("in_order", True)) or workers == 0,
            bool(about.get("persistent_workers", False)) and workers > 0,
            bool(about.get("pinned", False)),
        )

    @property
    def cost(self) -> tuple[int, bool, bool, int]:
        """Fewest workers first, then plain options, then torch's own prefetch or less."""
        prefetch = self.prefetch_factor or PREFETCH[0]
        rank = PREFETCH.index(prefetch) if prefetch in PREFETCH else prefetch
        return self.num_workers, not self.in_order, self.persistent_workers, rank

    @property
    def in_flight(self) -> int:
        """Batches in shared memory at most: all that are under way, and the loop's own.

        See torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter._try_put_index``.
        """
        return self.num_workers * (self.prefetch_factor or 0) + 1 if self.num_workers else 0

    def options(self) -> dict[str, Any]:
        """As ``DataLoader`` takes them, and ``simulate``."""
        return asdict(self)

    def __str__(self) -> str:
        """In words, as short as they are plain."""
        if not self.num_workers:
            return "no workers"
        words = [count(self.num_workers, "worker")]
        if self.prefetch_factor != PREFETCH[0]:
            words.append(f"prefetch_factor={self.prefetch_factor}")
        if not self.in_order:
            words.append("in_order=False")
        if self.persistent_workers:
            words.append("persistent_workers=True")
        return ", ".join(words)


def reach(allowance: float) -> int:
    """How many workers are tried where nobody says it."""
    return max(LEAST_REACH, 2 * math.ceil(allowance))


def grid(most_workers: int, epochs: int, present: Setting) -> list[Setting]:
    """Every setting that is tried: what there is now, too.

    Workers live on from epoch to epoch, or not, as they do now where one epoch does not tell.
    """
    pins = present.pin_memory
    found = {Setting(0, pin_memory=pins): None}
    for workers in _numbers(most_workers):
        for persistent in (present.persistent_workers,) if epochs == 1 else (False, True):
            for prefetch in PREFETCH:
                found[Setting(workers, prefetch, True, persistent, pins)] = None
            for prefetch in PREFETCH[::2] if workers > 1 else ():
                found[Setting(workers, prefetch, False, persistent, pins)] = None
    return list(found | {present: None})


def _numbers(most: int) -> Iterator[int]:
    """1, 2, ... 8, 10, 12, 16, 20, 24, 32, ... and the last one."""
    powers = (FINE << n for n in range(most.bit_length()))
    beyond = (power * part // 4 for power in powers for part in (4, 5, 6))
    yield from (number for number in chain(range(1, FINE), beyond) if number < most)
    yield most
