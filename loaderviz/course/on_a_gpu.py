"""Four ways to bring batches to a GPU, and their recordings.

Nothing here needs CUDA until it is called. ``notebooks/recordings/record.py`` made the recordings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz.course.simulated_device import WAYS
from loaderviz.course.train_script import CuredPhotos
from loaderviz.course.train_script import folder as photos_folder
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines.timeline import drawn
from loaderviz.recorder import record, span
from loaderviz.text import duration
from loaderviz.trace import Trace, load

WARM_UP = 3  # steps and batches; the first use of a device loads libraries and allocates memory


def to_device(loader: Iterable[Any], device: str = "cuda", **options: Any) -> Iterator[Any]:
    """Yields each batch on the device; copies and steps are in one queue.

    ``options`` go to ``batch.to``, as ``non_blocking=True``.
    """
    for batch in loader:
        with span("copy"):
            copied = batch.to(device, **options)
        yield copied


def copied_ahead(loader: Iterable[Any], device: str = "cuda") -> Iterator[Any]:
    """Yields each batch on the device, while the next one is copied in a second queue."""
    side, ahead = torch.cuda.Stream(), None
    for batch in loader:
        main = torch.cuda.current_stream()
        main.wait_stream(side)  # what main queues from here on waits for the last copy
        with torch.cuda.stream(side), span("copy"):
            copied = batch.to(device, non_blocking=True)
        copied.record_stream(main)  # its memory stays in use until main is done with it
        if ahead is not None:
            yield ahead
        ahead = copied
    if ahead is not None:
        torch.cuda.current_stream().wait_stream(side)
        yield ahead


class Blocks(Dataset[torch.Tensor]):
    """Map-style: sample i of n is a float32 tensor of shape (n_values,) filled with i."""

    def __init__(self, n: int, n_values: int) -> None:
        self.n, self.n_values = n, n_values

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((self.n_values,), float(index))


class Steps:
    """A stand-in for a model: matrix products that keep the device busy for ``step_s`` seconds.

    size: the side of the square matrix; ``times`` is how many products make a step.
    """

    def __init__(self, step_s: float, *, size: int = 2048, device: str = "cuda") -> None:
        self.weight = torch.randn(size, size, device=device) / size**0.5
        self.times = WARM_UP
        self(torch.ones(2, device=device))  # loads each kernel: the device has to be idle for that
        self.times = max(1, round(step_s / (on_device_s(lambda: self._multiply(20)) / 20)))

    def __call__(self, batch: torch.Tensor) -> Any:
        """Queue a step on the device; returns a tensor with a single number, as a loss is."""
        return batch.mean() + self._multiply(self.times)

    def _multiply(self, times: int) -> Any:
        product = self.weight
        for _ in range(times):
            product = self.weight @ product
        return product.mean()


def on_device_s(work: Callable[[], Any]) -> float:
    """Seconds that the device takes for what ``work`` queues, by its own clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def copy_gb_s() -> dict[str, float]:
    """GB (1e9 bytes) a second of a copy of 64 MB to the device, the best of five copies.

    One speed for each kind of memory: "pageable" and "pinned".
    """
    pageable = torch.ones(16_000_000)  # float32
    return {
        name: 0.064 / min(on_device_s(functools.partial(source.to, "cuda")) for _ in range(5))
        for name, source in (("pageable", pageable), ("pinned", pageable.pin_memory()))
    }


def batches_of(way: str, loader: Iterable[Any], device: str = "cuda") -> Iterator[Any]:
    """Yields the loader's batches on the device, brought there in one of the four ``WAYS``."""
    if way == "copied ahead":
        return copied_ahead(loader, device)
    return to_device(loader, device, non_blocking=way == "pinned, non_blocking")


def record_way(
    way: str,
    *,
    batch_mb: float = 16,
    step_s: float = 0.02,
    n_batches: int = 24,
    num_workers: int = 2,
    device: str = "cuda",
) -> Trace:
    """Record a loop that feeds the GPU in one of the four ``WAYS``, after a warm-up.

    A batch of eight samples has ``batch_mb`` MB, and a step takes ``step_s`` seconds on the device.
    """
    n_values = round(batch_mb * 250_000 / 8)  # of a sample: float32, eight samples a batch
    loader = DataLoader(
        Blocks(8 * n_batches, n_values),
        batch_size=8,
        num_workers=num_workers,
        pin_memory=way != "pageable",
    )
    step = Steps(step_s, device=device)
    warm_up = DataLoader(Blocks(8 * WARM_UP, n_values), batch_size=8)
    for batch in batches_of(way, warm_up, device):
        step(batch)
    torch.cuda.synchronize()
    with record(loader, label=torch.cuda.get_device_name()) as rec:
        for batch in batches_of(way, loader, device):
            with span("step"):
                step(batch)
    return rec.trace


def short_training(**settings: Any) -> Trace:
    """Record an epoch of a small model on 120 pictures: on the GPU, or else on the CPU.

    ``settings`` are those of the loader. A store sends a picture after 10 ms; a batch has four.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = torch.nn.Linear(32 * 32 * 3, 512), torch.nn.ReLU(), torch.nn.Linear(512, 2)
    model = torch.nn.Sequential(*layers).to(device)
    weights = [*model.parameters()]
    photos = CuredPhotos(photos_folder(), request_s=0.01)
    loader = DataLoader(photos, batch_size=4, shuffle=True, **settings)
    with record(loader) as rec:
        for batch in loader:
            pictures, is_night = (each.to(device, non_blocking=True) for each in batch)
            loss = torch.nn.functional.cross_entropy(model(pictures.flatten(1)), is_night)
            for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight.data -= 1e-4 * slope
    return rec.trace


def recordings(folder: str | Path) -> dict[str, Trace]:
    """The recording of each of the four ``WAYS`` that ``record.py`` has left in ``folder``."""
    return {way: load(Path(folder, f"{file_name(way)}.parquet")) for way in WAYS}


def plain_timeline(trace: Trace) -> Figure:
    """Its timeline, without the band of phases and without what the loop names in a step."""
    plain = replace(trace, spans=trace.spans.iloc[:0])
    summary = trace.summary()
    figure = drawn(plain, summary, with_phases=False).figure()
    busy, idle = map(duration, (summary.device_busy_s, summary.device_idle_s))
    figure.layout.title.subtitle.text = (
        f"measured · {len(trace.batches)} batches · device: {busy} busy + {idle} idle"
    )
    return figure


def file_name(way: str) -> str:
    """The name of the recording's file for one of the ``WAYS``, without its suffix."""
    return way.replace(", ", "_").replace(" ", "_")
