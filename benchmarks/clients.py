"""Is a recording right in other people's libraries? `make clients`, which runs this file.

Each client trains for two epochs as the library's own documentation has it, on data made here, and
knows nothing of loaderviz. Of each are compared

- *same*: the losses and batches of the script recorded by `loaderviz run`, and of the same one not
  recorded, to the last digit;
- *loaders*: how many lines `loaderviz summary` has of loaders, and how many loaders there are;
- *waits*: the part of the time in which the loop is said to wait, and that between two steps of the
  script by its own clock, which no recorder touches; in a trainer it has more to do in between;
- *first*: the first cause, and the one that the client has by its making;
- *reached*: samples/s past the first fifth of the steps, with the settings as they are, as advised,
  and with others, in parts of the first.

A client whose library is missing is named and left out.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv

BATCH, N_BATCHES, EPOCHS = 4, 60, 2
N_SAMPLES = BATCH * N_BATCHES
SLOW_S, QUICK_S = 0.04, 0.01  # to read a batch, and to take a step; or the other way round
NEVER, WORKERS, MAIN = "never waits", "workers", "main_process"


class Steps:
    """The steps of a script: they take their time, and note when they were and what they got."""

    def __init__(self, step_s: float, *, kept: bool) -> None:
        self.step_s, self.seen = step_s, hashlib.sha256()
        self.kept = kept  # whether loaders are to keep their workers
        self.times: list[tuple[float, float, bool]] = []
        self.aside = False  # since the last step, by an evaluation

    def note(self, *values: Any) -> None:
        self.aside = True
        for value in values:
            self.seen.update(torch.as_tensor(value).detach().double().numpy().tobytes())

    def take(self, *values: Any) -> None:
        """A training step of these inputs or losses; it stands in for a GPU's."""
        begun_s, aside = time.perf_counter(), self.aside
        self.note(*values)
        time.sleep(self.step_s)
        self.times.append((begun_s, time.perf_counter(), aside))
        self.aside = False

    def result(self) -> dict[str, Any]:
        times = self.times[len(self.times) // 5 :]
        passed_s = times[-1][1] - times[0][1]
        gaps = [a[0] - b[1] for b, a in itertools.pairwise(times) if not a[2]]
        waited = sum(gaps) / (sum(gaps) + sum(end - begun for begun, end, _ in times))
        shares = {"waited": waited, "rate": BATCH * (len(times) - 1) / passed_s}
        return {**shares, "seen": self.seen.hexdigest(), "steps": len(self.times)}


class Model(torch.nn.Module):
    """A layer, and a step that takes its time while it trains; as transformers calls models."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.layer, self.steps = torch.nn.Linear(8, 1), steps

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        got = self.layer(x)
        loss = (got - labels).square().mean()
        (self.steps.take if self.training else self.steps.note)(loss)
        return {"loss": loss, "logits": got}

    def fit(self, batches: Iterable[Any]) -> None:
        """One epoch of a loop that is the script's own."""
        optimizer = torch.optim.SGD(self.parameters(), 1e-3)
        for x, labels in batches:
            optimizer.zero_grad()
            self(x.flatten(1)[:, :8].float(), labels.reshape(-1, 1).float())["loss"].backward()
            optimizer.step()


class Slow(Dataset[Any]):
    """Samples that take their time, as a disk does, and draw random numbers, as augmentation."""

    transform: Any = None  # timm sets it

    def __init__(self, read_s: float, n: int = N_SAMPLES) -> None:
        self.read_s, self.n = read_s / BATCH, n

    def __len__(self) -> int:
        return self.n

    def take_time(self, sample: Any, n: int = 1) -> Any:
        time.sleep(n * self.read_s)
        return sample

    def read(self, key: int) -> torch.Tensor:
        return self.take_time(torch.rand(8) + key / self.n)

    def __getitem__(self, key: int) -> Any:
        return self.read(key), torch.tensor(float(key % 3))


class Named(Slow):
    def __getitem__(self, key: int) -> dict[str, torch.Tensor]:
        return {"x": self.read(key), "labels": torch.tensor([float(key % 3)])}


class Pictures(Slow):
    def __getitem__(self, key: int) -> tuple[Any, int]:
        return (self.read(key).numpy()[None, :, None] * np.full((3, 1, 8), 100)).astype("uint8"), 1


def allow_torchvision() -> None:
    """One that is built for CUDA lacks operators beside a torch for CPUs; here nobody uses them."""
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            schema = f"torchvision::{name}(Tensor boxes, Tensor s, float t) -> Tensor"
            torch.library.define(*schema.replace("(", " (", 1).split(" ", 1))


# The clients: each trains with a number of workers; reading bound or step bound, as its case says.


def monai_threads(steps: Steps, read_s: float, workers: int) -> None:
    from monai.data import CacheDataset, ThreadDataLoader
    from monai.transforms import Compose, Lambdad, RandGaussianNoised

    slow = Slow(read_s)
    whole = [{"x": torch.full((1, 8), float(i)), "label": i % 3} for i in range(N_SAMPLES)]
    noise = RandGaussianNoised("x", prob=1.0)  # the first random one: only what is before is cached
    change = Compose([Lambdad("x", torch.sqrt), noise, Lambdad("x", slow.take_time)])
    dataset = CacheDataset(whole, change, num_workers=0, progress=False)
    loader = ThreadDataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=workers)
    model = Model(steps)
    for _ in range(EPOCHS):
        model.fit((batch["x"], batch["label"]) for batch in loader)


