"""The ``Trainer`` of transformers in little: what it calls, in its order (transformers/trainer.py).

The real one is in tests/strangers.
"""

from collections.abc import Iterable
from types import ModuleType, SimpleNamespace
from typing import Any


class TrainerCallback:
    """Hears of nothing."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class Trainer:
    def __init__(
        self, folder: Any, train: Iterable[Any], evaluation: Iterable[Any] = (), eval_steps: int = 0
    ) -> None:
        self.args = SimpleNamespace(output_dir=str(folder), world_size=1)
        self.state = SimpleNamespace(global_step=0, epoch=0.0, log_history=[])
        self.control = SimpleNamespace(should_evaluate=False, should_log=False)
        self.callbacks: list[Any] = []
        self.train_loader, self.eval_loader, self.eval_steps = train, evaluation, eval_steps
        self.seen: list[Any] = []
        self.failing_at = -1

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def call(self, event: str, **more: Any) -> None:
        loaders = {"train_dataloader": self.train_loader, "eval_dataloader": self.eval_loader}
        for callback in self.callbacks:
            getattr(callback, event)(self.args, self.state, self.control, **loaders, **more)

    def log(self, logs: dict[str, float]) -> None:
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self.control.should_log = False
        self.call("on_log", logs=logs)

    def evaluate(self) -> None:
        for _ in self.eval_loader:
            self.call("on_prediction_step")
        self.control.should_evaluate = False
        self.call("on_evaluate")

    def train(self, n_epochs: int = 1) -> None:
        self.call("on_train_begin")
        for _ in range(n_epochs):
            self.call("on_epoch_begin")
            for batch in self.train_loader:
                if self.state.global_step == self.failing_at:
                    raise KeyError("a step of the user's")
                self.seen.append(batch)
                self.state.global_step += 1
                self.control.should_log = True
                at = self.eval_steps and self.state.global_step % self.eval_steps == 0
                self.control.should_evaluate = bool(at)
                self.call("on_step_end")
                if self.control.should_log:
                    self.log({"loss": 1.0})
                if self.control.should_evaluate:
                    self.evaluate()
            self.call("on_epoch_end")
        self.call("on_train_end")


def transformers() -> ModuleType:
    """The module that has both."""
    module: Any = ModuleType("transformers")
    module.TrainerCallback, module.Trainer = TrainerCallback, Trainer
    return module
