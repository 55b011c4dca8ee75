"""``Callback`` for the ``Trainer`` of transformers.

>>> from loaderviz.transformers import Callback
>>> trainer.add_callback(Callback(trainer))
"""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loaderviz._recorded_steps import RecordedSteps, guarded, trainers_library

if TYPE_CHECKING:
    import transformers
else:
    transformers = trainers_library("transformers", install="pip install 'transformers[torch]'")


class Callback(transformers.TrainerCallback):  # type: ignore[misc]
    """Record the first steps of a training, write a report, and log what the model waits for.

    >>> trainer = Trainer(model, args, train_dataset=dataset)
    >>> trainer.add_callback(Callback(trainer, n_steps=200))

    Recorded are the first ``n_steps`` batches of the first epoch, and of the first evaluation after
    them; with ``every_n_epochs`` also those of each n-th epoch after that one. With gradient
    accumulation each of its batches counts. The training gets the same batches and draws as
    without, and costs what ``record`` costs; where a recording ends, writing its files takes a
    second or two, once.

    Workers that stay (``dataloader_persistent_workers``) are seen from inside in the first epoch
    alone.

    Each rank keeps its recording in ``args.output_dir``: ``loaderviz/train-step-200/
    rank-00000.parquet`` for what had been recorded by step 200, ``eval-step-...`` for the
    evaluation. ``loaderviz.load`` opens the file, and the folder with those of all ranks. Rank 0
    adds its ``report.html``.

    It also logs, by ``Trainer.log`` and so wherever ``report_to`` says, at the ``global_step``, of
    the recorded time (shares are 0 to 1; the reporters put ``train/`` before the names):

    - ``loaderviz/wait_share``: the part that the model waits, the start of workers included;
    - ``loaderviz/later_wait_share``: the same past the first batch, as in a long epoch;
    - ``loaderviz/first_cause/workers``: the part that goes to the first cause of waiting, whose
      name is in that of the metric (``Summary.causes`` says what they are);
    - ``loaderviz/findings``: how many findings the report has.

    Those of the evaluation begin with ``eval_loaderviz/``, which becomes ``eval/loaderviz/``.

    With ``last_s`` it stays on for the whole training instead, as ``record(last_s=...)`` does: the
    last seconds in full and a row a minute of all, in ``loaderviz/run``, with its incidents, and at
    the end the report ``run.html``. Once a minute is over it logs of it, with what
    is logged next, under ``loaderviz/``:
    ``wait_share``, ``supply_per_s`` and ``demand_per_s`` in samples, ``ready_p95_s`` (of the waits)
    and how many ``incidents`` there were so far.

    Args:
        trainer: the one that it is added to, which logs the metrics. It is not kept alive.
        n_steps: how many batches of a rank to record, 1 or more.
        every_n_epochs: 1 records the start of each epoch, 2 of every other; None of the first.
        last_s: how many seconds to keep of a whole training, 10 or more; None: record steps.

    Raises:
        LoaderVizError: for numbers that are none. Later, in the training, what fails in the
            callback itself is a warning.
    """

    def __init__(
        self,
        trainer: transformers.Trainer,
        n_steps: int = 200,
        every_n_epochs: int | None = None,
        last_s: float | None = None,
    ) -> None:
        self.recorded = RecordedSteps(n_steps, every_n_epochs, last_s)
        self._trainer = weakref.ref(trainer)
        self._epoch = 0  # of this training
        self._evaluation_is_due = False

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin anew."""
        self._epoch = 0
        self.recorded.prepare()
        self.recorded.leave_on(Path(args.output_dir, "loaderviz"))

    @guarded
    def on_epoch_begin(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        """Begin with an epoch that is due."""
        if self.recorded.is_due(self._epoch):
            self.recorded.begin("train", [train_dataloader])
            self._evaluation_is_due = True

    @guarded
    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count a batch whose gradient is accumulated."""
        if self.recorded.count("train"):
            self._finish(args, state, control)

    @guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the step; end before an evaluation."""
        last = self.recorded.count("train")
        if last or (control.should_evaluate and self.recorded.stage == "train"):
            self._finish(args, state, control)
        self._begin_evaluation(control, **kwargs)
        if self.recorded.last_s is not None and control.should_log:  # on all ranks at one step
            metrics = self.recorded.metrics_of_run()
            self._log(args, control, {f"loaderviz/{name}": metrics[name] for name in metrics})

    @guarded
    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End with an epoch that had fewer steps."""
        self._finish(args, state, control)
        self._begin_evaluation(control, **kwargs)
        self._epoch += 1

    @guarded
    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the step; an evaluation that was not announced ends the training's recording."""
        if self.recorded.stage == "train" or self.recorded.count("eval"):
            self._finish(args, state, control)

    @guarded
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End with an evaluation that had fewer steps."""
        self._finish(args, state, control)

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say so where nothing could be recorded."""
        self.recorded.drop()
        self.recorded.end_run()
        self.recorded.warn_if_nothing_was_recorded()

    def _begin_evaluation(self, control: Any, eval_dataloader: Any = None, **_: Any) -> None:
        if control.should_evaluate and self._evaluation_is_due:
            self.recorded.begin("eval", [eval_dataloader])
            self._evaluation_is_due = False

    def _finish(self, args: Any, state: Any, control: Any) -> None:
        stage = self.recorded.stage
        if not stage:
            return
        metrics = self.recorded.finish(Path(args.output_dir, "loaderviz"), state.global_step)
        prefix = "loaderviz/" if stage == "train" else f"{stage}_loaderviz/"
        self._log(args, control, {prefix + name: metrics[name] for name in metrics})

    def _log(self, args: Any, control: Any, metrics: dict[str, float]) -> None:
        trainer = self._trainer()
        if trainer is not None and (metrics or args.world_size > 1):
            should_log = control.should_log  # of this step, which logging ends
            # The base class's, as an override may add what is due only once a step; and on all
            # ranks, as a callback may have them wait for one another.
            transformers.Trainer.log(trainer, metrics)
            control.should_log = should_log
