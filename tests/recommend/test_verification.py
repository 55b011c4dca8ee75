"""``recommend`` measures what it recommends: what it runs, what it concludes, what it says."""

import dataclasses
import fcntl
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from loaderviz import Costs, Trace, recommend, simulate
from loaderviz._recommend import measure_candidates, trial_recording, verify_prediction
from loaderviz._recommend.bottleneck import Limit
from loaderviz._recommend.choose_candidate import choose_measured
from loaderviz._recommend.contradiction import Contradiction, explain
from loaderviz._recommend.evidence import evidence_from_trace
from loaderviz._recommend.trial_recording import record_trial
from loaderviz.datasets import SleepingDataset
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.start_method import start_method
from probes import Keys, as_it_is
from traces import behind_a_lock

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="a process can be copied on Linux only")


def verified(loader: Any, **given: Any) -> Any:
    return recommend(loader, **{"seconds": 0.6, "max_workers": 4, **given})


def measured(found: Any) -> dict[int, float]:
    """Samples/s by workers, in order; out of order more of a gain is asked for to be chosen.

    Those of the fastest, where settings with as many workers differ in something else.
    """
    table = found.candidates.dropna(subset="measured_per_s")
    return table[table["in_order"]].groupby("num_workers")["measured_per_s"].max().to_dict()


def chosen(found: Any) -> Any:
    (row,) = found.candidates[found.candidates["recommended"]].to_dict("records")
    return row


class Locked(Dataset[Any]):
    """Samples are read under a lock, by one process at a time."""

    def __init__(self, path: Any, seconds: float) -> None:
        self.path, self.seconds = path, seconds

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, key: int) -> Any:
        with self.path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(self.seconds)
        return torch.zeros(4)


class SlowInWorkers(Dataset[Any]):
    """As where the memory is slower there, or torch computes with one thread."""

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, key: int) -> Any:
        time.sleep(0.002 if get_worker_info() is None else 0.05)
        return torch.zeros(4)


class Mortal(Keys):
    """Ends its process where another worker than the first reads from it."""

    def __getitem__(self, key: Any) -> Any:
        time.sleep(0.005)
        if torch.utils.data.get_worker_info().id > 0:
            os._exit(3)
        return super().__getitem__(key)


class Clock:
    """Time passes where it is said to, and by a little whenever somebody asks for it."""

    now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def perf_counter(self) -> float:
        return self.now

    def thread_time(self) -> float:
        self.now += 1e-6
        return self.now

    def batches(self, n: int, *, start_s: float, batch_s: float, burst: int = 1) -> Iterator[int]:
        self.now += start_s
        for batch in range(n):
            if batch % burst == 0:
                self.now += burst * batch_s
            yield batch


