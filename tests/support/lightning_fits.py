"""Fits with Lightning. Imported only where one runs: it takes memory, which slows each fork."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from loaderviz.lightning import Callback

__all__ = ["Callback", "Model", "Streamed", "fit", "loader", "pl"]


class Drawn(Dataset):
    """Each sample with a draw of the process that reads it."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, key: int) -> torch.Tensor:
        time.sleep(0.001)
        return key + torch.rand(4)


class Streamed(IterableDataset):
    """Has no length."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.rand(24, 4))


class Model(pl.LightningModule):
    def __init__(self, failing_at: int = -1) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout())
        self.failing_at, self.losses = failing_at, []

    def training_step(self, batch: Any, number: int) -> Any:
        if self.global_step == self.failing_at:
            raise KeyError("a step of the user's")
        loss = self.layers(batch).square().mean()
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("validation", self.layers(batch).mean() + torch.rand(()))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters())


def loader(**options: Any) -> DataLoader:
    return DataLoader(Drawn(), batch_size=4, **options)


def fit(
    folder: Path,
    *callbacks: Any,
    train: Any = None,
    val: Any = None,
    model: Model | None = None,
    resume: Path | None = None,
    **options: Any,
) -> tuple[Model, Any]:
    """Fit for one epoch of six steps, or as the options say; returns the model and the trainer."""
    pl.seed_everything(3, verbose=False)
    model = model or Model()
    trainer = pl.Trainer(
        **{
            "max_epochs": 1,
            "accelerator": "cpu",
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
            "logger": pl.loggers.CSVLogger(folder, "", ""),
            "callbacks": list(callbacks),
            **options,
        }
    )
    train = loader(shuffle=True) if train is None else train
    trainer.fit(model, train, val, ckpt_path=resume)
    return model, trainer
