"""A fit of PyTorch Lightning with a training and a validation loader."""

import logging
import warnings

import torch
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import pytorch_lightning as pl  # noqa: E402


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        return self.layer(batch[0]).sum()

    def validation_step(self, batch, _):
        self.layer(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


if __name__ == "__main__":
    data = TensorDataset(torch.zeros(12, 1))
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    train = DataLoader(data, batch_size=4, shuffle=True, num_workers=2)
    trainer.fit(Model(), train, DataLoader(data, batch_size=6))
    print("fitted", trainer.global_step)
