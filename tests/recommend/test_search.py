"""The search: which settings it runs and which it chooses, with runs that are given, not made."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from loaderviz._recommend.measured_run import Run
from loaderviz._recommend.search import EQUAL, Found, Question, Search
from loaderviz._recommend.settings_to_try import (
    beside,
    cheapness,
    first_settings,
    needed_workers,
)
from loaderviz.loader_settings import LoaderSettings
from loaderviz.why.causes.savings import most_workers

S = LoaderSettings


class Machine:
    """Runs that take as long as they say, on a clock of their own.

    ``batch_s``: seconds a batch of a setting; infinite: its workers die.
    """

    def __init__(
        self,
        batch_s: Callable[[LoaderSettings], float],
        *,
        step_s: float = 0.0,
        noise: float = 0.0,
        start_s: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.batch_s, self.step_s, self.noise, self.start_s = batch_s, step_s, noise, start_s
        self.random = np.random.default_rng(seed)
        self.now, self.asked = 0.0, []

    def measure(self, setting: LoaderSettings, seconds: float, n_batches: int) -> Run:
        self.asked.append(setting)
        start_s = self.start_s * setting.num_workers
        pace_s = max(self.batch_s(setting), self.step_s)
        self.now += start_s + max(seconds, 3 * min(pace_s, 1e6) * max(1, setting.num_workers))
        if math.isinf(pace_s):
            return Run(died=True)
        parts = pace_s * np.exp(self.noise * self.random.standard_normal(8))
        kept_up = setting.num_workers > 0 and self.batch_s(setting) < 0.99 * self.step_s
        return Run(
            float(parts.mean()), start_s, self.step_s, max(3, int(seconds / pace_s)), kept_up,
            tuple(parts.tolist()),
        )  # fmt: skip

    def search(
        self,
        *,
        present: LoaderSettings = S(2),  # noqa: B008 (it is frozen)
        needed: int = 16,
        most: int = 16,
        budget_s: float = 30.0,
        first: list[LoaderSettings] | None = None,
        **given: object,
    ) -> Found:
        first = first or first_settings(needed, most, present)
        question = Question(first, present, needed, most, **given)
        return Search(
            question, self.measure, budget_s=budget_s, deadline=budget_s, clock=lambda: self.now
        ).run()


def sleeping(read_s: float, most_at_once: float = math.inf) -> Callable[[LoaderSettings], float]:
    """Workers that share nothing, up to so many."""
    return lambda s: read_s / min(max(1, s.num_workers), most_at_once)


def handing_over(read_s: float, hand_s: float) -> Callable[[LoaderSettings], float]:
    return lambda s: read_s if not s.num_workers else max(read_s / s.num_workers, hand_s)


@pytest.mark.parametrize(
    ("batch_s", "step_s", "needed", "best"),
    [
        (sleeping(0.160), 0.020, 10, 8),
        (sleeping(0.150), 0.020, 10, 8),  # 7.5 workers
        (sleeping(0.160), 0.0, 16, 16),
        (sleeping(0.020, 2), 0.0, 3, 2),  # two CPUs
        (sleeping(0.020, 1), 0.0, 16, 0),  # one lock
        (sleeping(0.020, 4), 0.001, 16, 4),  # a server of four connections
        (handing_over(0.0001, 0.001), 0.0, 3, 0),  # tiny samples
        (handing_over(0.0010, 0.0008), 0.0, 3, 2),
        # Reading and steps in turns.
        (lambda s: 0.005 + (0.0 if s.num_workers else 0.1), 0.1, 1, 1),
        (lambda s: 0.1 / (1 + s.num_workers) + 0.004 * s.num_workers, 0.0, 16, 4),  # a peak
        (lambda s: 0.160 * 1.6 / max(1, s.num_workers), 0.020, 10, 13),  # slower than it looked
        (lambda s: math.inf if s.num_workers > 4 else 0.1 / max(1, s.num_workers), 0.0, 16, 4),
    ],
    ids=[
        *("step", "between", "no step", "CPUs", "lock", "server", "tiny", "two", "slow step"),
        *("peak", "slower", "killed"),
    ],
)
def test_the_fewest_workers_that_are_as_good_as_the_best(batch_s, step_s, needed, best):
    found = Machine(batch_s, step_s=step_s).search(needed=needed)
    assert found.best == S(best)


@pytest.mark.parametrize("batch_s", [0.1, math.inf])
def test_with_time_for_one_run_the_answer_is_what_to_begin_with(batch_s):
    # As of a stream that each of today's two workers delivers whole.
    found = Machine(lambda s: batch_s).search(first=[S(0), S(1), S(2)], most=1, budget_s=0.2)
    assert found.best == S(0)
    assert found.too_short


@pytest.mark.parametrize(
    ("batch_s", "best"),
    [(handing_over(0.010, 0.013), 0), (lambda s: 0.01 + 0.002 * abs(s.num_workers - 4), 4)],
    ids=["none", "a peak"],
)
def test_a_burst_of_other_work_that_met_a_run_does_not_decide(batch_s, best):
    """The first run of the best setting takes 1.7 times as long."""
    machine = Machine(batch_s)
    machine.batch_s = lambda s: (
        batch_s(s) * (1.7 if machine.asked.count(s) == 1 and s.num_workers == best else 1.0)
    )
    assert machine.search(needed=4).best.num_workers == best


def test_a_difference_that_is_none_does_not_buy_a_worker():
    for gain, best in ((1 - EQUAL / 2, 2), (0.95, 3)):
        machine = Machine(lambda s, gain=gain: {2: 0.01, 3: 0.01 * gain}.get(s.num_workers, 0.02))
        assert machine.search(needed=3).best == S(best)


@pytest.mark.parametrize(
    ("deeper", "as_they_come", "uneven", "best"),
    [
        (1.0, 1.0, True, S(4)),
        (0.8, 1.0, True, S(4, 8)),
        (1.0, 0.97, True, S(4)),  # the order is worth 5 %
        (1.0, 0.85, True, S(4, in_order=False)),
        (0.8, 0.8, True, S(4, 8)),
        (0.8, 0.8, False, S(4)),  # is not looked for
    ],
)
def test_uneven_batches_are_reason_to_prefetch_more_or_to_give_up_the_order(
    deeper, as_they_come, uneven, best
):
    def batch_s(s):
        times = (deeper if s.prefetch_factor == 8 else 1) * (1 if s.in_order else as_they_come)
        return times * 0.04 / min(max(s.num_workers, 1), 4)

    machine = Machine(batch_s)
    assert machine.search(needed=4, uneven=uneven).best == best
    assert any(s.prefetch_factor == 8 for s in machine.asked) == uneven


def test_the_start_of_workers_counts_where_the_length_of_an_epoch_is_known():
    for starts, best in ((0.0, 4), (1 / 10, 0), (1 / 10_000, 4)):
        machine = Machine(sleeping(0.010, 4), start_s=0.1)
        assert machine.search(needed=4, starts=starts).best == S(best)


@pytest.mark.parametrize("noise", [0.02, 0.10])
@pytest.mark.parametrize(
    ("batch_s", "step_s"),
    [(sleeping(0.160), 0.020), (sleeping(0.02, 2.5), 0.0), (handing_over(0.001, 0.0008), 0.0)],
)
def test_in_noise_the_choice_is_within_three_percent_of_the_best(batch_s, step_s, noise):
    def true_s(setting):
        return max(batch_s(setting), step_s)

    best_s = min(true_s(S(n)) for n in range(17))
    parts = [
        best_s / true_s(Machine(batch_s, step_s=step_s, noise=noise, seed=seed).search().best)
        for seed in range(10)
    ]
    assert sum(part >= 0.97 for part in parts) >= 9, parts


@pytest.mark.parametrize("most", [4, 16])
def test_todays_setting_is_always_run_and_more_than_enough_or_may_be_tried_is_not(most):
    machine = Machine(sleeping(0.160), step_s=0.020)
    found = machine.search(present=S(24), needed=10, most=most)
    assert S(24) in machine.asked
    assert max(s.num_workers for s in machine.asked if s != S(24)) == min(most, 8)
    assert found.best.num_workers == min(most, 8)


@pytest.mark.parametrize("budget_s", [1.0, 5.0, 30.0])
@pytest.mark.parametrize("read_s", [0.001, 0.5, 10.0])
@pytest.mark.parametrize("start_s", [0.01, 2.0])
def test_the_budget_holds_but_for_a_run_that_takes_longer_than_any_before(
    budget_s, read_s, start_s
):
    machine = Machine(lambda s: read_s / max(1, s.num_workers), start_s=start_s)
    found = machine.search(budget_s=budget_s)
    assert machine.asked[0] == S(2)
    longest_s = 3 * read_s + 16 * start_s
    assert machine.now <= budget_s + longest_s
    assert found.best in found.runs
    if machine.now > budget_s:  # nothing else was begun then
        assert len(machine.asked) <= 2


def test_a_budget_that_was_too_short_is_told():
    found = Machine(sleeping(1.0), start_s=1.0).search(budget_s=10.0)
    assert found.too_short
    assert Machine(sleeping(0.02, 2.2), noise=0.5).search(needed=3, budget_s=5.0).too_short
    assert not Machine(sleeping(0.02, 2.2)).search(needed=3).too_short


@pytest.mark.parametrize("budget_s", [3.0, 30.0])
@pytest.mark.parametrize("present", [0, 2, 8])
def test_a_difference_that_is_noise_changes_nothing(present, budget_s):
    kept = 0
    for seed in range(10):
        machine = Machine(lambda s: 0.01, noise=1.0, start_s=0.0, seed=seed)
        found = machine.search(present=S(present), needed=8, budget_s=budget_s)
        assert found.best == S(present) or not found.unsettled
        kept += found.best == S(present)
    assert kept >= 8  # turns tell apart what is equal one time in twenty


def test_a_gain_beyond_the_noise_is_taken():
    for seed in range(5):
        found = Machine(sleeping(0.1), noise=0.3, seed=seed).search(present=S(1), needed=8)
        assert found.best.num_workers > 4
        assert not found.unsettled


def test_what_does_not_fit_is_not_run_and_what_was_killed_not_again():
    machine = Machine(sleeping(0.160))
    assert machine.search(fits=lambda s: s.num_workers < 5).best == S(4)
    assert max(s.num_workers for s in machine.asked) == 4
    machine = Machine(lambda s: math.inf)
    assert machine.search().best == S(2)  # as it is
    assert max(map(machine.asked.count, machine.asked)) == 1


class TestWhatIsTried:
    @pytest.mark.parametrize(
        ("read_s", "step_s", "cpu_s", "cpus", "needed"),
        [
            (0.16, 0.02, 0.0, 2, 10),
            (0.16, 0.0, 0.0, 2, 16),
            (0.16, 0.02, 0.16, 2, 3),
            (0.16, 0.02, 0.16, 64, 10),
            (0.001, 0.02, 0.0, 2, 1),
        ],
    )
    def test_what_is_needed_follows_from_two_rates_and_the_cpus(
        self, read_s, step_s, cpu_s, cpus, needed
    ):
        assert needed_workers(read_s, step_s, cpu_s, cpus, 16) == needed

    def test_no_workers_powers_of_two_what_is_needed_and_todays(self):
        first = first_settings(10, 16, S(3, 4, pin_memory=True))
        assert first[0] == S(3, 4, pin_memory=True)
        assert {s.num_workers for s in first} == {0, 1, 2, 3, 4, 8, 10, 16}
        assert all(s.pin_memory for s in first)
        assert {s.num_workers for s in first_settings(1, 16, S(0))} == {0, 1}

    @pytest.mark.parametrize(
        ("best", "tried", "more"),
        [
            (8, [0, 1, 2, 4, 8, 16], [6, 12]),
            (2, [0, 1, 2, 4], [3]),
            (8, [4, 8], [6, 16]),  # more may help
            (16, [8, 16], [12]),
            (0, [0, 1], []),
            (1, [0, 1, 2], []),
        ],
    )
    def test_beside_the_best_are_the_middles_of_the_gaps(self, best, tried, more):
        assert beside(best, tried, 16) == more

    def test_fewest_workers_are_cheapest_then_in_order_then_least_prefetch(self):
        in_turn = [S(0), S(1), S(1, 8), S(2, in_order=False), S(3)]
        assert [*sorted({*in_turn}, key=cheapness)] == in_turn
        assert (most_workers(2), most_workers(23.5)) == (16, 48)
