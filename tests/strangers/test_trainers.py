"""The callbacks in the trainers of libraries, and their metrics in the files of real loggers.

What the callback for Lightning does is tested in tests/test_lightning_callback.py, which
`make unit` runs; here it is in the other package of the same trainer, and on two ranks.
"""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import loaderviz as lv

SCRIPTS = Path(__file__).parent
STEPS = 12  # of an epoch


def scalars(folder: Path) -> dict[str, list[int]]:
    """Of TensorBoard's files: by name, the steps that have a value."""
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found: dict[str, list[int]] = {}
    for path in folder.rglob("events.out.tfevents*"):
        events = module.EventAccumulator(str(path))
        events.Reload()
        for name in events.Tags()["scalars"]:
            found.setdefault(name, []).extend(each.step for each in events.Scalars(name))
    return found


def recordings(folder: Path) -> dict[str, lv.Trace]:
    paths = sorted((folder / "loaderviz").iterdir())
    assert all((path / "report.html").exists() for path in paths)
    return {path.name: lv.load(path) for path in paths}


def without_causes(names: Any) -> set[str]:
    return {re.sub(r"first_cause/\w+", "first_cause", name) for name in names}


METRICS = {"wait_share", "later_wait_share", "first_cause", "findings"}


class Drawn(Dataset):
    """Texts, and a draw of the process that reads them."""

    def __len__(self) -> int:
        return 4 * STEPS

    def __getitem__(self, key: int) -> dict[str, Any]:
        return {"input_ids": torch.randint(0, 50, (8,)), "labels": key % 2}


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(Drawn().__getitem__, range(4 * STEPS))


