"""The callback for Lightning, in real fits: what it records, and that the fit is as without it."""

import csv
import importlib
import random
import re
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz import argument_checks
from loaderviz.recorder import class_hooks
from loaderviz.trace import windows
from own_code import in_module

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:pytorch_lightning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def fits() -> Any:
    pytest.importorskip("pytorch_lightning")
    return importlib.import_module("lightning_fits")


def recordings(folder: Path) -> dict[str, lv.Trace]:
    paths = sorted((folder / "loaderviz").glob("*/rank-00000.parquet"))
    return {path.parent.name: lv.load(path) for path in paths}


def metrics(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Those of the callback in the logger's file: by name, each step and value."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in csv.DictReader((folder / "metrics.csv").open()):
        for name, value in row.items():
            if name.startswith("loaderviz/") and value:
                found.setdefault(name, []).append((int(row["step"]), float(value)))
    return found


def draws() -> list[Any]:
    return [torch.rand(2).tolist(), random.random(), np.random.rand()]


@pytest.fixture
def no_report(monkeypatch):
    """Where a test is about something else: the report of each recording takes a second."""

    def written(trace: lv.Trace, _: Path) -> Any:
        return SimpleNamespace(summary=trace.summary(), findings=SimpleNamespace(findings=[]))

    monkeypatch.setattr("loaderviz._recorded_steps.write", written)


def assert_as_without(fits: Any, folder: Path, **options: Any) -> None:
    """Of two epochs with a validation each, the first is recorded, and nothing else differs."""

    def run(name: str, *callbacks: Any) -> tuple[Any, ...]:
        train, val = fits.loader(shuffle=True, **options), fits.loader(**options)
        model, trainer = fits.fit(folder / name, *callbacks, train=train, val=val, max_epochs=2)
        weights = [parameter.tolist() for parameter in model.parameters()]
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        return model.losses, weights, values, draws()

    assert run("recorded", fits.Callback(n_steps=4)) == run("plain")
    assert [*recordings(folder / "recorded")] == ["train-step-4", "val-step-6"]


@pytest.mark.usefixtures("no_report")
@pytest.mark.slow
def test_with_workers_losses_weights_and_draws_are_those_of_a_fit_without_it(tmp_path, fits):
    assert_as_without(fits, tmp_path, num_workers=1)


def test_a_fit_is_as_without_it_and_its_first_steps_are_recorded_and_logged(tmp_path, fits):
    assert_as_without(fits, tmp_path)
    folder = tmp_path / "recorded"
    found = recordings(folder)
    logged = metrics(folder)
    for (stage, step), trace in zip((("train", 4), ("val", 6)), found.values(), strict=True):
        summary = trace.summary()
        assert summary.n_batches == 4
        assert trace.meta["problems"] == []
        assert trace.batches["released_s"].notna().any()
        assert len(trace.meta["loaders"]) == 1
        for name, value in {
            "wait_share": summary.wait_share,
            "later_wait_share": summary.later_wait_share,
            f"first_cause/{summary.main_cause}": summary.causes["share"].iloc[0],
        }.items():
            assert logged[f"loaderviz/{stage}/{name}"] == [(step, pytest.approx(value))]
        assert logged[f"loaderviz/{stage}/findings"][0][1] >= 0
    assert (folder / "loaderviz/train-step-4/report.html").exists()


@pytest.mark.parametrize("failing_at", [-1, 10])
@pytest.mark.slow
def test_it_stays_on_for_a_whole_training_and_logs_its_windows(
    failing_at, tmp_path, fits, monkeypatch
):
    monkeypatch.setattr(argument_checks, "LEAST_LAST_S", 0)
    monkeypatch.setattr(windows, "LEAST_WINDOW_S", 0.05)
    model, callback = fits.Model(failing_at), fits.Callback(last_s=0.2)
    fails = pytest.raises(KeyError) if failing_at > 0 else nullcontext()
    with fails:
        fits.fit(tmp_path, callback, model=model, val=fits.loader(), max_epochs=4)
    run = lv.load(tmp_path / "loaderviz" / "run")
    assert run.meta["problems"] == []
    assert run.windows["batches"].sum() >= (4 * 6 if failing_at < 0 else 10)
    # On a busy machine a window of 0.05 s can be slow in earnest: other kinds may come before it.
    assert run.incidents["kind"].tolist().count("exception") == (failing_at > 0)
    assert (tmp_path / "loaderviz/run.html").exists()
    assert not [*tmp_path.glob("loaderviz/train-step-*")]
    if failing_at < 0:
        logged = metrics(tmp_path)
        assert len(logged["loaderviz/train/wait_share"]) > 1
        assert {value for _, value in logged["loaderviz/train/incidents"]} >= {0.0}
        assert all(0 <= value <= 1 for _, value in logged["loaderviz/train/wait_share"])


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    ("recorded", "options", "found"),
    [
        ({}, {"val_check_interval": 3}, {"train-step-3": 3, "val-step-3": 6}),
        (
            {},
            {"max_epochs": 2, "check_val_every_n_epoch": 2},
            {"train-step-6": 6, "val-step-12": 6},
        ),
        (
            {"n_steps": 2, "every_n_epochs": 2},
            {"max_epochs": 4, "limit_val_batches": 0},
            {"train-step-14": 2, "train-step-2": 2},
        ),
        ({}, {"fast_dev_run": True}, {"train-step-1": 1, "val-step-1": 1}),
        ({"n_steps": 2}, {"logger": False}, {"train-step-2": 2, "val-step-6": 2}),
    ],
    ids=str,
)
@pytest.mark.slow
def test_each_stage_is_recorded_when_it_comes(tmp_path, recorded, options, found, fits):
    num_workers = 1 if "val_check_interval" in options else 0
    fits.fit(
        tmp_path, fits.Callback(**recorded), val=fits.loader(num_workers=num_workers),
        default_root_dir=tmp_path, **options,
    )  # fmt: skip
    seen = recordings(tmp_path)
    assert {name: trace.summary().n_batches for name, trace in seen.items()} == found
    n_workers = {name.split("-")[0]: trace.summary().n_workers for name, trace in seen.items()}
    assert n_workers.items() <= {"train": 0, "val": num_workers}.items()
    if "every_n_epochs" in recorded:
        assert [step for step, _ in metrics(tmp_path)["loaderviz/train/wait_share"]] == [2, 14]


