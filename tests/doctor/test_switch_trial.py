"""A shorter switch interval is advised only where it was measured to gain."""

import math
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from torch.utils.data import Dataset, get_worker_info

import loaderviz as lv
from loaderviz._doctor import examination_runs, switch_trial
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import Case
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_epochs import Epoch
from loaderviz._doctor.switch_trial import (
    QUICK_S,
    STRETCH,
    SwitchTrial,
    computes_and_hands_over_late,
    sure_gain,
    try_quick_switches,
)
from loaderviz.course.datasets import SleepingDataset
from patients import loader
from traces import made


class ReadingAhead(Dataset):
    """Each worker has a thread of its own that computes in Python, all the time."""

    def __init__(self, n: int) -> None:
        self.n, self.begun = n, False

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        if not self.begun and get_worker_info() is not None:
            self.begun = True
            threading.Thread(target=count_for_ever, daemon=True).start()
        return index


def count_for_ever() -> None:
    n = 0
    while True:
        n += 1


def switch_soon(worker: int) -> None:
    sys.setswitchinterval(1e-4)


NOISE = (1.0, 1.3, 0.9, 1.1, 2.0, 0.8)


class TestAGain:
    def test_is_the_part_of_the_time_that_is_saved(self):
        trial = SwitchTrial(0.01, 0.005, NOISE, tuple(each / 2 for each in NOISE))
        assert trial.gain == pytest.approx(0.5)

    @pytest.mark.parametrize("quick", [NOISE, NOISE[::-1], (0.7, *NOISE[1:])])
    def test_that_may_be_chance_is_none(self, quick):
        assert SwitchTrial(0.01, 0.005, NOISE, quick).gain == 0

    def test_is_none_where_it_is_slower(self):
        trial = SwitchTrial(0.01, 0.005, NOISE, tuple(2 * each for each in NOISE))
        assert trial.gain == 0
        assert trial.apparent_gain == pytest.approx(-1)

    @pytest.mark.parametrize(
        ("quick", "answer"),
        [
            (tuple(0.7 * each for each in NOISE), "undecided"),  # too few turns for so much noise
            (tuple(0.99 * each for each in NOISE), "clear"),
            (tuple(0.2 * each for each in NOISE), "found"),
        ],
    )
    def test_that_is_not_sure_is_not_decided(self, quick, answer):
        trial = SwitchTrial(0.01, 0.005, NOISE, quick)
        epoch = Epoch(
            "plain", 0, (SimpleNamespace(),), complete=True, first_s=0.1, delivered_s=(0.1,)
        )
        setup = Setup(loader(ReadingAhead(24), workers=1))
        case = Case(setup, ran=True, epochs=(epoch,), switch_trial=trial)
        finding = CHECKS["LV308"].judge(case)
        assert ("clear" if finding is None else finding.state) == answer


def test_the_doctor_tries_it_where_it_is_worth_it(monkeypatch):
    trial = SwitchTrial(0.01, 0.005, NOISE, tuple(each / 5 for each in NOISE))
    monkeypatch.setattr(examination_runs, "computes_and_hands_over_late", lambda trace: True)
    monkeypatch.setattr(examination_runs, "try_quick_switches", lambda *args: trial)
    assert "LV308" in lv.doctor(loader(SleepingDataset(8, 0), workers=1)).codes


@pytest.mark.parametrize(
    ("late_s", "cpu_s", "worth_it"),
    [(0.5, 0.9, True), (0.5, 0.1, False), (0.0, 0.9, False), (math.nan, math.nan, False)],
)
def test_it_is_tried_only_where_workers_compute_and_batches_come_late(late_s, cpu_s, worth_it):
    trace = made(workers=2, batches=30)  # a batch takes 1 s to make
    delivered_s = trace.batches["ready_s"] + late_s
    batches = trace.batches.assign(delivered_s=delivered_s, requested_s=0.0, cpu_s=cpu_s)
    trace = type(trace)(batches, trace.samples, trace.workers, trace.spans, trace.meta)
    assert computes_and_hands_over_late(trace) == worth_it


def test_stretches_take_turns_and_go_on_over_epochs(monkeypatch):
    monkeypatch.setattr(switch_trial, "MOST_S", 1.5)
    patient = loader(ReadingAhead(20), workers=1)
    trial = try_quick_switches(Setup(patient), 0.0, time.monotonic() + 60)
    assert trial.interval_s == sys.getswitchinterval() > QUICK_S
    assert len(trial.usual_s) == len(trial.quick_s) >= 4
    assert min(trial.usual_s + trial.quick_s) > 0


@pytest.mark.parametrize(("gain", "n_pairs"), [(0.5, 12), (0.0, 48), (0.3, 48)])
def test_it_goes_on_as_long_as_no_gain_is_sure(gain, n_pairs, monkeypatch):
    """Noise as on a busy machine: with the last gain it is sure only after 48 pairs."""
    random, at_s = np.random.default_rng(7), 0.0

    def deliveries(loader, step_s):
        nonlocal at_s
        while True:
            for interval_s, usually_s in ((0.005, 0.004), (QUICK_S, 0.004 * (1 - gain))):
                for _ in range(STRETCH):
                    at_s += usually_s * random.lognormal(0, 0.1 if gain == 0.5 else 1)
                    yield at_s, False, interval_s

    monkeypatch.setattr(switch_trial, "_deliveries", deliveries)
    patient = loader(ReadingAhead(20), workers=1)
    trial = try_quick_switches(Setup(patient), 0.0, math.inf)
    assert len(trial.usual_s) == len(trial.quick_s) == n_pairs
    assert trial.gain == pytest.approx(gain, abs=0.15)
    assert (sure_gain(trial.usual_s[:12], trial.quick_s[:12]) > 0) == (n_pairs == 12)


def test_workers_that_switch_soon_anyway_have_nothing_to_try():
    patient = loader(ReadingAhead(20), workers=1, worker_init_fn=switch_soon)
    assert try_quick_switches(Setup(patient), 0.0, time.monotonic() + 60) is None
