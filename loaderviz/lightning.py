"""``Callback`` for Lightning's ``Trainer``, of ``lightning`` and of ``pytorch_lightning`` alike.

>>> from loaderviz.lightning import Callback
>>> trainer = Trainer(callbacks=[Callback()])
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loaderviz._recorded_steps import RecordedSteps, guarded, trainers_library

if TYPE_CHECKING:
    import pytorch_lightning as pl
else:
    pl = trainers_library("lightning.pytorch", "pytorch_lightning", install="pip install lightning")


class Callback(pl.Callback):
    """Record the first steps of a fit, write a report of them, and log what the model waits for.

    >>> trainer = Trainer(callbacks=[Callback(n_steps=200)])

    Recorded are the first ``n_steps`` batches of the first epoch, and of the first validation after
    them; with ``every_n_epochs`` also those of each n-th epoch after that one. The training gets
    the same batches and draws as without, and costs what ``record`` costs; where a recording ends,
    writing its files takes a second or two, once.

    Workers that stay (``persistent_workers=True``) are seen from inside in the first epoch alone,
    and those of a validation not at all where the sanity check has started them.

    Each rank keeps its recording in ``trainer.log_dir``, or where that is not set in
    ``trainer.default_root_dir`` (in place of a remote one, in the current folder):
    ``loaderviz/train-step-200/rank-00000.parquet`` for what had been recorded by step 200,
    ``val-step-...`` for the validation. ``loaderviz.load`` opens the file, and the folder with
    those of all ranks. Rank 0 adds its ``report.html``.

    Rank 0 also logs, to every logger of the trainer and at its ``global_step``, of the recorded
    time (shares are 0 to 1):

    - ``loaderviz/train/wait_share``: the part that the model waits, the start of workers included;
    - ``loaderviz/train/later_wait_share``: the same past the first batch, as in a long epoch;
    - ``loaderviz/train/first_cause/workers``: the part that goes to the first cause of waiting,
      whose name is in that of the metric (``Summary.causes`` says what they are);
    - ``loaderviz/train/findings``: how many findings the report has.

    Those of the validation begin with ``loaderviz/val/``.

    With ``last_s`` it stays on for the whole training instead, as ``record(last_s=...)`` does: the
    last seconds in full and a row a minute of all, in ``loaderviz/run``, with its incidents, and at
    the end the report ``run.html``. Once a minute is over rank 0 logs of it, under
    ``loaderviz/train/``:
    ``wait_share``, ``supply_per_s`` and ``demand_per_s`` in samples, ``ready_p95_s`` (of the waits)
    and how many ``incidents`` there were so far.

    Args:
        n_steps: how many batches of a rank to record, 1 or more.
        every_n_epochs: 1 records the start of each epoch, 2 of every other; None of the first.
        last_s: how many seconds to keep of a whole training, 10 or more; None: record steps.

    Raises:
        LoaderVizError: for numbers that are none. Later, in the training, what fails in the
            callback itself is a warning.
    """

    def __init__(
        self,
        n_steps: int = 200,
        every_n_epochs: int | None = None,
        last_s: float | None = None,
    ) -> None:
        super().__init__()
        self.recorded = RecordedSteps(n_steps, every_n_epochs, last_s)
        self._folder = Path("loaderviz")
        self._epoch = 0  # of this fit
        self._validation_is_due = False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Learn the folder, which all ranks have to ask for together."""
        folder = str(trainer.log_dir or trainer.default_root_dir)
        self._folder = Path("" if "://" in folder else folder, "loaderviz")

    @guarded
    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin with the first epoch, whose iterator is made before the epoch is announced."""
        self._epoch = 0
        self.recorded.prepare()
        self.recorded.leave_on(self._folder)
        self._begin()

    @guarded
    def on_sanity_check_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Leave out the sanity check."""
        self.recorded.drop()

    @guarded
    def on_sanity_check_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin anew."""
        self._begin()

    @guarded
    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin with a later epoch."""
        if self._epoch > 0 and self.recorded.is_due(self._epoch):
            self._begin(_flattened(trainer.train_dataloader))

    @guarded
    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Stop waiting for a validation that has not come."""
        if self.recorded.stage == "val":
            self.recorded.drop()

    @guarded
    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Count the step; end before a validation, whose iterator comes before its hooks."""
        self._log(trainer, "train", self.recorded.metrics_of_run())
        last, validation_is_next = (
            self.recorded.count("train"),
            _is_validated_next(trainer, batch_idx),
        )
        if last or (validation_is_next and self.recorded.stage == "train"):
            self._finish(trainer)
        if self._validation_is_due and validation_is_next:
            self.recorded.begin("val", _flattened(trainer.val_dataloaders))

    @guarded
    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """End before a validation that the settings did not tell, as of a fit that is stopped."""
        if self.recorded.stage == "train":
            self._finish(trainer)

    @guarded
    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count the step."""
        if self.recorded.count("val"):
            self._finish(trainer)

    @guarded
    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """End with a validation that had fewer steps."""
        if self.recorded.stage == "val":
            self._finish(trainer)

    @guarded
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """End with an epoch that had fewer steps."""
        self._finish(trainer)
        self._epoch += 1

    @guarded
    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Keep what was recorded until then."""
        self._finish(trainer)
        self.recorded.end_run(exception)

    @guarded
    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say so where nothing could be recorded."""
        self.recorded.end_run()
        self.recorded.warn_if_nothing_was_recorded()

    def _begin(self, loaders: Any = ()) -> None:
        self.recorded.begin("train", loaders)
        self._validation_is_due = True

    def _finish(self, trainer: pl.Trainer) -> None:
        stage = self.recorded.stage
        metrics = self.recorded.finish(self._folder, trainer.global_step)
        if stage == "val":
            self._validation_is_due = False
        self._log(trainer, stage, metrics)

    def _log(self, trainer: pl.Trainer, stage: str, metrics: dict[str, float]) -> None:
        named = {f"loaderviz/{stage}/{name}": value for name, value in metrics.items()}
        for logger in trainer.loggers if named else ():
            logger.log_metrics(named, step=trainer.global_step)


def _is_validated_next(trainer: pl.Trainer, batch_idx: int) -> bool:
    """Whether a validation follows this batch, as far as the trainer's settings tell."""
    n_epochs = trainer.check_val_every_n_epoch
    if not trainer.enable_validation:
        return False
    if n_epochs is None:
        batch_idx = trainer.fit_loop.total_batch_idx
    elif (trainer.current_epoch + 1) % n_epochs:
        return False
    interval = trainer.val_check_batch or math.inf
    return trainer.is_last_batch or (batch_idx + 1) % interval == 0


def _flattened(loaders: Any) -> list[Any]:
    """The loaders of a collection, which may hold further ones."""
    if isinstance(loaders, dict):
        loaders = list(loaders.values())
    if isinstance(loaders, list | tuple):
        return [loader for each in loaders for loader in _flattened(each)]
    return [loaders]
