"""A training on a GPU, recorded: `python benchmarks/training.py`. Needs CUDA and a minute or two.

A vision transformer learns, in bfloat16, on JPEGs that the package makes. Batches are pinned and
copied with `non_blocking=True`; the loop asks for the loss at the end alone. Printed are

- *sweep*: images a second for each number of workers, the part of the time that the device had
  nothing to do between its first and its last step, and the first causes of the loop's waits;
- *recommend*: what it recommends and promises, beside the sweep;
- *cost*: epochs with and without a recording, in turns: the median of the ratios of neighbours
  with its standard error, and the same for neighbours that are both without, which is the noise;
  at first with pictures that cost nothing, so that the device always has work, and no noise of
  the loading is in it;
- *one axis*: torch.profiler beside the recording, in one file as `to_perfetto(profile=)` writes it.
  A marked kernel is the first and the last thing that each step queues: how far its start and its
  end, as the profiler saw them, are from those of the recorded step.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv
from loaderviz.course.datasets import jpeg_folder
from loaderviz.machine import cpu_allowance

SIDE, PATCH, CLASSES = 224, 16, 10
N_FILES = 300
WORKERS = (0, 1, 2, 4, 8, 12, 16)
MANY = 16
WARM_UP = 5  # steps that nothing counts of
MARK = "spin_kernel"  # what torch.cuda._sleep runs


class Pictures(Dataset[Any]):
    """Decoded at half the size, as JPEG allows, and resized; labels are the file's number."""

    def __init__(self, n: int) -> None:
        self.n, self.folder = n, jpeg_folder(N_FILES)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.folder / f"{index % N_FILES:05d}.jpg") as file:
            file.draft("RGB", (SIDE, SIDE))
            picture = file.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
        return pixels, index % CLASSES