class TestALoader:
    def test_its_own_and_the_best_settings_are_measured_in_turns_and_both_are_said(self, capsys):
        loader = DataLoader(SleepingDataset(100_000, 0.005), batch_size=4, num_workers=1)
        found = verified(loader, step_s=0.01)
        said = " ".join(capsys.readouterr().out.split())
        # With those that are nearly as good for fewer workers, by such a short recording. Beside
        # other work its samples may look uneven: then so many batches are waited for.
        how_long = r"(for 0\.18 s from the first batch|until \d+ batches came)"
        assert re.search(rf"recommend: measures [23] settings, 2 times each, {how_long}", said)
        rates = measured(found)
        assert 1 in rates
        assert f"{found.candidates['measured_per_s'].count()} settings measured" in found.numbers
        assert chosen(found)["measured_per_s"] >= 0.96 * max(rates.values())
        assert "samples/s measured (" in found.verdict
        assert " as it is now)" in found.verdict
        assert any(note.startswith("Measured samples/s: 1 worker: ") for note in found.notes)
        # Other work on the machine makes it slower, and nothing makes it faster than it sleeps.
        for n, per_s in rates.items():
            assert 0 < per_s <= 1.1 * min(n / 0.005, 4 / 0.01)

    @LINUX
    def test_what_loading_costs_without_workers_is_recorded_without_them(self, monkeypatch):
        # On a busy machine so short a recording may be too uncertain to be used.
        monkeypatch.setattr(trial_recording, "SMALL_ERROR", math.inf)
        given: Any = {"step_s": None, "step_cpu_share": 0.0, "n_batches": None}
        evidence = record_trial(DataLoader(SlowInWorkers(), batch_size=4), 0.8, **given)
        without = evidence.costs_without_workers
        assert without is not None
        assert np.median(without.sample_s) < np.median(evidence.costs.sample_s) / 2

    @LINUX
    def test_without_workers_a_copy_of_this_process_runs(self):
        dataset = Read(100_000, as_it_is)
        found = verified(DataLoader(dataset, batch_size=4))
        assert 0 in measured(found)
        assert dataset.n_read == 0

    def test_where_no_copy_can_be_made_no_workers_stay_a_prediction(self, monkeypatch):
        monkeypatch.setattr(measure_candidates, "may_fork", lambda workers: False)
        loader = DataLoader(SleepingDataset(100_000, 0.005), batch_size=4)
        found = verified(loader, step_s=0.01, max_workers=2)
        assert 0 not in measured(found)
        assert found.settings["num_workers"] in measured(found)
        assert "as it is now" not in found.verdict
        assert "samples/s predicted" in found.notes[-1]

    def test_nothing_is_measured_where_that_is_switched_off(self, capsys):
        found = verified(DataLoader(SleepingDataset(400, 0.005), batch_size=4), verify=False)
        assert "recommend: measures" not in capsys.readouterr().out
        assert not measured(found)
        assert "samples/s predicted" in found.verdict

    @pytest.mark.slow
    def test_samples_behind_one_lock_get_no_more_workers_than_gain_something(self, tmp_path):
        loader = DataLoader(Locked(tmp_path / "lock", 0.004), batch_size=4, num_workers=1)
        found = verified(loader, seconds=1, max_workers=8)
        rates, per_s = measured(found), chosen(found)["measured_per_s"]
        best = max(rates.values())
        fewer = [rates[n] for n in rates if n < found.settings["num_workers"]]
        assert all(best > 1.03 * rate for rate in fewer), rates  # none of them is as good
        assert "limited by what samples share" in found.verdict
        assert found.limits.startswith("shared: a sample takes ")
        assert any("does not hold for" in note for note in found.notes)
        assert per_s >= 0.96 * best
        assert best < 1.2 / 0.004
        table = found.candidates
        assert (table[table["num_workers"] > 1]["low_per_s"] <= 1.2 * best).all()

    def test_a_setting_whose_workers_die_is_not_recommended(self):
        loader = DataLoader(Mortal(100_000, as_it_is), batch_size=4, num_workers=1)
        found = verified(loader)
        assert found.settings["num_workers"] == 1
        assert 0.0 in measured(found).values()
        assert "a worker was killed" in found.limits


class Read(Keys):
    """Knows how often this process has read from it."""

    n_read = 0

    def __getitem__(self, key: Any) -> Any:
        self.n_read += 1
        return super().__getitem__(key)


