"""The pace of a run that is too short for what lies ready to come into balance."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from loaderviz import Costs, simulate
from loaderviz._recommend.run_pace import Step, pace_of_run
from loaderviz.loader_settings import LoaderSettings


def steps(took_s: Any, n_ahead: Any) -> list[Step]:
    ends_s = accumulate(took_s, initial=0.0)
    return [Step(end_s, ahead) for end_s, ahead in zip(ends_s, n_ahead, strict=False)]


def test_batches_that_lay_ready_are_no_pace():
    """Twenty lie ready, one in 20 ms is made, and a step takes 10 ms."""
    took_s = [0.010] * 40 + [0.020] * 40
    n_ahead = [*(20 - n / 2 for n in range(40)), *[0] * 41]
    pace_s, first = pace_of_run(steps(took_s, n_ahead), LoaderSettings(1, 20))
    assert pace_s == pytest.approx(0.020)
    assert first >= 40


def test_nor_are_batches_that_are_made_and_not_taken():
    """Two workers, of which one gets twenty ahead of the other, and then has to wait for it."""
    took_s = [0.020] * 80
    n_ahead = [*(min(n / 2, 20) for n in range(81))]
    pace_s, _ = pace_of_run(steps(took_s, n_ahead), LoaderSettings(2, 20))
    assert pace_s == pytest.approx(0.020, rel=0.01)


def test_where_they_never_come_into_balance_half_of_the_difference_counts():
    took_s = [0.020] * 40
    pace_s, first = pace_of_run(steps(took_s, range(41)), LoaderSettings(1))
    assert pace_s == pytest.approx(0.020 * 2 / 3)
    assert first >= 1


def test_whole_rounds_of_all_workers_count():
    """Four batches come at once, every 80 ms; the run ends after the first of a round."""
    took_s = [0.0, 0.0, 0.0, 0.080] * 10
    n_ahead = [None, None, None, 0] * 10 + [None]
    pace_s, _ = pace_of_run(steps(took_s, n_ahead), LoaderSettings(4))
    assert pace_s == pytest.approx(0.020)


@pytest.mark.parametrize(("workers", "n"), [(0, 2), (1, 2), (8, 2), (8, 9), (8, 15)])
def test_a_run_of_few_batches_has_a_pace(workers, n):
    run = steps([0.020] * n, [None if i % max(workers, 1) else 0 for i in range(1, n + 1)])
    assert pace_of_run(run, LoaderSettings(workers))[0] == pytest.approx(0.020)


def test_a_long_run_is_soon_looked_through():
    run = steps([0.0001] * 200_000, [0] * 200_001)
    assert pace_of_run(run, LoaderSettings(1))[0] == pytest.approx(0.0001)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("workers", "prefetch"), [(3, 8), (3, 2), (4, 4), (8, 8)])
def test_a_short_run_is_as_fast_as_a_long_one(workers, prefetch, seed):
    """One sample in ten is slow: by chance the queue is full, or a worker ahead of the others."""
    sample_s = np.where(np.random.default_rng(seed).random(2000) < 0.1, 0.020, 0.002)
    costs = Costs(sample_s=sample_s, cpu_share=0.0, step_s=0.005, cores=2.0)
    settings = {"num_workers": workers, "prefetch_factor": prefetch, "batch_size": 4}
    batches = simulate(costs, n_batches=500, seed=seed, **settings).batches
    batches = batches.sort_values("delivered_s")
    ends_s, ready_s = batches["released_s"].to_numpy(), np.sort(batches["ready_s"].to_numpy())
    made = np.searchsorted(ready_s, ends_s, side="right")
    run = [
        Step(end_s, int(n) - i) for i, (end_s, n) in enumerate(zip(ends_s, made, strict=True), 1)
    ]
    usual_s = (ends_s[400] - ends_s[80]) / 320
    short_s = pace_of_run(run[:150], LoaderSettings(workers, prefetch))[0]
    assert short_s == pytest.approx(usual_s, rel=0.12)
