"""One run of a setting: its pace, and that it leaves everything as it was."""

import os
import sys
import time
from itertools import accumulate

import pytest
import torch
from torch.utils.data import DataLoader

from loaderviz._recommend.measured_run import (
    Run,
    _Epoch,
    _kept_up,
    pace_of_part,
    run_setting,
)
from loaderviz.course.datasets import SleepingDataset
from loaderviz.loader_settings import LoaderSettings
from probes import Keys, as_it_is

S = LoaderSettings
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="a process can be copied on Linux only")


@pytest.mark.parametrize(
    ("took_s", "ahead", "setting", "pace_s"),
    [
        # Twenty lie ready, one in 20 ms is made, a step takes 10 ms; then they are used up.
        (
            [0.010] * 40 + [0.020] * 40,
            [*(20 - n / 2 for n in range(40)), *[0] * 40],
            S(1, 20),
            0.02,
        ),
        # They never are: half of what was taken was made.
        ([0.010] * 20, [20 - n / 2 for n in range(20)], S(1, 20), 0.02),
        # A full queue that varies is no queue that is eaten up.
        ([0.010] * 80, [n % 3 + 14 for n in range(80)], S(4, 4), 0.01),
        # Whole rounds: four come at once, every 80 ms, and the run ends after the first of a round.
        ([0.0, 0.0, 0.0, 0.08] * 10 + [0.08], [0] * 41, S(4), 0.02),
        *(([0.02] * n, [0] * n, S(w), 0.02) for w, n in ((0, 2), (1, 2), (8, 2), (8, 9), (8, 30))),
    ],
)
def test_only_what_is_made_meanwhile_is_the_pace(took_s, ahead, setting, pace_s):
    ends_s = list(accumulate(took_s))
    found_s, n, parts_s = pace_of_part(ends_s, dict(enumerate(ahead, 1)), setting)
    assert found_s == pytest.approx(pace_s, rel=0.05)
    assert 0 < n < len(took_s)
    assert sum(parts_s) / len(parts_s) == pytest.approx(pace_s, rel=0.2)


def run(loader: DataLoader, setting: LoaderSettings, step_s: float = 0.0, **given: object) -> Run:
    given = {"seconds": 0.3, "deadline": time.monotonic() + 20, **given}
    return run_setting(loader, setting, lambda batch: time.sleep(step_s), **given)


class Read(SleepingDataset):
    """Counts what is read in this process."""

    n_read = 0

    def __getitem__(self, index: int) -> int:
        self.n_read += 1
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("workers", "step_s", "least_s"), [(2, 0.0, 0.010), (2, 0.03, 0.03), (0, 0.01, 0.03)]
)
@LINUX
def test_a_pace_is_that_of_reading_or_of_steps_and_nothing_is_read_here(workers, step_s, least_s):
    dataset = Read(100_000, 0.005)
    found = run(DataLoader(dataset, batch_size=4), S(workers), step_s)
    assert dataset.n_read == 0
    assert 0.95 * least_s < found.pace_s < float("inf")  # other work makes it slower, none quicker
    assert found.n_batches > 0
    assert found.step_s >= step_s
    assert found.kept_up <= (workers > 0)  # beside other work it may not


def test_batches_made_in_a_long_step_do_not_count():
    """The first step takes as long as a queue of sixteen; two workers need 20 ms a batch."""
    loader = DataLoader(SleepingDataset(100_000, 0.005), batch_size=8)
    slow = iter([0.4])

    def step(batch: object) -> None:
        time.sleep(next(slow, 0.0))

    found = run_setting(loader, S(2, 8), step, seconds=1.0, deadline=time.monotonic() + 20)
    assert found.pace_s > 0.9 * 0.020


class Mortal(Keys):
    """Ends its process where another worker than the first reads from it."""

    def __getitem__(self, key: object) -> object:
        if torch.utils.data.get_worker_info().id > 0:
            os._exit(3)
        return super().__getitem__(key)


def test_a_worker_that_dies_is_told():
    found = run(DataLoader(Mortal(1000, as_it_is), batch_size=4), S(2))
    assert found.died
    assert found.pace_s == float("inf")


@pytest.mark.parametrize("workers", [1, pytest.param(0, marks=LINUX)])
def test_a_batch_that_takes_longer_than_there_is_time_is_not_waited_for(workers):
    loader = DataLoader(SleepingDataset(10, 1.5), batch_size=1)
    begun = time.monotonic()
    found = run(loader, S(workers), deadline=begun + 0.3)
    assert found.pace_s == float("inf")
    assert not found.died
    assert time.monotonic() - begun < 30  # and not for all ten


def test_short_epochs_are_run_again_with_the_start_apart():
    loader = DataLoader(SleepingDataset(16, 0.01), batch_size=4)
    found = run(loader, S(2), read_s=0.04, seconds=2.0)
    assert found.n_batches >= 8
    assert found.n_batches % 4 == 0
    assert found.start_s > 0
    assert found.pace_s > 0.9 * 0.02


@pytest.mark.parametrize(
    ("ahead", "waits_s", "kept_up"),
    [
        ([3] * 20, [0.001] * 40, True),
        ([1] * 20, [0.001, 0.010] * 20, False),  # one lies ready after each round, and one never
        ([0] * 20, [0.010] * 40, False),
        ([], [0.001] * 40, False),  # no workers
    ],
)
def test_workers_keep_up_where_no_batch_of_a_round_is_waited_for(ahead, waits_s, kept_up):
    epoch = _Epoch()
    epoch.steps_s = [0.02] * len(waits_s)
    epoch.ends_s = list(accumulate(wait_s + 0.02 for wait_s in waits_s))
    epoch.ahead = {2 * i: n for i, n in enumerate(ahead, 1)}
    assert _kept_up(epoch) == kept_up