class TestWhatItConcludes:
    """With a recording and with measurements that are given instead of made."""

    def found(
        self,
        monkeypatch: Any,
        per_s: Any,
        sample_s: Any = 0.0,
        costs: Costs | None = None,
        present: LoaderSettings = LoaderSettings(1, 4),  # noqa: B008 (it is frozen)
        **given: Any,
    ) -> Any:
        """Where ``per_s(n)`` batches come with n workers, and samples take ``sample_s(n)``."""

        def measure(loader: Any, evidence: Any, settings: Any, seconds: float, epochs: int) -> Any:
            self.rounds.append([setting.num_workers for setting in settings])
            return {each: np.full(2, 1 / per_s(each.num_workers)) for each in settings}

        def record_run(loader: Any, evidence: Any, setting: Any, seconds: float) -> Trace:
            n = setting.num_workers
            return simulate(Costs(sample_s=sample_s(n)), num_workers=n, n_batches=80, batch_size=4)

        def record_trial(loader: Any, seconds: float, **known: Any) -> Any:
            one = simulate(costs, num_workers=1, batch_size=4, n_batches=100)
            evidence = evidence_from_trace(one, **{**known, "step_s": known["step_s"] or 0.0})
            return dataclasses.replace(evidence, present=present)

        costs = costs or Costs(sample_s=0.005, cores=2.0)
        self.rounds: list[list[int]] = []
        monkeypatch.setattr(sys.modules[recommend.__module__], "record_trial", record_trial)
        monkeypatch.setattr(verify_prediction, "measure", measure)
        monkeypatch.setattr(verify_prediction, "record_run", record_run)
        loader = DataLoader(SleepingDataset(100_000, 0.005), batch_size=4, num_workers=1)
        return verified(loader, **given)

    def test_where_the_gain_is_there_nothing_else_is_run(self, monkeypatch):
        found = self.found(monkeypatch, lambda n: 50 * n)
        assert self.rounds == [[1, 4]]
        assert found.settings["num_workers"] == 4
        assert chosen(found)["measured_per_s"] == 4 * 200
        assert found.limits.startswith("sample I/O: ")

    def test_where_it_is_not_settings_between_are_run_and_the_cheapest_is_taken(self, monkeypatch):
        found = self.found(
            monkeypatch, lambda n: 45 * min(n, 4), lambda n: 0.005 * max(n / 4, 1), max_workers=16
        )
        assert self.rounds[0] == [1, 16]
        assert self.rounds[1][0] == 4  # would be enough if there is no more to be had
        assert 4 < self.rounds[1][1] < 16
        assert found.settings["num_workers"] == 4
        assert found.limits.startswith("shared: ")
        error = found.candidates["samples_per_s"] / found.candidates["measured_per_s"] - 1
        assert found.candidates["error"].dropna().tolist() == pytest.approx(error.dropna().tolist())
        found = self.found(  # with a peak between
            monkeypatch,
            lambda n: 45 * n if n <= 8 else 45 * 4,
            lambda n: 0.005 * max(n / 4, 1),
            max_workers=16,
        )
        assert found.settings["num_workers"] == self.rounds[1][1]

    def test_what_holds_while_others_use_the_cpus_is_said_to_do_so(self, monkeypatch):
        limit = Limit("other processes", text="they take the CPUs")
        contradiction = Contradiction(LoaderSettings(4), limit)
        monkeypatch.setattr(verify_prediction, "explain", lambda *seen: contradiction)
        found = self.found(monkeypatch, lambda n: 50 if n else 30, lambda n: 0.005 * n)
        assert found.limits == "other processes: they take the CPUs"
        assert any("ask again on a quiet machine" in note for note in found.notes)

    def test_a_prediction_that_is_a_little_off_is_not_called_wrong(self, monkeypatch):
        found = self.found(monkeypatch, lambda n: 43 * n)
        assert found.settings["num_workers"] == 4
        assert found.limits.startswith("sample I/O: ")
        assert not any("does not hold" in note for note in found.notes)

    def test_where_workers_are_predicted_to_be_little_slower_than_none_they_are_run(
        self, monkeypatch
    ):
        for faster, best in ((1.3, 1), (0.9, 0)):
            found = self.found(
                monkeypatch,
                lambda n, faster=faster: 50 * faster if n else 50,
                costs=Costs(sample_s=0.005, cpu_share=1.0, cores=1.0),
                present=LoaderSettings(0),
                max_workers=2,
            )
            assert self.rounds == [[0, 1]]
            assert found.settings["num_workers"] == best

    def test_the_cheapest_that_is_predicted_to_be_nearly_as_fast_is_run_too(self, monkeypatch):
        """Three workers take 7 % longer than four, which wait for the step."""
        for as_fast, best in ((1.0, 3), (0.9, 4)):
            found = self.found(
                monkeypatch,
                lambda n, as_fast=as_fast: 160 * as_fast if n == 3 else min(50 * n, 160),
                step_s=0.0057,
            )
            assert self.rounds == [[1, 3, 4]]
            assert found.settings["num_workers"] == best

    def test_where_each_worker_makes_as_much_as_each_of_few_more_of_them_are_run(self, monkeypatch):
        """A sample takes 1.6 times as long as in the recording, so that four are too few."""

        def slower(n):
            return min(50 / 1.6 * max(n, 1), 200)

        for present, rounds in ((1, [[1, 4], [6, 7]]), (0, [[0, 4], [3, 2], [6, 7]])):
            found = self.found(
                monkeypatch,
                slower,
                step_s=0.005,
                max_workers=16,
                present=LoaderSettings(present),
            )
            assert self.rounds == rounds
            assert found.settings["num_workers"] == 7
            assert chosen(found)["measured_per_s"] == 4 * 200
            assert re.match(r"a batch took 1\.6 times as long as predicted with ", found.limits)

    def test_where_nothing_is_faster_it_stays_as_it_is(self, monkeypatch):
        for step_s in (None, 0.01):
            given = {} if step_s is None else {"step_s": step_s}
            found = self.found(monkeypatch, lambda n: 50 if n else 30, lambda n: 0.005 * n, **given)
            assert found.settings["num_workers"] == 1
            assert "200 samples/s measured, as it is now" in found.verdict
            assert "busy" not in found.verdict  # though it is predicted

    @pytest.mark.parametrize(
        ("many", "faster", "given", "best"),
        [
            # The order is given up for a large gain only.
            (LoaderSettings(4, in_order=False), 1.04, {}, "few"),
            (LoaderSettings(4, in_order=False), 1.08, {}, "many"),
            (LoaderSettings(8), 1.01, {}, "few"),
            (LoaderSettings(8), 1.03, {}, "many"),
            # Where more workers did not help, more of a gain is asked of them.
            (LoaderSettings(8), 1.03, {"contradicted": True}, "few"),
            (LoaderSettings(8), 1.06, {"contradicted": True}, "many"),
            # However much runs differ, no more than three percent are given up.
            (LoaderSettings(3), 1.025, {"differ": 0.05}, "few"),
            (LoaderSettings(3), 1.035, {"differ": 0.05}, "many"),
            # Of few uneven batches, predictions that agree count: here many get 6 % more.
            (LoaderSettings(8), 1.0, {"error": 0.01}, "few"),
            (LoaderSettings(8), 1.0, {"error": 0.1}, "many"),
            (LoaderSettings(8), 1 / 1.05, {"error": 0.03}, "few"),  # measured against it
            (LoaderSettings(8), 1 / 1.05, {"error": 0.1}, "many"),  # ... which may be chance
            (LoaderSettings(8), 1 / 1.3, {"error": 1.0}, "few"),  # the prediction is wrong
        ],
    )
    def test_of_two_that_were_measured_the_cheaper_one_has_an_advantage(
        self, many, faster, given, best
    ):
        runs_s = np.array([1 - given.get("differ", 0), 1 + given.get("differ", 0)]) * 0.1
        two: Any = [
            SimpleNamespace(setting=setting, batch_s=np.full(3, predicted_s))
            for setting, predicted_s in ((LoaderSettings(2), 0.106), (many, 0.100))
        ]
        options = {name: value for name, value in given.items() if name != "differ"}
        batch_s = {LoaderSettings(2): runs_s, many: runs_s / faster}
        assert choose_measured(two[0], two, batch_s, **options) is two[best == "many"]