def torch_geometric(steps: Steps, read_s: float, workers: int) -> None:
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    n = 4000
    edges = torch.randint(n, (2, 40 * n))
    graph = Data(torch.rand(n, 8), edges, y=torch.arange(n) % 3)
    slow = Slow(read_s)

    loader = NeighborLoader(
        graph,
        num_neighbors=[10, 10],
        batch_size=BATCH,
        input_nodes=torch.arange(N_SAMPLES),
        shuffle=True,
        num_workers=workers,
        transform=partial(slow.take_time, n=BATCH),
    )
    model = Model(steps)
    for _ in range(EPOCHS):
        model.fit((batch.x[: batch.batch_size], batch.y[: batch.batch_size]) for batch in loader)


def of_trainer(steps: Steps, workers: int) -> dict[str, Any]:
    """The arguments of a trainer of transformers, or of a library that extends it."""
    return {
        "output_dir": tempfile.mkdtemp(),
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH,
        "dataloader_num_workers": workers,
        "dataloader_persistent_workers": steps.kept,
        "dataloader_pin_memory": False,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
    }


def transformers(steps: Steps, read_s: float, workers: int) -> None:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        per_device_eval_batch_size=BATCH,
        eval_strategy="steps",
        eval_steps=20,
        **of_trainer(steps, workers),
    )
    held_out = Named(read_s, 5 * BATCH)
    Trainer(Model(steps), arguments, train_dataset=Named(read_s), eval_dataset=held_out).train()


def timm(steps: Steps, read_s: float, workers: int, **options: Any) -> None:
    from timm.data import create_loader

    loader = create_loader(
        Pictures(read_s),
        input_size=(3, 8, 8),
        batch_size=BATCH,
        is_training=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        device=torch.device("cpu"),
        **options,
    )
    model = Model(steps)
    for _ in range(EPOCHS):
        model.fit(loader)


def timm_multi_epochs(steps: Steps, read_s: float, workers: int) -> None:
    timm(steps, read_s, workers, use_multi_epochs_loader=True)


def ultralytics(steps: Steps, read_s: float, workers: int) -> None:
    from ultralytics.data.build import InfiniteDataLoader

    loader = InfiniteDataLoader(Slow(read_s), batch_size=BATCH, shuffle=True, num_workers=workers)
    model = Model(steps)
    for _ in range(EPOCHS):
        model.fit(loader)


def torchvision(steps: Steps, read_s: float, workers: int) -> None:
    from torchvision.datasets import FakeData
    from torchvision.transforms import v2

    slow = Slow(read_s)
    change = [v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.PILToTensor()]
    change.append(v2.Lambda(slow.take_time))
    dataset = FakeData(N_SAMPLES, (3, 48, 48), 3, v2.Compose(change))
    train = DataLoader(dataset, BATCH, shuffle=True, num_workers=workers)
    held_out = FakeData(5 * BATCH, (3, 48, 48), 3, v2.Compose(change), random_offset=1)
    test = DataLoader(held_out, BATCH, num_workers=workers)
    model = Model(steps)
    for _ in range(EPOCHS):
        model.train().fit(train)
        model.eval()
        for x, labels in test:
            model(x.flatten(1)[:, :8].float(), labels.reshape(-1, 1))


