"""A fit of Lightning: `fit_on_ranks.py PACKAGE FOLDER RANKS [plain]`; rank 0 prints the weights.

With a callback of ours unless "plain", a CSV logger and TensorBoard's.
"""

import importlib
import json
import logging
import sys
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

package, folder, ranks = sys.argv[1:4]
pl = importlib.import_module(package)


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout())

    def training_step(self, batch: Any, number: int) -> Any:
        return self.layers(batch[0]).square().mean()

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("validation", self.layers(batch[0]).mean(), sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


if __name__ == "__main__":
    from loaderviz.lightning import Callback

    pl.seed_everything(1)
    data = TensorDataset(torch.rand(24, 4))
    csv, board = pl.loggers.CSVLogger, pl.loggers.TensorBoardLogger
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=int(ranks),
        strategy="ddp" if ranks != "1" else "auto",
        callbacks=[] if "plain" in sys.argv else [Callback(n_steps=4)],
        logger=[csv(folder, "", ""), board(folder, "", "")],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Model()
    train = DataLoader(data, batch_size=4, shuffle=True, num_workers=1)
    trainer.fit(model, train, DataLoader(data, batch_size=4))
    if trainer.is_global_zero:
        print(json.dumps([parameter.tolist() for parameter in model.parameters()]))