class TestWhy:
    """What a second recording shows beside one with a single worker."""

    def limit(self, alone: Costs, together: Costs, workers: int = 4) -> Any:
        one, many = (
            simulate(costs, num_workers=n, batch_size=4, n_batches=100)
            for costs, n in ((alone, 1), (together, workers))
        )
        setting = LoaderSettings(workers)
        return explain(evidence_from_trace(one), setting, many).limit

    def test_samples_that_take_longer_and_compute_nothing_wait_for_one_another(self):
        limit = self.limit(Costs(sample_s=0.004, cores=2.0), Costs(sample_s=0.016, cores=2.0))
        assert limit.part == "shared"
        assert "4 ms with 1 worker, 16 ms with 4 workers" in limit.text

    def test_samples_that_compute_on_full_cpus_wait_for_a_cpu(self):
        computing = Costs(sample_s=0.004, cpu_share=1.0, cores=2.0)
        limit = self.limit(computing, computing)
        assert limit.part == "sample CPU"
        assert "of 2 CPUs are busy" in limit.text

    @pytest.mark.parametrize(("throttled", "part"), [(0.0, "other processes"), (0.7, "CPU quota")])
    def test_workers_that_stand_in_line_while_cpus_are_not_theirs(self, throttled, part):
        costs = Costs(sample_s=0.01, cpu_share=0.1, cores=2.0)
        one, many = (simulate(costs, num_workers=n, batch_size=4, n_batches=100) for n in (1, 4))
        took_s = many.batches["ready_s"] - many.batches["started_s"]
        queued = many.batches.assign(queued_s=0.8 * took_s, throttled_s=throttled * took_s)
        trace = Trace(queued, many.samples, many.workers, many.spans, meta=many.meta)
        limit = explain(evidence_from_trace(one), LoaderSettings(4), trace).limit
        assert limit.part == part
        assert "waits for one 80 % of the time" in limit.text

    def test_samples_that_compute_for_longer_share_the_memory(self):
        quick, slow = (Costs(sample_s=s, cpu_share=1.0, cores=4.0) for s in (0.004, 0.008))
        assert self.limit(quick, slow, workers=2).part == "memory"

    def test_samples_that_are_as_fast_as_before_are_not_blamed(self):
        costs = Costs(sample_s=0.001, cores=2.0)
        limit = self.limit(costs, Costs(sample_s=0.001, transport_s=0.1, cores=2.0), workers=2)
        assert limit.part == ""
        assert "reading samples does not explain it" in limit.text