@pytest.mark.parametrize("who", ["a handler", "a logger"])
def test_what_others_raise_meanwhile_is_not_hidden(tmp_path, monkeypatch, fits, who):
    def interrupt(*_: Any, **__: Any) -> None:
        raise TimeoutError("this job is to stop")

    class Broken(fits.pl.loggers.CSVLogger):
        def log_metrics(self, values: dict[str, float], step: int | None = None) -> None:
            if "loaderviz/train/findings" in values:
                interrupt()

    logger = {"logger": Broken(tmp_path)} if who == "a logger" else {}
    if not logger:
        monkeypatch.setattr("loaderviz._recorded_steps.write", interrupt)
    with pytest.raises(TimeoutError, match="this job is to stop"):
        fits.fit(tmp_path, fits.Callback(n_steps=2), **logger)
    assert class_hooks.running() == []


@pytest.mark.usefixtures("no_report")
def test_a_validation_that_no_setting_tells_ends_the_steps(tmp_path, fits):
    class Stopping(fits.Model):
        def training_step(self, batch: Any, number: int) -> Any:
            self.trainer.should_stop = number == 2
            return super().training_step(batch, number)

    fits.fit(tmp_path, fits.Callback(), val=fits.loader(), model=Stopping(), min_epochs=0)
    (trace,) = recordings(tmp_path).values()
    assert trace.summary().n_batches == 3


@pytest.mark.usefixtures("no_report")
def test_workers_that_stay_are_seen_from_outside_once_they_run_and_nobody_is_warned(tmp_path, fits):
    """Those of the validation have been started by the sanity check."""
    train, val = (fits.loader(num_workers=1, persistent_workers=True) for _ in range(2))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fits.fit(tmp_path, fits.Callback(every_n_epochs=1), train=train, val=val, max_epochs=2)
    assert not [each for each in told if "loaderviz" in each.filename]
    assert not [each for each in told if "recording" in str(each.message)]
    found = recordings(tmp_path)
    assert {name: each.summary().n_batches for name, each in found.items()} == {
        "train-step-6": 6,
        "val-step-6": 6,
        "train-step-12": 6,
        "val-step-12": 6,
    }
    n_samples = {name: len(trace.samples) for name, trace in found.items()}
    assert n_samples == {"train-step-6": 24, "val-step-6": 0, "train-step-12": 0, "val-step-12": 0}


@pytest.mark.usefixtures("no_report")
def test_a_stream_is_recorded_in_each_epoch_too(tmp_path, fits):
    train = DataLoader(fits.Streamed(), batch_size=4)
    fits.fit(tmp_path, fits.Callback(every_n_epochs=1), train=train, val=train, max_epochs=2)
    found = {name: each.summary().n_samples for name, each in recordings(tmp_path).items()}
    assert found == {"train-step-6": 24, "val-step-6": 24, "train-step-12": 24, "val-step-12": 24}