def sentence_transformers(steps: Steps, read_s: float, workers: int) -> None:
    import sentence_transformers as st
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    from datasets import Dataset as Table

    words = {word: i for i, word in enumerate(["[UNK]", "[PAD]", *map(str, range(N_SAMPLES))])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    embedding = StaticEmbedding(tokenizer, embedding_dim=8)
    model = st.SentenceTransformer(modules=[embedding], device="cpu")
    slow = Slow(read_s)

    def reading(rows: Any) -> Any:  # all of a batch at once
        return slow.take_time(rows, len(rows["anchor"]))

    texts = [str(i) for i in range(N_SAMPLES)]
    pairs = Table.from_dict({"anchor": texts, "positive": texts[::-1]}).with_transform(reading)
    loss = MultipleNegativesRankingLoss(model)
    loss.register_forward_hook(lambda *each: steps.take(each[2]))
    arguments = st.SentenceTransformerTrainingArguments(
        **of_trainer(steps, workers),
    )
    st.SentenceTransformerTrainer(model, arguments, train_dataset=pairs, loss=loss).train()


def lightning(steps: Steps, read_s: float, workers: int) -> None:
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model(steps)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.model(**batch)["loss"]

        def validation_step(self, batch: Any, _: int) -> None:
            self.model(**batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(
        max_epochs=EPOCHS,
        val_check_interval=20,
        enable_model_summary=False,
        accelerator="cpu",
        **quiet,
    )
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": steps.kept}
    train = DataLoader(Named(read_s), BATCH, shuffle=True, **options)
    trainer.fit(Module(), train, DataLoader(Named(read_s, 5 * BATCH), BATCH, **options))


def accelerate(steps: Steps, read_s: float, workers: int) -> None:
    from accelerate import Accelerator

    accelerator, model = Accelerator(cpu=True), Model(steps)
    loader = DataLoader(Named(read_s), BATCH, shuffle=True, num_workers=workers)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()


def datasets(steps: Steps, read_s: float, workers: int) -> None:
    from datasets import Dataset as Table

    slow = Slow(read_s)

    rows = {"x": np.random.default_rng(0).random((N_SAMPLES, 8)), "y": np.arange(N_SAMPLES) % 3}
    stream = Table.from_dict({name: list(each) for name, each in rows.items()})
    stream = stream.to_iterable_dataset(num_shards=4).map(slow.take_time).shuffle(0, buffer_size=20)
    loader = DataLoader(stream.with_format("torch"), BATCH, num_workers=workers)
    model = Model(steps)
    for epoch in range(EPOCHS):
        stream.set_epoch(epoch)
        model.fit((batch["x"], batch["y"]) for batch in loader)


def skorch(steps: Steps, read_s: float, workers: int) -> None:
    from skorch import NeuralNetRegressor

    class Module(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            got: torch.Tensor = self.layer(x)
            (steps.take if self.training else steps.note)(got)
            return got

    class Pairs(Slow):
        def __getitem__(self, key: int) -> Any:
            return self.read(key), torch.tensor([float(key % 3)])

    net = NeuralNetRegressor(
        Module,
        module__steps=steps,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        iterator_train__shuffle=True,
        iterator_train__num_workers=workers,
        iterator_valid__num_workers=workers,
        iterator_train__persistent_workers=steps.kept,
        iterator_valid__persistent_workers=steps.kept,
        verbose=0,
    )
    net.fit(Pairs(read_s), y=None)


def fastai(steps: Steps, read_s: float, workers: int) -> None:
    import fastai.callback.progress  # noqa: F401, for no_bar()
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner

    class Module(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return self.layer(x)  # type: ignore[no-any-return]

    def loss(got: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found = (got - y[:, None]).square().mean()
        (steps.take if got.requires_grad else steps.note)(found)
        return found

    held_out = Slow(read_s, 5 * BATCH)
    both = DataLoaders.from_dsets(
        Slow(read_s), held_out, bs=BATCH, num_workers=workers, device="cpu"
    )
    learner = Learner(both, Module(steps), loss_func=loss)
    with learner.no_bar(), learner.no_logging():
        learner.fit(EPOCHS, 1e-3)


@dataclass(frozen=True)
class Client:
    run: Callable[[Steps, float, int], None]
    loaders: int = 1
    workers: int = 2
    first: str = WORKERS
    read_s: float = SLOW_S
    step_s: float = QUICK_S
    package: str = ""

    @property
    def name(self) -> str:
        bound = "step bound" if self.step_s > self.read_s else f"{self.workers} workers"
        return f"{self.run.__name__}, {bound}"


def step_bound(run: Callable[[Steps, float, int], None], workers: int = 0) -> Client:
    return Client(run, 1, workers, NEVER, 0.02, 0.03)


CLIENTS = [
    step_bound(monai_threads),
    Client(monai_threads, workers=0, first=MAIN, package="monai"),
    Client(torch_geometric, package="torch-geometric"),
    Client(transformers, 2),
    step_bound(transformers, 2),
    Client(timm),
    Client(timm_multi_epochs, package="timm"),
    Client(ultralytics),
    Client(torchvision, 2),
    Client(sentence_transformers, package="sentence-transformers"),
    Client(lightning, 2),
    Client(accelerate, workers=0, first=MAIN),
    Client(datasets),
    Client(skorch, 2, package="skorch"),
    Client(fastai, 2),
]


def script(client: Client, workers: int, *before: str, kept: bool = False) -> dict[str, Any]:
    """Run it as a script of its own, after these words of the command line; what it found."""
    told = ["--train", str(CLIENTS.index(client)), str(workers), str(int(kept))]
    command = [sys.executable, *before, __file__, *told]
    quiet = {
        **os.environ,
        "TOKENIZERS_PARALLELISM": "false",
        "YOLO_CONFIG_DIR": tempfile.gettempdir(),
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def train(client: Client, workers: int, *, kept: bool) -> None:
    torch.manual_seed(0)
    allow_torchvision()
    steps = Steps(client.step_s, kept=kept)
    client.run(steps, client.read_s, workers)
    print(json.dumps(steps.result()))


def examine(client: Client, kept: Path) -> None:
    folder = kept / client.name.replace(", ", "-").replace(" ", "-")
    plain = script(client, client.workers)
    recorded = script(client, client.workers, "-m", "loaderviz", "run", "--out", str(folder))
    summary = lv.load(folder).summary()
    pace, causes = summary.main_pace, summary.causes
    waits = pace.waited_share if pace is not None else float("nan")
    first = causes.iloc[0] if len(causes) else {"cause": "none", "cure": ""}
    numbers = re.search(r"num_workers=(\d+)|some (\d+) gain", first["cure"])
    advised = int(numbers[1] or numbers[2]) if numbers else client.workers
    tried = sorted({client.workers, advised, 0, 2 * advised or 2})
    reached = {str(n): script(client, n)["rate"] / plain["rate"] for n in tried}
    if "persistent_workers=True" in first["cure"]:
        kept = script(client, advised, kept=True)
        reached[f"{advised} kept"] = kept["rate"] / plain["rate"]
    print(f"\n{client.name}")
    print(f"  same: {plain['seen'] == recorded['seen']} ({plain['steps']} steps)")
    print(f"  loaders: {len(summary.asked)} of {client.loaders}")
    print(*(f"    {share}" for share in summary.loaders), sep="\n")
    by_clock = f"{recorded['waited']:.2f} recorded, {plain['waited']:.2f} plain"
    print(f"  waits: {waits:.2f} said; by its own clock {by_clock}")
    print(f"  first: {first['cause']}; is {client.first}\n  {summary}")
    print(f"  advised: {advised}; {first['cure']}\n  reached:", end="")
    print(*(f" {n}: {rate:.2f}" for n, rate in reached.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("clients", nargs="*", help="a part of their names, such as monai")
    parser.add_argument("--train", nargs=3, metavar=("NUMBER", "WORKERS", "KEPT"))
    parser.add_argument("--keep", type=Path, help="a folder for the recordings, to look at")
    arguments = parser.parse_args()
    if arguments.train:
        number, workers, kept = map(int, arguments.train)
        train(CLIENTS[number], workers, kept=bool(kept))
        return
    with tempfile.TemporaryDirectory() as folder:
        for client in CLIENTS:
            if not arguments.clients or any(each in client.name for each in arguments.clients):
                try:
                    examine(client, arguments.keep or Path(folder))
                except (RuntimeError, lv.LoaderVizError) as error:
                    print(f"\n{client.name}: {error}", flush=True)


if __name__ == "__main__":
    main()
