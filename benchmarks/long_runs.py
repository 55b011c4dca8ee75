"""Is a recorded minute right of the training? `python benchmarks/long_runs.py [KIND ...]`.

Loops of kinds that trainings are made of, in two sizes: the odd ones were there to look at, the
even ones (`--held-out`, drawn by `--seed`) were not. Of each a first few batches are recorded; then
the same loop goes on for whole epochs, unrecorded, and last with the cure that was advised. Printed
for each are

- *first*: the first cause of a whole epoch, and the one that this kind has by its making;
- *epoch*: the projected epoch over the real one, the second, which has no warm-up;
- *saving*: what cutting the first cause was said to save over what the cure really saved.

`?` stands where the recording was said to be too short, which is no mistake.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz import record

N_BATCHES, BATCH_SIZE = 300, 4
NEVER, HANDOVER, WORKERS, MAIN, START = (
    "never waits",
    "handover",
    "workers",
    "main_process",
    "start",
)


@dataclass(frozen=True)
class Kind:
    """A loop. Times are seconds; ``read_s`` is that of a batch."""

    name: str
    first: str  # the cause that it has by its making
    read_s: float
    step_s: float
    workers: int = 2
    record: int = 60  # batches
    slow_steps: dict[int, float] = field(default_factory=dict)  # seconds of these steps
    pause_each: int = 0
    pause_s: float = 0.0
    cold_s: float = 0.0  # of a batch that was never read before
    options: dict[str, Any] = field(default_factory=dict)
    n_batches: int = N_BATCHES
    cures: dict[str, Any] = field(default_factory=dict)  # None: as many workers as advised


def kinds(scale: float) -> list[Kind]:
    """Reading bound, step bound and balanced, each with what a training has besides."""
    fast, slow = 0.006 * scale, 0.024 * scale
    bound = Kind("read bound", WORKERS, slow, fast)
    return [
        replace(bound, name="one slow step", slow_steps={0: 2.0}),
        replace(bound, name="five slow steps", slow_steps=dict.fromkeys(range(5), 0.4)),
        replace(bound, name="twenty slow steps", slow_steps=dict.fromkeys(range(20), 0.1)),
        replace(bound, name="compiles at step 3", slow_steps={0: 0.5, 3: 2.0}),
        Kind("step bound, slow first", NEVER, fast, slow, slow_steps={0: 2.0}),
        Kind("balanced", NEVER, 2 * slow * 0.7, slow, record=100),
        replace(bound, name="pauses each 20", pause_each=20, pause_s=0.3, record=100),
        replace(bound, name="pauses each 100", pause_each=100, pause_s=1.0, record=250),
        replace(bound, name="full queues", options={"prefetch_factor": 16}, slow_steps={0: 1.0}),
        Kind("main process", MAIN, fast, slow, workers=0),
        Kind("cold cache", NEVER, 1e-4, fast, cold_s=slow, record=3 * 40, n_batches=40,
             options={"persistent_workers": True}),
        Kind("short epochs", START, fast, fast, record=5 * 8, n_batches=8,
             options={"multiprocessing_context": "spawn"}, cures={"persistent_workers": True}),
        Kind("short epochs, kept", NEVER, fast, 2 * fast, record=5 * 8, n_batches=8,
             options={"persistent_workers": True}),
        Kind("plenty", NEVER, fast, slow, workers=4),
    ]  # fmt: skip


class Slow(Dataset[Any]):
    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.seen = torch.zeros(kind.n_batches * BATCH_SIZE).share_memory_()

    def __len__(self) -> int:
        return len(self.seen)

    def __getitem__(self, key: int) -> torch.Tensor:
        cold_s = 0.0 if self.seen[key] else self.kind.cold_s
        self.seen[key] = 1
        time.sleep((self.kind.read_s + cold_s) / BATCH_SIZE)
        return torch.zeros(8)


class Loop:
    """One training: it warms up once, and its cache once."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.n, self.dataset = kind, 0, Slow(kind)

    def loader(self, **other: Any) -> DataLoader[Any]:
        options = {"num_workers": self.kind.workers, **self.kind.options, **other}
        return DataLoader(self.dataset, BATCH_SIZE, shuffle=True, **options)

    def step(self) -> None:
        kind = self.kind
        seconds = kind.slow_steps.get(self.n, kind.step_s)
        self.n += 1
        if kind.pause_each and self.n % kind.pause_each == 0:
            seconds += kind.pause_s
        time.sleep(seconds)

    def record(self) -> Any:
        loader, left = self.loader(), self.kind.record
        with record(loader) as recording:
            while left > 0:
                for _batch in loader:
                    self.step()
                    left -= 1
                    if not left:
                        break
        return recording.trace

    def epoch_s(self, loader: DataLoader[Any]) -> float:
        begun = time.perf_counter()
        for _batch in loader:
            self.step()
        return time.perf_counter() - begun

    def usual_epoch_s(self, **other: Any) -> float:
        """The second one of a loader, or the median of several short ones."""
        loader = self.loader(**other)
        n = max(2, round(3 * 40 / self.kind.n_batches) + 1)
        return statistics.median([self.epoch_s(loader) for _ in range(n)][1:])