class TestTransformers:
    @pytest.fixture(autouse=True)
    def _offline(self, monkeypatch) -> None:
        pytest.importorskip("transformers.trainer")
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    @staticmethod
    def trainer(folder: Path, callback: dict[str, Any] | None = None, **options: Any) -> Any:
        import transformers

        from loaderviz.transformers import Callback

        train = options.pop("train", None) or Drawn()
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = transformers.BertConfig(vocab_size=50, intermediate_size=16, **sizes)
        given = {
            "num_train_epochs": 2,
            "per_device_train_batch_size": 4,
            "logging_steps": 3,
            "report_to": [],
            "disable_tqdm": True,
            "use_cpu": True,
            "eval_strategy": "epoch",
            "save_strategy": "no",
            **options,
        }
        trainer = transformers.Trainer(
            transformers.BertForSequenceClassification(config),
            transformers.TrainingArguments(output_dir=str(folder), **given),
            train_dataset=train,
            eval_dataset=Drawn(),
        )
        if callback is not None:
            trainer.add_callback(Callback(trainer, **callback))
        return trainer

    @staticmethod
    def outcome(trainer: Any) -> tuple[Any, ...]:
        """Weights, the next draw, and all that was logged but times and what the callback logs."""
        history = [
            {name: value for name, value in each.items() if not re.search("runtime|per_sec", name)}
            for each in trainer.state.log_history
            if not any("loaderviz" in name for name in each)
        ]
        weights = [parameter.tolist() for parameter in trainer.model.parameters()]
        return weights, torch.rand(2).tolist(), history

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"dataloader_num_workers": 2, "dataloader_persistent_workers": True},
            {"gradient_accumulation_steps": 3},
            {"eval_strategy": "steps", "eval_steps": 6},
        ],
        ids=lambda options: "-".join(options) or "plain",
    )
    def test_the_training_is_the_same_and_what_it_logs(self, tmp_path, options):
        def run(name: str, callback: Any) -> tuple[Any, ...]:
            trainer = self.trainer(tmp_path / name, callback, **options)
            trainer.train()
            return self.outcome(trainer)

        # The number of logged steps that the recording ends at is one that the trainer logs, too.
        assert run("recorded", {"n_steps": 9}) == run("plain", None)
        found = recordings(tmp_path / "recorded")
        assert [name.partition("-")[0] for name in found] == ["eval", "train"]
        for trace in found.values():
            assert trace.meta["problems"] == []
            assert len(trace.meta["loaders"]) == 1

    def test_it_stays_on_for_a_whole_training(self, tmp_path, monkeypatch):
        monkeypatch.setattr("loaderviz.argument_checks.LEAST_LAST_S", 0)
        monkeypatch.setattr("loaderviz.trace.windows.LEAST_WINDOW_S", 0.05)
        trainer = self.trainer(tmp_path, {"last_s": 0.2}, num_train_epochs=8)
        trainer.train()
        run = lv.load(tmp_path / "loaderviz" / "run")
        assert run.meta["problems"] == []
        # Evaluations take batches of twice as many.
        assert run.windows["batches"].sum() == 8 * (STEPS + STEPS // 2)
        assert (tmp_path / "loaderviz/run.html").exists()
        logged = [each for each in trainer.state.log_history if "loaderviz/wait_share" in each]
        assert len(logged) > 2
        assert all(0 <= each["loaderviz/wait_share"] <= 1 for each in logged)

    def test_metrics_reach_the_reporters(self, tmp_path):
        self.trainer(tmp_path, {"n_steps": 6}, report_to=["tensorboard"]).train()
        found = {name: at for name, at in scalars(tmp_path).items() if "loaderviz" in name}
        names = {f"train/loaderviz/{name}" for name in METRICS}
        assert without_causes(found) == names | {f"eval/loaderviz/{name}" for name in METRICS}
        assert found["train/loaderviz/wait_share"] == [6]
        assert found["eval/loaderviz/wait_share"] == [STEPS]

    def test_a_stream_and_further_epochs(self, tmp_path):
        options = {"train": Stream(), "max_steps": 2 * STEPS, "eval_strategy": "no"}
        self.trainer(tmp_path, {"n_steps": 4, "every_n_epochs": 1}, **options).train()
        assert [*recordings(tmp_path)] == ["train-step-16", "train-step-4"]

    def test_it_goes_on_from_a_checkpoint_as_without_it(self, tmp_path):
        def run(name: str, callback: Any) -> tuple[Any, ...]:
            options = {"eval_strategy": "no", "save_strategy": "steps", "save_steps": 5}
            self.trainer(tmp_path / name, None, **options).train()
            again = self.trainer(tmp_path / name, callback, **options)
            again.train(resume_from_checkpoint=str(tmp_path / name / "checkpoint-5"))
            return self.outcome(again)

        assert run("recorded", {"n_steps": 3}) == run("plain", None)
        (trace,) = recordings(tmp_path / "recorded").values()
        assert trace.summary().n_batches >= 3

    def test_mlflow_and_wandb_get_the_metrics(self, tmp_path, monkeypatch):
        pytest.importorskip("mlflow")
        wandb = pytest.importorskip("wandb")
        monkeypatch.setenv("WANDB_MODE", "offline")
        monkeypatch.setenv("WANDB_DIR", str(tmp_path))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        self.trainer(tmp_path, {"n_steps": 6}, report_to=["mlflow", "wandb"]).train()
        wandb.finish()
        files = [path for path in tmp_path.rglob("mlruns/**/loaderviz/*") if path.is_file()]
        assert "wait_share" in {path.name for path in files}
        (run,) = tmp_path.rglob("*.wandb")
        assert b"train/loaderviz/wait_share" in run.read_bytes()


class TestLightning:
    def test_metrics_reach_its_loggers_in_either_package(self, tmp_path):
        for number, name in enumerate(("lightning.pytorch", "pytorch_lightning")):
            pytest.importorskip(name)
            folder = tmp_path / str(number)
            script = [sys.executable, SCRIPTS / "fit_on_ranks.py", name, folder, "1"]
            done = subprocess.run(script, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert [*recordings(folder)] == ["train-step-4", "val-step-6"]
            names = {f"loaderviz/{stage}/{each}" for stage in ("train", "val") for each in METRICS}
            with (folder / "metrics.csv").open() as file:
                columns = {name for name in next(csv.reader(file)) if "loaderviz" in name}
            found = {name for name in scalars(folder) if "loaderviz" in name}
            assert without_causes(columns) == without_causes(found) == names

    def test_two_ranks_keep_a_recording_each_and_train_as_without_it(self, tmp_path):
        pytest.importorskip("lightning.pytorch")
        ends = []
        for name, more in (("plain", ["plain"]), ("recorded", [])):
            folder = tmp_path / name
            script = [sys.executable, SCRIPTS / "fit_on_ranks.py", "lightning.pytorch", folder, "2"]
            env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
            done = subprocess.run([*script, *more], capture_output=True, text=True, env=env)
            assert done.returncode == 0, done.stderr
            ends.append(json.loads(done.stdout.splitlines()[-1]))
        assert ends[0] == ends[1]
        found = recordings(tmp_path / "recorded")
        assert [*found] == ["train-step-3", "val-step-3"]
        for trace in found.values():
            assert trace.summary().n_ranks == 2


class TestAccelerate:
    @pytest.mark.parametrize("dispatch", [False, True])
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_a_prepared_loader_is_recorded_in_one_line(self, dispatch, num_workers):
        accelerate = pytest.importorskip("accelerate")
        config = accelerate.DataLoaderConfiguration(dispatch_batches=dispatch)
        accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
        loader = DataLoader(Drawn(), batch_size=4, num_workers=num_workers)
        prepared = accelerator.prepare(loader)
        with lv.record(prepared) as rec:
            n_batches = len(list(prepared))
        summary = rec.trace.summary()
        assert (summary.n_batches, summary.n_samples) == (n_batches, 4 * n_batches)
        assert n_batches == STEPS
        assert summary.n_workers == num_workers
        assert summary.main_cause != "unknown"
