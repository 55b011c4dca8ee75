"""An exercise of notebook 03: three loaders that wait, each for a reason of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler, get_worker_info

from loaderviz._plot_timings import take
from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.exercises import Check, Hints, explains_errors, first_wrong
from loaderviz.figures import causes, timeline
from loaderviz.recorder import Recording
from loaderviz.text import duration
from loaderviz.why.attribution import CAUSES

ANSWERS = {"A": "collate", "B": "uneven", "C": "sampler"}
STEP_S, BATCH_SIZE, N_SAMPLES, SAMPLE_S = 0.01, 8, 96, 0.002

hint = Hints(
    "A: the worker is busy all the time. With what, coloured boxes or grey ones?",
    "B: look at the second half. Who still reads?",
    "C: nobody is busy, and yet the loop waits. Before a batch can be read, somebody has to say "
    "which samples are in it.",
)


def slow_loaders() -> dict[str, DataLoader[Any]]:
    """Three loaders by their names; each is slowed down by one cause."""
    return _loaders(sick=True)


@explains_errors
def name_causes(**answers: str) -> Check:
    """Whether these are the causes that the loaders wait for: ``name_causes(A=..., B=..., C=...)``.

    Records the first loader whose cause is not the one given; or else all three, and runs each
    without its cause.
    """
    name = first_wrong(answers, ANSWERS, CAUSES)
    if name is None:
        return _without_their_causes()
    with Recording([loader := slow_loaders()[name]]) as recording:
        take(loader, STEP_S)
    figure = timeline(recording.trace, title=f"What does the loop wait for? Loader {name}")
    return Check(
        False, f"Not yet: it is not {answers[name]!r} that loader {name} waits for.", figure
    )


def _without_their_causes() -> Check:
    """What came of cutting each cause, and the causes of all three loaders in one figure."""
    loaders, took_s = slow_loaders(), {}
    with Recording(list(loaders.values())) as recording:
        for name, loader in loaders.items():
            took_s[name] = _run(loader)
    gains = [
        f"{name} takes {duration(_run(cured))} instead of {duration(took_s[name])}"
        for name, cured in _loaders(sick=False).items()
    ]
    return Check(True, f"Without its cause, {', '.join(gains)}.", causes(recording.trace))


def _run(loader: DataLoader[Any]) -> float:
    """Seconds that the loop takes."""
    begin = time.perf_counter()
    take(loader, STEP_S)
    return time.perf_counter() - begin


def _loaders(*, sick: bool) -> dict[str, DataLoader[Any]]:
    dataset = SleepingDataset(N_SAMPLES, SAMPLE_S)
    shares = [80, 8, 8] if sick else [32, 32, 32]
    keys: Any = SlowSampler(N_SAMPLES) if sick else range(N_SAMPLES)
    return {
        "A": DataLoader(dataset, BATCH_SIZE, num_workers=1, collate_fn=pad if sick else None),
        "B": DataLoader(Shares(shares), BATCH_SIZE, num_workers=3),
        "C": DataLoader(dataset, BATCH_SIZE, sampler=keys, num_workers=2),
    }


def pad(samples: list[int]) -> torch.Tensor:
    """A ``collate_fn`` that takes 50 ms a batch."""
    time.sleep(0.05)
    return torch.tensor(samples)


class Shares(IterableDataset[int]):
    """Each worker yields as many samples as its share, and waits 10 ms for each."""

    def __init__(self, shares: list[int]) -> None:
        self.shares = shares

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        for sample in range(self.shares[worker.id] if worker else sum(self.shares)):
            time.sleep(0.01)
            yield sample


class SlowSampler(Sampler[int]):
    """All indices in order, each after 6 ms."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        for index in range(self.n):
            time.sleep(0.006)
            yield index