@dataclass(frozen=True)
class Row:
    name: str
    right: str  # the first cause
    first: str  # as it was told; ?: too short to tell
    epoch: float
    saving: float
    verdict: str

    @property
    def is_right(self) -> bool:
        """To hand a batch over takes a millisecond, which a loader that keeps up waits, too."""
        healthy = self.right == NEVER and self.first == HANDOVER
        return healthy or self.first in ("?", self.right)

    def __str__(self) -> str:
        mark = "" if self.is_right else "  <- wrong"
        return (
            f"{self.name:24} {self.first:13} {self.right:13} {self.epoch:7.3f} "
            f"{self.saving:7.2f}  {self.verdict}{mark}"
        )


def examine(kind: Kind) -> Row:
    loop = Loop(kind)
    summary = loop.record().summary()
    pace, causes = summary.main_pace, summary.causes
    real_s = loop.usual_epoch_s()
    if not pace.is_enough or pace.epoch is None:
        return Row(kind.name, kind.first, "?", math.nan, math.nan, summary.verdict)
    first = causes.iloc[0]
    waits = pace.epoch_waited_share > 0.02
    name = first["cause"] if waits else NEVER
    name = START if name == "restart" else name
    saving = math.nan
    if name == kind.first != NEVER:
        cures = kind.cures or {"num_workers": _advised(first["cure"])}
        saving = float(first["epoch_saves_s"]) / (real_s - loop.usual_epoch_s(**cures))
    return Row(kind.name, kind.first, name, pace.epoch.seconds / real_s, saving, summary.verdict)


def _advised(cure: str) -> int:
    return next(int(word) for word in cure.replace("=", " ").split() if word.isdigit())


def print_result(rows: list[Row]) -> None:
    told = [row for row in rows if row.first != "?"]
    off = sorted(abs(row.epoch - 1) for row in told)
    savings = [row.saving for row in told if not math.isnan(row.saving)]
    n_right = sum(row.is_right for row in told)
    print(f"\nfirst cause right: {n_right} of {len(told)}; {len(rows) - len(told)} too short")
    if off:
        p90 = off[math.ceil(0.9 * len(off)) - 1]
        print(f"projected epoch off: median {statistics.median(off):.1%}, p90 {p90:.1%}")
    near = sum(abs(saving - 1) <= 0.2 for saving in savings)
    print(f"savings within 20 %: {near} of {len(savings)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--held-out", action="store_true", help="other sizes, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    chance = random.Random(chosen.seed)
    rows = []
    print(f"{'kind':24} {'first':13} {'is':13} {'epoch':>7} {'saving':>7}  verdict")
    scales: list[Callable[[], float]] = [lambda: 1.0, lambda: 2.0]
    if chosen.held_out:
        scales = [lambda: chance.uniform(0.7, 2.5)] * 2
    for scale in scales:
        for kind in kinds(scale()):
            if not chosen.kinds or kind.name in chosen.kinds:
                rows.append(examine(kind))
                print(rows[-1], flush=True)
    print_result(rows)


if __name__ == "__main__":
    main()
