"""What threads of one worker share: the CPUs with its helpers, Python's lock with its queue."""

from typing import Any

import numpy as np
import pytest

from loaderviz import Costs, Trace, simulate

GIVEN: dict[str, Any] = {"batch_size": 8, "n_samples": 320}
COMPUTES: dict[str, Any] = {"sample_s": 0.01, "cpu_share": 1.0}
BOTH = [2.0, 100.0]  # CPUs: full, and to spare


def took_s(costs: Costs | Trace, **settings: Any) -> float:
    trace = costs if isinstance(costs, Trace) else simulate(costs, **{**GIVEN, **settings})
    return float(trace.batches["released_s"].max())


class TestHelperThreads:
    @pytest.mark.parametrize(
        ("threads", "cores", "num_workers", "seconds"),
        [
            (1, 2, 2, 1.6),
            (2, 2, 1, 3.2),
            (2, 2, 4, 3.2),  # two CPUs are full with one worker
            (1, 1, 1, 3.2),
            (2, 1, 1, 6.4),  # on one CPU they take turns
            (2, 1, 0, 6.4),
            (3, 16, 2, 1.6),  # enough CPUs for all
            (1e6, 2, 4, 1.6e6),  # are simulated in no time
        ],
    )
    def test_share_the_cpus_with_all_others(self, threads, cores, num_workers, seconds):
        costs = Costs(**COMPUTES, threads=threads, cores=cores)
        assert took_s(costs, num_workers=num_workers) == pytest.approx(seconds, rel=0.05)

    @pytest.mark.parametrize("threads", [1, 3])
    def test_a_trace_shows_how_many_there_are(self, threads):
        costs = Costs(**COMPUTES, threads=threads, cores=4)
        fitted = Costs.from_trace(simulate(costs, num_workers=1, **GIVEN))
        assert fitted.threads == pytest.approx(threads, rel=0.1)
        for num_workers in (1, 2, 4):
            expected = took_s(costs, num_workers=num_workers)
            assert took_s(fitted, num_workers=num_workers) == pytest.approx(expected, rel=0.1)


class TestPythonsLock:
    """A batch is taken while its worker reads the next one, in pure Python."""

    COSTS: dict[str, Any] = {"sample_s": 0.004, "cpu_share": 1.0, "take_s": 0.001}  # noqa: RUF012

    @pytest.mark.parametrize("cores", BOTH)
    def test_a_worker_that_reads_is_late_to_hand_over_to_the_loop_or_the_pin_thread(self, cores):
        costs = {**self.COSTS, "step_s": 0.025, "cores": cores}
        free, held = Costs(**costs), Costs(**costs, take_gil_s=0.02)
        settings = {"num_workers": 1, "prefetch_factor": 4}
        assert took_s(held, **settings) > 1.05 * took_s(free, **settings)
        pinned = simulate(held, num_workers=1, pin_memory=True, **GIVEN).batches
        assert (pinned["pinned_s"] - pinned["ready_s"]).median() > 0.02

    @pytest.mark.parametrize("cores", BOTH)
    def test_a_worker_that_has_nothing_to_read_is_not(self, cores):
        costs = Costs(**self.COSTS, step_s=0.2, cores=cores, take_gil_s=0.02)
        later = simulate(costs, num_workers=1, prefetch_factor=1, **GIVEN).batches[2:]
        handed_s = later["delivered_s"] - later["requested_s"]
        assert handed_s.max() == pytest.approx(0.001, abs=2e-4)

    def test_no_longer_than_the_worker_reads(self):
        costs = {**self.COSTS, "step_s": 0.001, "cores": 100.0}
        free, held = (Costs(**costs, take_gil_s=seconds) for seconds in (0.0, 100.0))
        assert took_s(held, num_workers=1) < 2 * took_s(free, num_workers=1)

    def test_a_trace_shows_it_where_workers_read_now_and_then(self):
        steps = np.tile([0.005, 0.005, 0.005, 0.3], 20)
        costs = Costs(**self.COSTS, step_s=steps, take_gil_s=0.01, cores=100.0)
        fitted = Costs.from_trace(simulate(costs, num_workers=2, prefetch_factor=2, **GIVEN))
        assert fitted.take_s < 0.003
        for num_workers in (1, 2, 3):
            expected = took_s(costs, num_workers=num_workers)
            assert took_s(fitted, num_workers=num_workers) == pytest.approx(expected, rel=0.1)

    def test_none_is_made_up_of_batches_that_are_costly_to_take(self):
        costs = Costs(sample_s=0.004, take_s=0.02, step_s=0.025)
        fitted = Costs.from_trace(simulate(costs, num_workers=1, **GIVEN))
        assert fitted.take_gil_s == 0


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_sampler_costs_by_the_key_and_once_more_before_an_epochs_first_batch(num_workers):
    given: dict[str, Any] = {"num_workers": num_workers, "n_samples": 320, "epochs": 3}
    given["persistent_workers"] = num_workers > 0
    quick = {"sample_s": 1e-4, "sampler_s": 0.002}
    recorded = simulate(Costs(**quick, first_key_s=0.5), batch_size=8, **given)
    plain = simulate(Costs(**quick), batch_size=8, **given)
    assert took_s(recorded) - took_s(plain) == pytest.approx(3 * 0.5, rel=0.02)
    fitted = Costs.from_trace(recorded)
    assert fitted.first_key_s == pytest.approx(0.5, rel=0.05)
    assert fitted.sampler_s == pytest.approx(0.002, rel=0.05)
    for batch_size in (4, 32):
        assert took_s(fitted, **{**given, "batch_size": batch_size}) >= 3 * (0.5 + 320 * 0.002)
