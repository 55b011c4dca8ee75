"""What workers are sent is weighed part by part; other ways to start them are tried for real."""

import functools
import math
import multiprocessing
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset

from loaderviz import record
from loaderviz._doctor import lv3_starts, start_trial
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import Case
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.pickle_trial import heaviest_part, unpicklable_part
from loaderviz._doctor.run_epochs import Epoch
from loaderviz._doctor.start_trial import (
    StartTrial,
    is_worth_trying,
    sending_s,
    try_starts,
)
from loaderviz.course.datasets import SleepingDataset
from patients import Squared, loader, square
from traces import made


class Holding(SleepingDataset):
    """Takes any attributes."""

    def __init__(self, **held: Any) -> None:
        super().__init__(8, 0)
        self.__dict__.update(held)


class Reader:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def others(n: int) -> list[Holding]:
    return [Holding(array=np.full((100, 50), i)) for i in range(n)]


class OwnState(Holding):
    def __getstate__(self) -> Any:
        return {"small": bytes(10), "made": bytes(1000)}


def soon() -> float:
    return time.monotonic() + 60


def heaviest(dataset: Any, **options: Any) -> Any:
    return heaviest_part(Setup(loader(dataset, **options)), soon())[0]


class TestTheHeaviestPart:
    def test_is_named_with_its_size(self):
        part = heaviest(Holding(few=[1], many=[b"x" * 9] * 1000 + [bytes(50_000)]))
        assert (part.path, part.kind) == ("dataset.many", "list of 1,001")
        assert 50_000 < part.n_bytes < 60_000
        assert part.seconds > 0

    @pytest.mark.parametrize(
        ("wrap", "path"),
        [
            (lambda held: Subset(held, range(4)), "dataset.dataset.array"),
            (lambda held: ConcatDataset([held]), "dataset.datasets[0].array"),
            (lambda held: ConcatDataset([held, *others(2)]), "dataset.datasets"),
        ],
    )
    def test_is_looked_for_in_datasets_within_datasets(self, wrap, path):
        part = heaviest(wrap(Holding(array=np.zeros((100, 50)))))
        assert part.path == path

    def test_may_be_what_another_function_holds(self):
        collate = functools.partial(max, bytes(10_000))
        assert heaviest(Holding(), collate_fn=collate).path == "collate_fn"

    def test_is_what_getstate_says(self):
        part = heaviest(OwnState(much=bytes(1 << 20)))
        assert (part.path, part.kind) == ("dataset.made", "bytes of 1,000")

    def test_counts_no_tensor_that_workers_share(self):
        part = heaviest(Holding(shared=torch.zeros(1 << 18), listed=[0.5] * 1000))
        assert part.path == "dataset.listed"

    def test_may_lie_beside_locks_and_shared_numbers(self):
        context = multiprocessing.get_context("spawn")
        names = ["ab"[i % 2] * 99 + str(i) for i in range(9)]
        held = Holding(lock=context.Lock(), epoch=context.Value("i", 3), names=names)
        assert heaviest(held).path == "dataset.names"
        assert multiprocessing.context.get_spawning_popen() is None

    def test_is_none_where_there_is_no_time(self):
        setup = Setup(loader(Holding(texts=[str(i) for i in range(100_000)])))
        part, holder = heaviest_part(setup, time.monotonic() - 1)
        assert part is None or part.n_bytes < 1 << 20
        del holder

    def test_that_cannot_be_pickled_is_left_out(self):
        assert heaviest(Holding(lock=threading.Lock(), names=[*"abc"] * 99)).path == "dataset.names"


class TestWhatCannotBePickled:
    def test_is_named_where_it_is(self):
        found = unpicklable_part(Setup(loader(Holding(reader=Reader()))), soon())
        assert (found.path, found.kind) == ("dataset.reader.lock", "lock")
        assert "cannot pickle" in found.error

    def test_is_nothing_in_a_loader_that_can_be_sent(self):
        assert unpicklable_part(Setup(loader(Squared(square))), soon()) is None


def sent(method: str = "spawn", **parts: Any) -> Any:
    values = {"pickle_s": 0.3, "pickle_bytes": 30 << 20, "boot_s": 1.0, "unpickle_s": 0.2, **parts}
    workers = made(workers=2).workers
    return workers.assign(start_method=method, **values)


class TestWhatSendingTakes:
    def test_is_pickling_for_each_and_unpickling(self):
        assert sending_s(sent(started_s=[0.3, 0.6])) == pytest.approx(0.8)

    def test_is_the_boots_too_where_one_waits_for_the_other(self):
        assert sending_s(sent(started_s=[0.3, 1.7])) == pytest.approx(1.8)

    @pytest.mark.parametrize("sparse", [{"pickle_bytes": 1 << 20}, {"pickle_bytes": math.nan}])
    def test_is_nothing_where_little_is_sent(self, sparse):
        assert sending_s(sent(**sparse)) == 0

    def test_is_nothing_where_workers_are_forked(self):
        assert sending_s(sent("fork")) == 0