@pytest.mark.usefixtures("no_report")
def test_several_loaders_are_recorded_each(tmp_path, fits):
    class Pairs(fits.Model):
        def training_step(self, batch: Any, number: int) -> Any:
            return super().training_step(batch["a"] + batch["b"][0], number)

    fits.fit(
        tmp_path, fits.Callback(), train={"a": fits.loader(), "b": [fits.loader()]}, model=Pairs()
    )
    (trace,) = recordings(tmp_path).values()
    assert trace.batches["loader"].tolist() == [0] * 6 + [1] * 6


@pytest.mark.usefixtures("no_report")
def test_a_loader_that_is_none_of_torchs_is_recorded_from_the_second_epoch_on(tmp_path, fits):
    class Own:
        def __iter__(self) -> Iterator[torch.Tensor]:
            return iter([torch.rand(4, 4)] * 3)

    fits.fit(tmp_path, fits.Callback(), train=Own(), max_epochs=2)
    (trace,) = recordings(tmp_path).values()
    assert trace.batches["n_samples"].tolist() == [4] * 3
    assert trace.summary().main_cause == "unknown"


def test_where_nothing_can_be_recorded_a_warning_says_what_can_be_done(tmp_path, fits):
    class Few:
        def __iter__(self) -> Iterator[torch.Tensor]:
            return iter([torch.rand(4, 4)] * 3)

    with pytest.warns(UserWarning, match=r"recorded no batch.*loaderviz\.watch"):
        fits.fit(tmp_path, fits.Callback(), train=Few())
    with lv.watch(Few()) as batches:
        fits.fit(tmp_path, train=batches)
    assert len(batches.trace.batches) == 3


@pytest.mark.usefixtures("no_report")
def test_an_exception_is_the_users_and_what_came_before_it_is_kept(tmp_path, fits):
    model = fits.Model(failing_at=3)
    with pytest.raises(KeyError, match="a step of the user's"):
        fits.fit(tmp_path, fits.Callback(), model=model, train=fits.loader(num_workers=1))
    assert class_hooks.running() == []
    (name,) = recordings(tmp_path)
    assert name == "train-step-3"


@pytest.mark.parametrize(
    "broken", ["loaderviz._recorded_steps.write", "loaderviz._recorded_steps.Recording"]
)
def test_its_own_failure_is_a_warning_and_the_fit_goes_on(tmp_path, monkeypatch, broken, fits):
    @in_module("loaderviz.report")
    def fail(*_: Any, **__: Any) -> None:
        raise lv.LoaderVizError("no space left")

    monkeypatch.setattr(broken, fail)
    with pytest.warns(UserWarning, match="could not record the training: no space left") as told:
        model, _ = fits.fit(
            tmp_path, fits.Callback(n_steps=2, every_n_epochs=1), val=fits.loader(), max_epochs=2
        )
    assert len(model.losses) == 12
    assert sum("loaderviz" in str(each.message) for each in told) == 1
    assert class_hooks.running() == []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "loaderviz")
        assert len(fits.fit(tmp_path, fits.Callback(n_steps=2))[0].losses) == 6


@pytest.mark.usefixtures("no_report")
@pytest.mark.slow
def test_a_fit_goes_on_from_its_checkpoint_as_without_it(tmp_path, fits):
    def run(folder: str, *make: Any) -> Any:
        saved = fits.pl.callbacks.ModelCheckpoint(tmp_path / folder, "at", every_n_train_steps=4)
        again = fits.pl.callbacks.ModelCheckpoint(tmp_path / folder, "again")
        first = [saved, *(each(n_steps=3) for each in make)]
        fits.fit(tmp_path / folder / "1", *first, max_steps=4, enable_checkpointing=True)
        resume = tmp_path / folder / "at.ckpt"
        second = [again, *(each(n_steps=3) for each in make)]
        model, _ = fits.fit(
            tmp_path / folder / "2",
            *second,
            resume=resume,
            max_epochs=2,
            enable_checkpointing=True,
        )
        return model.losses, [each.tolist() for each in model.parameters()]

    assert run("recorded", fits.Callback) == run("plain")
    assert len(recordings(tmp_path / "recorded/2")) == 1


@pytest.mark.parametrize("options", [{"n_steps": 0}, {"n_steps": "all"}, {"every_n_epochs": 0}])
def test_numbers_that_are_none_are_refused(options, fits):
    ((name, value),) = options.items()
    with pytest.raises(lv.LoaderVizError, match=re.escape(f"{name}={value!r}")):
        fits.Callback(**options)
