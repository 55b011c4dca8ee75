"""The callback for the Trainer of transformers, in a small stand-in for that."""

import gc
import importlib
import sys
import weakref
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz
import loaderviz as lv
from loaderviz.recorder import class_hooks
from own_code import in_module


class TrainerCallback:
    """Hears of nothing."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class Trainer:
    """In little: what the real one calls, in its order (transformers/trainer.py)."""

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


@pytest.fixture(autouse=True)
def make_callback(monkeypatch) -> Any:
    module: Any = ModuleType("transformers")
    module.TrainerCallback, module.Trainer = TrainerCallback, Trainer
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.delitem(sys.modules, "loaderviz.transformers", raising=False)
    yield lambda *args, **options: importlib.import_module("loaderviz.transformers").Callback(
        *args, **options
    )
    sys.modules.pop("loaderviz.transformers", None)
    vars(loaderviz).pop("transformers", None)


def loader(**options: Any) -> DataLoader:
    return DataLoader(torch.arange(24.0), batch_size=4, **options)


def recordings(folder: Path) -> dict[str, lv.Trace]:
    return {path.name: lv.load(path) for path in sorted((folder / "loaderviz").iterdir())}


def own_metrics(trainer: Trainer) -> list[dict[str, float]]:
    return [each for each in trainer.state.log_history if "loss" not in each]


def test_steps_are_recorded_and_logged_and_each_loss_as_well(tmp_path, make_callback):
    trainer = Trainer(tmp_path, loader(), loader(num_workers=1), eval_steps=4)
    trainer.add_callback(make_callback(trainer, n_steps=3))
    trainer.train()
    found = recordings(tmp_path)
    assert {name: each.summary().n_batches for name, each in found.items()} == {
        "train-step-3": 3,
        "eval-step-4": 3,
    }
    training, evaluation = own_metrics(trainer)
    summary = found["train-step-3"].summary()
    assert training["loaderviz/wait_share"] == pytest.approx(summary.wait_share)
    assert f"loaderviz/first_cause/{summary.main_cause}" in training
    assert (training["step"], evaluation["step"]) == (3, 4)
    assert evaluation["eval_loaderviz/findings"] >= 0
    assert sum("loss" in each for each in trainer.state.log_history) == 6


@pytest.fixture
def no_report(monkeypatch):
    """Where a test is about something else: the report of each recording takes a second."""

    def written(trace: lv.Trace, _: Path) -> Any:
        return SimpleNamespace(summary=trace.summary(), findings=SimpleNamespace(findings=[]))

    monkeypatch.setattr("loaderviz._recorded_steps.write", written)


@pytest.mark.usefixtures("no_report")
def test_the_batches_and_draws_are_those_of_a_training_without_it(tmp_path, make_callback):
    def run(recorded: bool) -> Any:
        torch.manual_seed(1)
        trainer = Trainer(tmp_path / str(recorded), loader(shuffle=True, num_workers=1))
        if recorded:
            trainer.add_callback(make_callback(trainer, n_steps=2, every_n_epochs=1))
        trainer.train(2)
        return torch.stack(trainer.seen).tolist(), torch.rand(1).item()

    assert run(recorded=True) == run(recorded=False)
    assert len(recordings(tmp_path / "True")) == 2


@pytest.mark.usefixtures("no_report")
def test_an_exception_leaves_its_recording_to_the_next_event(tmp_path, make_callback):
    trainer = Trainer(tmp_path, loader(), loader())
    trainer.add_callback(make_callback(trainer))
    trainer.failing_at = 2
    with pytest.raises(KeyError, match="a step of the user's"):
        trainer.train()
    assert len(class_hooks.running()) == 1
    trainer.evaluate()
    assert class_hooks.running() == []
    assert [*recordings(tmp_path)] == ["train-step-2"]


@pytest.mark.usefixtures("no_report")
def test_a_loader_that_is_none_of_torchs_is_recorded(tmp_path, make_callback):
    class Own:
        def __iter__(self) -> Any:
            return iter(torch.zeros(3, 4))

    trainer = Trainer(tmp_path, Own())
    trainer.add_callback(make_callback(trainer))
    trainer.train()
    (trace,) = recordings(tmp_path).values()
    assert trace.batches["n_samples"].tolist() == [4, 4, 4]


def test_where_nothing_can_be_recorded_a_warning_says_so(tmp_path, make_callback):
    trainer = Trainer(tmp_path, [1, 2, 3])
    trainer.add_callback(make_callback(trainer))
    with pytest.warns(UserWarning, match=r"recorded no batch.*loaderviz\.watch"):
        trainer.train()


def test_its_own_failure_is_one_warning(tmp_path, make_callback, monkeypatch):
    callback = make_callback(trainer := Trainer(tmp_path, loader()), every_n_epochs=1)
    trainer.add_callback(callback)

    @in_module("loaderviz.report")
    def fail(*_: Any, **__: Any) -> None:
        raise lv.LoaderVizError("no space left")

    monkeypatch.setattr("loaderviz._recorded_steps.write", fail)
    with pytest.warns(UserWarning, match="could not record the training: no space left") as told:
        trainer.train(3)
    assert (len(told), trainer.state.global_step) == (1, 18)


@pytest.mark.usefixtures("no_report")
def test_the_trainer_ends_when_its_user_is_done_with_it(tmp_path, make_callback):
    trainer = Trainer(tmp_path, loader())
    callback = make_callback(trainer, n_steps=2)
    trainer.add_callback(callback)
    trainer.train()
    alive = weakref.ref(trainer)
    gc.disable()
    try:
        del trainer
        assert alive() is None
    finally:
        gc.enable()
