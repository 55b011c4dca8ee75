"""Is a recorded minute right in other people's trainers? `python benchmarks/clients.py`.

Needs accelerate, lightning and transformers, which the environment of `make strangers` has, and
timm with torchvision; `--only timm` runs one. Each trains a small model by its own loop,
unchanged, as a script that `loaderviz run` records for its first 60 batches: reading bound, bound
by the step, and in turns without workers; each with a first step that is slow. Then the same
script runs for two epochs of 300 batches, unrecorded; the second is compared with the projected
one. Last, where the loop waits, it runs with as many workers as `recommend` measures: what that
saves is compared with what cutting the first cause was said to. Printed is what `long_runs.py`
prints.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from long_runs import MAIN, NEVER, START, WORKERS, Row, print_result
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv

N_BATCHES, BATCH_SIZE, RECORDED = 300, 4, 60
WARM_UP_S = 1.5  # of the first step


class Slow(Dataset[Any]):
    """Samples that take their time, as a disk or a server does."""

    def __init__(self, read_s: float) -> None:
        self.sample_s = read_s / BATCH_SIZE

    def __len__(self) -> int:
        return N_BATCHES * BATCH_SIZE

    def __getitem__(self, key: int) -> dict[str, torch.Tensor]:
        time.sleep(self.sample_s)
        return {"x": torch.zeros(8), "labels": torch.zeros(1)}


class Pictures(Dataset[Any]):
    """The same as arrays, which timm makes tensors of; it sets ``transform``."""

    transform: Any = None

    def __init__(self, slow: Any) -> None:
        self.slow = slow

    def __len__(self) -> int:
        return len(self.slow)

    def __getitem__(self, key: int) -> tuple[Any, int]:
        self.slow[key]
        return np.zeros((3, 8, 8), np.uint8), 0


class Model(torch.nn.Module):
    """Its steps take ``step_s``, but for the first one, and note when they begin."""

    def __init__(self, step_s: float) -> None:
        super().__init__()
        self.layer, self.step_s = torch.nn.Linear(8, 1), step_s
        self.begun_s: list[float] = []

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.begun_s.append(time.perf_counter())
        time.sleep(self.step_s if len(self.begun_s) > 1 else WARM_UP_S)
        return {"loss": (self.layer(x) - labels).square().mean()}


def lightning(model: Model, loader: DataLoader[Any], most: int) -> None:
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any, _: int) -> Any:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "accelerator": "cpu"}
    Trainer(max_epochs=2, max_steps=most, **quiet).fit(Module(), loader)


def transformers(model: Model, loader: DataLoader[Any], most: int) -> None:
    from transformers import Trainer, TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model,
            TrainingArguments(
                folder,
                num_train_epochs=2,
                max_steps=most,
                per_device_train_batch_size=BATCH_SIZE,
                dataloader_num_workers=loader.num_workers,
                dataloader_pin_memory=False,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=loader.dataset,
        ).train()


def accelerate(model: Model, loader: DataLoader[Any], most: int) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    n = 0
    for _epoch in range(2):
        for batch in loader:
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
            n += 1
            if n == most:
                return


def timm(model: Model, loader: DataLoader[Any], most: int) -> None:
    for name in ("nms", "qnms"):  # torchvision that was built for CUDA, beside a torch without
        with contextlib.suppress(RuntimeError):
            torch.library.define(
                f"torchvision::{name}", "(Tensor boxes, Tensor s, float t) -> Tensor"
            )
    from timm.data import create_loader

    made = create_loader(
        Pictures(loader.dataset),
        input_size=(3, 8, 8),
        batch_size=BATCH_SIZE,
        is_training=True,
        num_workers=loader.num_workers,
        device=torch.device("cpu"),
    )
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    n = 0
    for _epoch in range(2):
        for pictures, _ in made:
            x = pictures.flatten(1)[:, :8]
            model(x, torch.zeros(len(x), 1))["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
            n += 1
            if n == most:
                return


CLIENTS: dict[str, Callable[[Model, DataLoader[Any], int], None]] = {
    each.__name__: each for each in (lightning, transformers, accelerate, timm)
}


@dataclass(frozen=True)
class Kind:
    name: str
    first: str
    read_s: float
    step_s: float
    workers: int = 2


KINDS = [
    Kind("read bound", WORKERS, 0.05, 0.012),
    Kind("step bound", NEVER, 0.012, 0.04),
    Kind("no workers", MAIN, 0.015, 0.03, workers=0),
]


def loader_of(kind: Kind, workers: int) -> DataLoader[Any]:
    return DataLoader(Slow(kind.read_s), BATCH_SIZE, shuffle=True, num_workers=workers)


def train(client: str, kind: Kind, workers: int, most: int) -> None:
    """What the script does; prints the seconds of the second epoch, where it comes to its end."""
    model = Model(kind.step_s)
    CLIENTS[client](model, loader_of(kind, workers), most)
    if len(model.begun_s) == 2 * N_BATCHES:  # from the last step of the first to that of the second
        print("epoch_s", model.begun_s[-1] - model.begun_s[N_BATCHES - 1])


def script(client: str, kind: Kind, workers: int, most: int, *before: str) -> float:
    """Run it; the seconds of its second epoch, NaN for a shorter one."""
    told = ["--train", client, kind.name, str(workers), str(most)]
    command = [sys.executable, *before, __file__, *told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("epoch_s")]
    return float(found[0]) if found else math.nan


def examine(client: str, kind: Kind) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        recorder = ("-m", "loaderviz", "run", "--out", folder)
        script(client, kind, kind.workers, RECORDED, *recorder)
        summary = lv.load(folder).summary()
        pace, causes = summary.main_pace, summary.causes  # read from the folder
    whole = 2 * N_BATCHES
    real_s = script(client, kind, kind.workers, whole)
    if not pace.is_enough or pace.epoch is None:
        return Row(f"{client}: {kind.name}", kind.first, "?", math.nan, math.nan, summary.verdict)
    first = causes.iloc[0]
    name = first["cause"] if pace.epoch_waited_share > 0.02 else NEVER
    name = START if name == "restart" else name
    saving = math.nan
    if name == kind.first != NEVER:
        found = lv.recommend(loader_of(kind, kind.workers), step_s=kind.step_s, max_workers=16)
        cured_s = script(client, kind, found.settings["num_workers"], whole)
        saving = float(first["epoch_saves_s"]) / (real_s - cured_s)
    epoch = pace.epoch.seconds / real_s
    return Row(f"{client}: {kind.name}", kind.first, name, epoch, saving, summary.verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", nargs=4, metavar=("CLIENT", "KIND", "WORKERS", "BATCHES"))
    parser.add_argument("--only", choices=CLIENTS)
    arguments = parser.parse_args()
    told = arguments.train
    if told:
        kind = next(each for each in KINDS if each.name == told[1])
        train(told[0], kind, int(told[2]), int(told[3]))
        return
    rows = []
    for client in [arguments.only] if arguments.only else CLIENTS:
        for kind in KINDS:
            rows.append(examine(client, kind))
            print(rows[-1], flush=True)
    print_result(rows)


if __name__ == "__main__":
    main()