@pytest.mark.usefixtures("brief_predictions")
class TestATrace:
    """Of which nothing can be measured."""

    def of(self, workers: int, **costs: Any) -> Any:
        trace = simulate(
            Costs(**{"sample_s": 0.005, "cores": 2.0, **costs}),
            num_workers=workers,
            batch_size=8,
            n_batches=100,
        )
        return recommend(trace, max_workers=8)

    def test_more_workers_than_were_recorded_may_gain_nothing_and_it_says_so(self):
        found = self.of(1)
        row = chosen(found)
        assert row["num_workers"] == 8
        assert row["low_per_s"] == pytest.approx(1 / 0.005, rel=0.05)
        assert row["high_per_s"] > row["samples_per_s"] > 6 * row["low_per_s"]
        assert "samples/s predicted" in found.verdict
        assert f"{row['low_per_s']:.0f} to " in found.numbers
        assert any(note.startswith("Predicted, not measured") for note in found.notes)

    def test_that_is_most_uncertain_where_one_process_read(self):
        low = [chosen(self.of(workers))["low_per_s"] for workers in (0, 1, 2, 4)]
        assert low[0] == pytest.approx(low[1], rel=0.05)
        assert low[1] < low[2] < low[3]

    def test_samples_that_only_compute_wait_for_nothing_that_is_shared(self):
        found = self.of(1, cpu_share=1.0)
        assert chosen(found)["low_per_s"] > 0.9 * chosen(found)["samples_per_s"]
        assert not any(note.startswith("Predicted, not measured") for note in found.notes)

    def test_no_more_workers_than_recorded_are_as_certain_as_before(self):
        found = self.of(8)
        assert chosen(found)["low_per_s"] > 0.9 * chosen(found)["samples_per_s"]
        assert not any(note.startswith("Predicted, not measured") for note in found.notes)

    def test_another_start_method_than_the_usual_one_is_said(self):
        other = "spawn" if start_method() != "spawn" else "fork"
        costs = Costs(sample_s=0.005, cores=2.0)
        for method, said in ((other, True), (start_method(), False)):
            trace = simulate(costs, batch_size=4, num_workers=2, n_batches=50, start_method=method)
            found = recommend(trace, n_batches=50, max_workers=2)
            assert said == any("The workers were started with" in note for note in found.notes)

    def test_helper_threads_need_cpus_of_their_own(self):
        found = self.of(1, cpu_share=1.0, threads=2.0)
        assert found.settings["num_workers"] <= 2
        assert found.limits.startswith("sample CPU: ")
        assert "2.0 of 2 CPUs are busy" in found.limits

    def test_samples_seen_to_wait_for_one_another_get_no_more_workers(self):
        found = recommend(behind_a_lock(), max_workers=16)
        assert found.settings["num_workers"] <= 4
        assert "limited by what samples share" in found.verdict
        assert found.limits.startswith("shared: ")