class Blank(Pictures):
    """Pictures that cost nothing to make."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.zeros(3, SIDE, SIDE, dtype=torch.uint8), index % CLASSES


class VisionTransformer(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, PATCH, PATCH)
        self.places = nn.Parameter(torch.zeros(1, (SIDE // PATCH) ** 2, width))
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.places
        return self.head(self.layers(tokens).mean(1))


class Training:
    def __init__(self, width: int, depth: int) -> None:
        self.model = VisionTransformer(width, depth).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=True)

    def step(self, batch: Any) -> torch.Tensor:
        images, labels = (each.to("cuda", non_blocking=True) for each in batch)
        with torch.autocast("cuda", torch.bfloat16):
            scores = self.model(images.float().div_(127.5).sub_(1))
            loss = nn.functional.cross_entropy(scores, labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def step_s(self, batch: Any, times: int = 20) -> float:
        """Seconds that the device takes for a step, with the batch at hand."""
        for _ in range(WARM_UP):
            self.step(batch)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            self.step(batch)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / times

    def epoch(self, loader: DataLoader[Any]) -> tuple[float, int]:
        """Seconds from the first batch to the end of the last step, and the steps after the first.

        The start of workers is no step's cost.
        """
        started, n = 0.0, -1
        for batch in loader:
            loss = self.step(batch)
            n += 1
            if not started:
                loss.item()
                started = time.perf_counter()
        loss.item()
        return time.perf_counter() - started, n


def loader_of(
    n_batches: int, batch_size: int, workers: int, pictures: type[Pictures] = Pictures
) -> DataLoader[Any]:
    return DataLoader(
        pictures(n_batches * batch_size), batch_size, num_workers=workers, pin_memory=True
    )


def sweep(training: Training, batch_size: int, batches: Callable[[int], int]) -> dict[int, float]:
    """Images a second with each number of workers."""
    print("workers  images/s  device idle  the loop waits  first causes")
    found = {}
    for workers in WORKERS:
        loader = loader_of(batches(workers), batch_size, workers)
        with lv.record(loader) as rec:
            took_s, n_steps = training.epoch(loader)
        summary = rec.trace.summary()
        causes = summary.causes.sort_values("seconds", ascending=False).head(3)
        shown = ", ".join(f"{row.cause} {row.share:.0%}" for row in causes.itertuples())
        found[workers] = n_steps * batch_size / took_s
        print(
            f"{workers:7} {found[workers]:9.0f} {summary.device_idle_share:12.1%}"
            f" {summary.wait_share:15.1%}  {shown}\n         {summary.verdict}",
            flush=True,
        )
    return found


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def recommended(step_s: float, batch_size: int, swept: dict[int, float]) -> None:
    loader = loader_of(100_000, batch_size, 2)
    start = time.perf_counter()
    recommendation = lv.recommend(loader, step_s=step_s)
    took_s = time.perf_counter() - start
    best = max(swept.values())
    print(recommendation)
    row = recommendation.candidates.query("recommended").iloc[0]
    near = min(swept, key=lambda workers: abs(workers - row["num_workers"]))
    print(
        f"recommend took {took_s:.0f} s: {row['num_workers']} workers, measured"
        f" {row['samples_per_s']:.0f} images/s; in the sweep"
        f" {near} workers gave {swept[near]:.0f}, the best {best:.0f}",
        flush=True,
    )


def cost(training: Training, loader: DataLoader[Any], times: int) -> None:
    """What a recording adds to a step: of three epochs in turn, the middle one has none."""
    training.epoch(loader)
    with_and_without: tuple[list[float], list[float]] = [], []
    for turn in range(times):
        took = []
        for is_recorded in (turn % 2 == 0, False, turn % 2 == 1):
            with lv.record(loader) if is_recorded else nullcontext():
                seconds, n = training.epoch(loader)
            took.append(seconds / n)
        for ratios, other in zip(
            with_and_without, took[:: 2 if turn % 2 == 0 else -2], strict=True
        ):
            ratios.append(other / took[1] - 1)
    found = [
        f"{statistics.median(ratios):+.2%} ± {1.25 * statistics.stdev(ratios) / times**0.5:.2%}"
        for ratios in with_and_without
    ]
    print(
        f"{type(loader.dataset).__name__}, {loader.num_workers} workers, a step of"
        f" {1000 * took[1]:.1f} ms: with a recording {found[0]}, without {found[1]}",
        flush=True,
    )


def one_axis(training: Training, batch_size: int, workers: int, n_batches: int) -> None:
    """How far the marked kernels of the profile are from the recorded steps."""
    from torch.profiler import ProfilerActivity, profile

    loader = loader_of(n_batches, batch_size, workers)
    mark_cycles = 1_000_000  # half a millisecond
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as profiler, lv.record(loader) as rec:
        for batch in loader:
            torch.cuda._sleep(mark_cycles)
            training.step(batch)
            torch.cuda._sleep(mark_cycles)
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(str(Path(folder, "profile.json")))
        both = Path(folder, "both.json")
        rec.trace.to_perfetto(both, profile=Path(folder, "profile.json"))
        events = json.loads(both.read_text())["traceEvents"]
    events = sorted((e for e in events if e.get("ph") == "X"), key=lambda event: event["ts"])
    steps = [each for each in events if each["name"].startswith("device step")]
    marks = [each for each in events if MARK in each["name"] and each.get("cat") == "kernel"]
    if not len(steps) == len(marks) / 2 == n_batches:
        names = {each["name"] for each in events if "step" in each["name"]}
        print(f"{len(steps)} steps and {len(marks)} marks for {n_batches} batches; {names}")
        return
    start = np.array(
        [mark["ts"] - step["ts"] for step, mark in zip(steps, marks[::2], strict=True)]
    )
    end = np.array(
        [
            step["ts"] + step["dur"] - mark["ts"] - mark["dur"]
            for step, mark in zip(steps, marks[1::2], strict=True)
        ]
    )
    gap = np.array([0, *(b["ts"] - a["ts"] - a["dur"] for a, b in itertools.pairwise(steps))])
    for name, chosen in (("after a gap", gap > 20), ("without a gap", gap <= 20)):
        if chosen.any():
            print(
                f"{workers:7} workers, {chosen.sum()} steps {name}:"
                f" the marked kernel starts {spread(start[chosen])} us after the step,"
                f" and ends {spread(end[chosen])} us before its end",
                flush=True,
            )


def spread(us: Any) -> str:
    return f"{np.median(us):.1f} ({us.min():.1f} to {us.max():.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run of the sweep")
    parser.add_argument("--times", type=int, default=8, help="that the cost is measured")
    parser.add_argument("--parts", nargs="*", default=["axis", "cost", "sweep"])
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        print("benchmarks/training.py needs a GPU: torch finds none here.", file=sys.stderr)
        return 1
    print(torch.cuda.get_device_name(), f"torch {torch.__version__}, {cpu_allowance():g} CPUs")
    batch_size, training = chosen.batch_size, Training(chosen.width, chosen.depth)
    batch = [torch.stack([Pictures(1)[0][0]] * batch_size), torch.zeros(batch_size, dtype=int)]
    step_s = training.step_s([each.cuda() for each in batch])
    sample_s = timed(lambda: [Pictures(64)[i] for i in range(64)]) / 64
    print(f"a step of {batch_size}: {1000 * step_s:.1f} ms, a picture: {1000 * sample_s:.2f} ms")

    def batches(workers: int) -> int:
        """So many that an epoch takes about the given seconds."""
        each_s = max(sample_s * batch_size / max(workers, 1), step_s)
        return max(round(chosen.seconds / each_s), 6)

    if "axis" in chosen.parts:
        for workers in (1, MANY):
            one_axis(training, batch_size, workers, batches(workers))
    if "cost" in chosen.parts:
        light = loader_of(max(round(chosen.seconds / step_s), 6), batch_size, 4, Blank)
        cost(training, light, chosen.times)
        for workers, times in ((MANY, chosen.times), (2, chosen.times // 2)):
            cost(training, loader_of(batches(workers), batch_size, workers), times)
    if "sweep" in chosen.parts:
        swept = sweep(training, batch_size, batches)
        recommended(step_s, batch_size, swept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