@pytest.mark.parametrize(
    ("persistent", "parts", "worth_it"),
    [
        (True, {}, True),
        (True, {"pickle_bytes": 1000}, False),
        (False, {"pickle_bytes": 1000}, True),
        (False, {"pickle_bytes": 1000, "boot_s": 0.01, "unpickle_s": 0, "pickle_s": 0}, False),
        (True, {"boot_s": math.nan}, False),
    ],
)
def test_it_is_tried_only_where_it_takes_long(persistent, parts, worth_it):
    trace = made(workers=2)
    trace = type(trace)(trace.batches, trace.samples, sent(**parts), trace.spans, trace.meta)
    setup = Setup(loader(SleepingDataset(8, 0), persistent_workers=persistent))
    assert is_worth_trying(setup, trace) == worth_it


def test_each_way_to_start_is_tried_and_the_dataset_is_then_as_it_was(monkeypatch):
    """Without the starts: the page of LV315 is examined with them."""
    dataset, tried = Holding(paths=bytes(9 << 20)), []
    for name in ("forget_fork_server", "multiprocessing.set_forkserver_preload"):
        monkeypatch.setattr(f"loaderviz._doctor.start_trial.{name}", lambda *modules: None)
    monkeypatch.setattr(
        start_trial._Starts,
        "measure",
        lambda starts, name, *again, **settings: tried.append((name, dataset.paths is None)),
    )
    trace = replace(made(workers=2), workers=sent(started_s=[0.3, 0.6]))
    trial = try_starts(Setup(loader(dataset, multiprocessing_context="spawn")), trace, soon())
    assert [*dict.fromkeys(tried)] == [
        ("forked_s", False),
        ("without_s", True),
        ("server_s", False),
        ("preloaded_s", False),
    ]
    assert dataset.paths is not None
    assert trial.heaviest.path == "dataset.paths"
    assert trial.preload[:2] == ("__main__", "torch")


def failing(worker: int) -> None:
    raise RuntimeError("no such file")


def test_a_start_that_fails_is_not_measured():
    patient = DataLoader(SleepingDataset(8, 0), num_workers=1)
    with record(patient) as recording:
        list(patient)
    patient.__dict__["worker_init_fn"] = failing
    trial = try_starts(Setup(patient), recording.trace, soon())
    assert math.isnan(trial.second_epoch_s)


class TestTheFinding:
    def case(self, **seconds: float) -> Any:
        part = heaviest(Holding(paths=["a"] * 100))
        trial = StartTrial(4.0, heaviest=part, preload=("__main__", "torch"), **seconds)
        setup = Setup(loader(Holding(), multiprocessing_context="spawn"))
        return trial, Case(setup, ran=True, start_trial=trial)

    def test_advises_only_what_was_measured_to_be_shorter(self):
        trial, case = self.case(forked_s=0.1, preloaded_s=3.9, server_s=5.0, second_epoch_s=0.01)
        assert lv3_starts.cheaper_methods(trial, case) == [
            'DataLoader(dataset, multiprocessing_context="fork")  # sends nothing; not for CUDA'
        ]
        said = " ".join(lv3_starts.measured_starts(trial, case))
        assert "4 s as it is (spawn)" in said
        assert "3.9 s by a fork server that has imported torch (the first time 5 s" in said
        assert "nan" not in said

    @pytest.mark.parametrize(
        ("without_s", "pickle_s", "found", "said"),
        [
            (1.0, 0.3, True, "1 s without dataset.paths"),
            (math.nan, 0.3, True, "a start without dataset.paths was not measured"),
            (4.1, 0.5, True, "was no shorter here"),
            (4.1, 0.02, False, ""),
        ],
    )
    def test_is_none_where_little_is_lost_and_nothing_was_gained(
        self, without_s, pickle_s, found, said
    ):
        _, case = self.case(without_s=without_s)
        trace = made(workers=2)
        workers = sent(pickle_s=pickle_s, boot_s=3.0, unpickle_s=0.2, started_s=[0.3, 0.6])
        trace = replace(trace, workers=workers)
        note = SimpleNamespace()
        epochs = (Epoch("plain", 0, (note,), complete=True, first_s=4.0, delivered_s=(4.0,)),)
        finding = CHECKS["LV315"].judge(replace(case, trace=trace, epochs=epochs))
        assert (finding is not None) == found
        if finding is not None:
            assert finding.state == "found"
            assert said in " ".join(finding.evidence)

    def test_gives_the_code_of_a_fork_server_that_was_shorter(self):
        trial, case = self.case(preloaded_s=0.2, server_s=5.0)
        (code,) = lv3_starts.cheaper_methods(trial, case)
        assert "set_forkserver_preload(['__main__', 'torch'])" in code

    def test_does_not_advise_to_fork_beside_other_threads(self):
        trial, case = self.case(forked_s=0.1)
        done = threading.Event()
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            assert lv3_starts.cheaper_methods(trial, case) == []
        finally:
            done.set()
            thread.join()