class TestMoreRuns:
    """Of the best, where runs of one setting differ."""

    def again(self, monkeypatch, batch_s, error=0.0):
        """What comes of these seconds a batch by number of workers; all later runs take 1.2 s."""
        monkeypatch.setattr(measure_candidates, "_measured_s", lambda *_: 1.2)
        known = {LoaderSettings(n): np.array(each) for n, each in batch_s.items()}
        loader: Any = None
        evidence: Any = SimpleNamespace(error=error)
        found = measure_candidates.measure_again(loader, evidence, known, 1.0, 1)
        return {setting.num_workers: list(each) for setting, each in found.items()}

    def test_are_of_those_that_may_be_the_best(self, monkeypatch, capsys):
        found = self.again(monkeypatch, {1: [1.0, 1.2], 2: [1.1, 1.1], 3: [1.3, 1.3]})
        assert found[1] == [1.0, 1.2, 1.2, 1.2, 1.2]
        assert found[2] == [1.1, 1.1, 1.2, 1.2, 1.2]
        assert found[3] == [1.3, 1.3]
        said = " ".join(capsys.readouterr().out.split())
        assert "measures 2 settings 3 times more, because runs of the same setting differ" in said

    def test_are_one_each_where_uneven_batches_make_them_long(self, monkeypatch, capsys):
        found = self.again(monkeypatch, {1: [1.0, 1.2], 2: [1.1, 1.1]}, error=0.2)
        assert found == {1: [1.0, 1.2, 1.2], 2: [1.1, 1.1, 1.2]}
        assert "measures 2 settings 1 time more" in " ".join(capsys.readouterr().out.split())

    @pytest.mark.parametrize(
        "batch_s",
        [
            {1: [1.0, 1.03], 2: [1.1, 1.1]},
            {1: [1.0, 1.2]},
            {1: [1.0, 1.03], 2: [1.3, 2.0]},
            {1: [math.inf], 2: [math.inf]},
            {},
        ],
        ids=["runs agree", "nothing beside it", "the other is slower", "none came", "none ran"],
    )
    def test_are_not_made_where_they_would_tell_nothing(self, monkeypatch, capsys, batch_s):
        assert self.again(monkeypatch, batch_s) == batch_s
        assert not capsys.readouterr().out


class TestARun:
    @pytest.mark.parametrize("cpu_share", [0.0, 0.5])
    def test_is_of_the_pace_or_of_a_whole_epoch(self, monkeypatch, cpu_share):
        clock = Clock()
        monkeypatch.setattr(measure_candidates, "time", clock)

        def batch_s(n: int, n_batches: Any = None, burst: int = 1, **setting: Any) -> float:
            evidence: Any = SimpleNamespace(
                costs=SimpleNamespace(step_s=[0.01], step_cpu_share=cpu_share),
                n_batches=n_batches,
                error=0.0,
            )
            loader: Any = clock.batches(n, start_s=5, batch_s=0.03, burst=burst)
            settings = LoaderSettings(**{"num_workers": burst, **setting})
            return measure_candidates._batch_s(loader, evidence, settings, 1, epochs=10)

        pace_s = pytest.approx(0.04, rel=1e-3)
        assert batch_s(10_000) == pace_s
        assert batch_s(10_000, burst=8) == pace_s
        assert batch_s(10) == pytest.approx((5 + 10 * 0.04) / 10, rel=1e-3)
        # A known epoch: with the start of workers, in each epoch or once.
        assert batch_s(10_000, 10_000) == pytest.approx(0.04 + 5 / 10_000, rel=1e-2)
        kept = batch_s(10_000, 10_000, persistent_workers=True)
        assert kept == pytest.approx(0.04 + 5 / 100_000, rel=1e-2)

    def test_what_workers_have_made_counts_where_the_loop_waits_for_one_of_them(self, monkeypatch):
        """Eight workers in turns at one batch in 0.04 s, of which one is late at first."""
        clock = Clock()
        monkeypatch.setattr(measure_candidates, "time", clock)

        class Unfair:
            """Its first batches come as others lie ready, the later ones as they are made."""

            n = 0

            def __iter__(self) -> Any:
                return self

            def __next__(self) -> int:
                self.n += 1
                n_made = max(round(clock.now / 0.04), 24 if self.n <= 16 else 0, self.n)
                clock.now = 0.04 * n_made
                self._task_info = dict.fromkeys(range(n_made - self.n), (0, "made"))
                return self.n

        evidence: Any = SimpleNamespace(
            costs=SimpleNamespace(step_s=[0.0], step_cpu_share=0.0), n_batches=None, error=0.0
        )
        loader: Any = Unfair()
        batch_s = measure_candidates._batch_s(loader, evidence, LoaderSettings(8), 1, epochs=1)
        assert batch_s == pytest.approx(0.04, rel=0.01)

    @pytest.mark.parametrize(
        ("error", "batch_s", "expected_s"),
        [(0.05, 0.03, 0.04), (0.2, 0.03, (30 * 0.04 + 21 * 0.08) / 51), (0.2, 0.3, 0.31)],
        ids=["even", "uneven", "uneven and slow: three times the seconds at most"],
    )
    def test_uneven_batches_are_those_that_were_recorded(
        self, monkeypatch, error, batch_s, expected_s
    ):
        """51 and the one after; a second is less than the first 31, and the others take longer."""
        clock = Clock()
        monkeypatch.setattr(measure_candidates, "time", clock)

        def batches() -> Iterator[int]:
            yield from clock.batches(31, start_s=0, batch_s=batch_s)
            yield from clock.batches(21, start_s=0, batch_s=batch_s + 0.04)
            yield from clock.batches(100, start_s=0, batch_s=10)

        evidence: Any = SimpleNamespace(
            costs=SimpleNamespace(step_s=[0.01], step_cpu_share=0.0),
            n_batches=None,
            n_recorded=51,
            error=error,
        )
        loader: Any = batches()
        found_s = measure_candidates._batch_s(loader, evidence, LoaderSettings(0), 1, epochs=1)
        assert found_s == pytest.approx(expected_s, rel=0.01)

    def test_short_epochs_are_run_until_the_time_is_over(self, monkeypatch):
        clock = Clock()
        monkeypatch.setattr(measure_candidates, "time", clock)
        evidence: Any = SimpleNamespace(
            costs=SimpleNamespace(step_s=[0.01], step_cpu_share=0.0), n_batches=5, error=0.0
        )
        starts = iter([0.1, 0.2, 0.3, 5.0])

        class Epochs:
            def __iter__(self) -> Any:
                return clock.batches(5, start_s=next(starts), batch_s=0.03)

        loader: Any = Epochs()
        batch_s = measure_candidates._batch_s(loader, evidence, LoaderSettings(1), 1, epochs=1)
        assert batch_s == pytest.approx((0.6 + 3 * 5 * 0.04) / 15, rel=1e-3)

    def test_a_long_step_is_more_than_one_batch(self, monkeypatch):
        clock = Clock()
        monkeypatch.setattr(measure_candidates, "time", clock)
        evidence: Any = SimpleNamespace(
            costs=SimpleNamespace(step_s=[7.0], step_cpu_share=0.0), n_batches=None, error=0.0
        )
        loader: Any = clock.batches(100, start_s=1, batch_s=0.03)
        batch_s = measure_candidates._batch_s(loader, evidence, LoaderSettings(1), 1, epochs=1)
        assert math.isfinite(batch_s)
        assert batch_s >= 7
